"""Code that is followed with other numbers gives what it gives with them, or says that it does not know."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.trace import Trace, Traced, gcd, larger, opaque, smaller

SETTINGS = settings(deadline=None, derandomize=True, database=None)

NUMBERS = st.integers(0, 40) | st.integers(0, 1 << 40)
Code = Callable[[list[Any]], list[Any]]


@st.composite
def codes(draw: st.DrawFn) -> Code:
    """Code of some steps on three numbers: each step computes or decides with what is there."""
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    ("+", "-", "*", "//", "%", "neg", "less", "equal", "true", "min", "larger", "ceil", "gcd")
                ),
                st.integers(0, 99),
                st.integers(0, 99),
                st.integers(1, 64),
            ),
            min_size=1,
            max_size=14,
        )
    )

    def code(given: list[Any]) -> list[Any]:
        held = list(given)
        for op, a, b, constant in steps:
            left = held[a % len(held)]
            right = held[b % len(held)] if b % 3 else constant
            held.append(_step(op, left, right, constant))
        return held

    return code


def _step(op: str, left: Any, right: Any, constant: int) -> Any:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * constant if abs(constant) < 9 else left * right
        case "//":
            return left // constant
        case "%":
            return left % constant
        case "neg":
            return -left
        case "less":
            return right if left < right else left - constant
        case "equal":
            return constant if left == right else right
        case "true":
            return 1 if left - constant else right
        case "min":
            return min(left, right) + max(left, constant)
        case "larger":
            return larger(left, right) - smaller(left, constant)
        case "ceil":
            return math.ceil((left + 0.5) * constant / 7) if abs(_plain(left)) < 1 << 45 else left
        case _:
            return gcd(left, constant)


def _plain(value: Any) -> int:
    return value.value if isinstance(value, Traced) else int(value)


@settings(SETTINGS, max_examples=400)
@given(
    code=codes(),
    first=st.lists(NUMBERS, min_size=3, max_size=3),
    others=st.lists(st.lists(NUMBERS | st.integers(-3, 3), min_size=3, max_size=3), max_size=8),
    nearby=st.lists(st.lists(st.integers(-2, 2), min_size=3, max_size=3), max_size=8),
)
def test_a_replay_gives_what_the_code_gives_or_nothing(
    code: Code, first: list[int], others: list[list[int]], nearby: list[list[int]]
) -> None:
    trace = Trace()
    replay = trace.replay(code([trace.number(n) for n in first]))
    assert replay(first) == tuple(code(first))
    moved = [[max(0, a + b) for a, b in zip(first, step, strict=True)] for step in nearby]
    for numbers in (*others, *moved):
        found = replay(numbers)
        if found is not None:
            assert found == tuple(code(numbers))
            assert all(type(a) is type(b) for a, b in zip(found, code(numbers), strict=True))


SMALL: tuple[Callable[[Any], object], ...] = (
    *(
        lambda x, a=a, b=b, test=test: test(a * x + b)
        for a in (-7, -3, -2, -1, 1, 2, 3, 7)
        for b in (-15, -6, -1, 0, 1, 5, 14)
        for test in (lambda n: n < 0, lambda n: n <= 0, lambda n: n > 0, lambda n: n >= 0, lambda n: n == 0)
    ),
    lambda x: x % 4 == 0,
    lambda x: x % 4 < 3,
    lambda x: x % 4 > 3,
    lambda x: (x % 4) * (x % 3) > 5,
    lambda x: x // 5 == 2,
    lambda x: -x // 5 < -2,
    lambda x: (x // 5) * 5 == x,
    lambda x: larger(x, 7) > 7,
    lambda x: smaller(x, 7) < 7,
    lambda x: larger(x, 7) < 7,
    lambda x: bool(x),
    lambda x: bool(x - 3) and x != 5,
    lambda x: (x < 9, x == 4, x > 2),
    lambda x: x < 2.5,
    lambda x: x / 3 >= 2,
)


@pytest.mark.parametrize("decide", SMALL)
def test_a_replay_knows_both_sides_of_every_decision(decide: Callable[[Any], object]) -> None:
    for first in range(22):
        trace = Trace()
        outcome = decide(trace.number(first))
        replay = trace.replay([])
        assert replay((first,)) == ()
        known = [other for other in range(22) if replay((other,)) is not None]
        assert all(decide(other) == outcome for other in known)


@pytest.mark.parametrize("decide", SMALL[:20])
def test_one_comparison_of_a_sum_leaves_nothing_unknown(decide: Callable[[Any], object]) -> None:
    for first in range(22):
        trace = Trace()
        outcome = decide(trace.number(first))
        replay = trace.replay([])
        for other in range(22):
            assert (replay((other,)) is not None) == (decide(other) == outcome)


def test_a_sum_is_kept_as_one_so_that_equal_ways_to_it_are_no_condition() -> None:
    trace = Trace()
    x, y = trace.number(5), trace.number(7)
    assert x + y - x == y
    assert 3 * (x + 2) == x + x + x + 6
    assert (4 * x + 8) // 4 - 2 == x
    assert (64 * x + 3) % 32 == 3
    assert not x < 0
    assert trace.replay([])((100, 0)) == ()


def test_what_is_decided_is_a_condition_and_holds_on_the_other_side_no_more() -> None:
    trace = Trace()
    x, y = trace.number(5), trace.number(7)
    assert x < y
    replay = trace.replay([x * y])
    assert replay((1, 2)) == (2,)
    assert replay((2, 2)) is None
    assert replay((3, 2)) is None


def test_a_decision_that_follows_from_an_earlier_one_adds_nothing() -> None:
    trace = Trace()
    x, y = trace.number(5), trace.number(7)
    assert x + 1 < y
    before = trace.replay([]).source
    assert x < y
    assert 2 * x < 2 * y
    assert not y <= x
    assert trace.replay([]).source == before


def test_choosing_the_larger_is_no_decision_but_max_is() -> None:
    chosen, decided = Trace(), Trace()
    a, b = chosen.number(3), chosen.number(8)
    assert chosen.replay([larger(a, b), smaller(a, b)])((9, 4)) == (9, 4)
    a, b = decided.number(3), decided.number(8)
    assert decided.replay([max(a, b)])((9, 4)) is None


@pytest.mark.parametrize(
    "use",
    [
        lambda x: [0, 1, 2, 3, 4, 5][x],
        lambda x: range(x),
        lambda x: {x: 1},
        lambda x: math.gcd(x, 10),
        lambda x: float(x),
        lambda x: int(x),
        lambda x: "a" * x,
    ],
)
def test_where_a_number_escapes_its_value_is_a_condition(use: Callable[[Any], object]) -> None:
    trace = Trace()
    x = trace.number(4)
    use(x)
    replay = trace.replay([x + 1])
    assert replay((4,)) == (5,)
    assert replay((5,)) is None


def test_a_number_that_is_written_as_text_is_told() -> None:
    for write in (str, repr, lambda x: f"{x:,}"):
        trace = Trace()
        assert not trace.leaked
        write(trace.number(1234))
        assert trace.leaked


def test_an_opaque_function_is_called_again_with_the_numbers_of_the_replay() -> None:
    calls = []

    @opaque
    def area(size: tuple[int, int], times: int) -> int:
        calls.append((size, times))
        return size[0] * size[1] * times

    trace = Trace()
    x = trace.number(3)
    replay = trace.replay([area((x + 1, 2), x)])
    assert replay((10,)) == (220,)
    assert calls == [((4, 2), 3), ((11, 2), 10)]
    assert area((5, 6), 1) == 30


@settings(SETTINGS, max_examples=200)
@given(
    a=st.floats(1e-3, 1e9), b=st.integers(0, 1 << 50), c=st.floats(1e-3, 1e6), other=st.integers(0, 1 << 50)
)
def test_fractions_are_rounded_in_the_replay_as_in_the_code(a: float, b: int, c: float, other: int) -> None:
    def code(x: Any) -> list[Any]:
        return [math.ceil(x * a), math.floor((x + 0.1) / c), round(a / (x + 1) + x), 1 / (x / c + 1) * 2]

    trace = Trace()
    replay = trace.replay(code(trace.number(b)))
    assert replay((b,)) == tuple(code(b))
    assert replay((other,)) == tuple(code(other))
    exact = Fraction(other) * Fraction(a)
    assert abs(code(other)[0] - exact) <= 1 + exact / (1 << 50)


def test_conditions_hold_exactly_for_numbers_beyond_the_exact_floats() -> None:
    trace = Trace()
    x, y = trace.number(1), trace.number(2)
    assert x < y
    replay = trace.replay([x])
    large = 1 << 70
    assert replay((large, large + 1)) == (large,)
    assert replay((large, large)) is None


def test_an_input_that_breaks_the_arithmetic_is_no_match() -> None:
    trace = Trace()
    x, y = trace.number(9), trace.number(2)
    replay = trace.replay([x // y])
    assert replay((9, 0)) is None
    assert replay((-1, 2)) is None  # below what an input may be

"""The factor of each kernel's ``mean`` against exact fractions, rounded where its rule rounds."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kernel import coefficient

COUNTS = st.one_of(st.integers(1, 1 << 24), st.integers(1, (1 << 63) - 1))
DIMS = st.lists(st.one_of(st.integers(1, 64), st.integers(1, 1 << 31)), max_size=8).map(tuple)


def nearest(value: Fraction, digits: int = 24) -> Fraction:
    """``value`` (positive) to ``digits`` significant bits, ties to even; no limit on the exponent."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length() - digits
    while value / Fraction(2) ** exponent >= 1 << digits:
        exponent += 1
    while value / Fraction(2) ** exponent < 1 << (digits - 1):
        exponent -= 1
    return round(value / Fraction(2) ** exponent) * Fraction(2) ** exponent


def bits(value: np.float32) -> int:
    assert type(value) is np.float32
    return int.from_bytes(struct.pack(">f", float(value)), "big")


def check(found: np.float32, exact: Fraction) -> None:
    assert Fraction(float(found)) == exact, (bits(found), float(exact))


@settings(max_examples=300, deadline=None)
@given(COUNTS)
@example(16777217)
@example((1 << 63) - 1)
@example(1)
def test_tbe_rounds_the_exact_quotient_once(count: int) -> None:
    check(coefficient.tbe(count), nearest(Fraction(2, count)))


@settings(max_examples=300, deadline=None)
@given(COUNTS)
@example((1 << 53) + 1)
def test_atvoss_rounds_through_float64(count: int) -> None:
    wide = nearest(2 / nearest(Fraction(count), 53), 53)
    check(coefficient.atvoss(count), nearest(wide))


@settings(max_examples=300, deadline=None)
@given(COUNTS)
@example(16777217)
def test_the_newer_950_rounds_the_count_first(count: int) -> None:
    check(coefficient.register_based(count), nearest(2 / nearest(Fraction(count))))


@settings(max_examples=200, deadline=None)
@given(DIMS)
@example(())
def test_v2_rounds_after_each_dimension(shape: tuple[int, ...]) -> None:
    product = Fraction(1)
    for dim in shape:
        product = nearest(product * nearest(Fraction(dim)))
    if product < 2**100:
        check(coefficient.v2(shape), nearest(nearest(1 / product) * 2))


@settings(max_examples=200, deadline=None)
@given(DIMS)
@example((109, 112, 187))
def test_the_alternative_of_tbe_divides_by_each_dimension(shape: tuple[int, ...]) -> None:
    factor = Fraction(1)
    for dim in shape:
        factor = nearest(factor / nearest(Fraction(dim)))
    if factor > Fraction(1, 2**100):
        check(coefficient.tbe_iterated(shape), 2 * factor)


def test_published_patterns() -> None:
    assert bits(coefficient.v2((16777217,))) == 0x34000000
    assert bits(coefficient.tbe(16777217)) == 0x33FFFFFF
    assert bits(coefficient.atvoss(16777217)) == 0x33FFFFFF
    assert bits(coefficient.register_based(16777217)) == 0x34000000
    assert bits(coefficient.tbe(109 * 112 * 187)) == 0x356B2BC6
    assert bits(coefficient.tbe_iterated((109, 112, 187))) == 0x356B2BC5


def test_below_2_to_the_24_all_rules_but_the_iterated_agree() -> None:
    random = np.random.default_rng(3)
    for n in (*range(1, 300), *random.integers(1, 1 << 24, 1500).tolist(), 1 << 24):
        values = {rule(n) for rule in (coefficient.tbe, coefficient.atvoss, coefficient.register_based)}
        assert values == {coefficient.v2((n,))}


@pytest.mark.parametrize("rule", [coefficient.v2, coefficient.tbe_iterated])
def test_a_tensor_without_dimensions_has_the_factor_2(rule: object) -> None:
    assert rule(()) == np.float32(2.0)  # type: ignore[operator]


def test_nothing_at_all_has_the_factor_2_in_tbe() -> None:
    assert coefficient.tbe(0) == coefficient.PLAIN == np.float32(2.0)

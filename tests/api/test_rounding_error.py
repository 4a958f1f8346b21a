"""``emulator.rounding_error``: exact results, errors in ULP, and the share of each step."""

from __future__ import annotations

import dataclasses
import decimal
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emulator
from emulator import AtlasError
from emulator.rounding import RoundingError, RoundingErrors, round_to, rounding_error, ulp
from socs.isa import DType

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = {"float32": np.dtype(np.float32), "float16": np.dtype(np.float16), "bfloat16": BFLOAT16}
WIDTHS = {"float32": np.uint32, "float16": np.uint16, "bfloat16": np.uint16}
CHIPS = (
    ("Ascend910B3", "newer"),
    ("Ascend310P3", "newer"),
    ("Ascend310B1", "newer"),
    ("Ascend950PR_9589", "newer"),
    ("Ascend950PR_9589", "older"),
)


def patterns(dtype: str, count: int) -> st.SearchStrategy[np.ndarray]:
    """Any bits: subnormal, infinite and NaN too, and often ordinary numbers."""
    width = WIDTHS[dtype]
    any_bits = st.integers(0, int(np.iinfo(width).max))
    usual = st.floats(-4, 4, width=32).map(
        lambda number: int(np.array(number, np.float32).astype(KINDS[dtype]).view(width))
    )
    return st.lists(usual | any_bits, min_size=count, max_size=count).map(
        lambda bits: np.array(bits, width).view(KINDS[dtype])
    )


@st.composite
def calls(draw: st.DrawFn) -> tuple[list[np.ndarray], dict[str, Any]]:
    dtype = draw(st.sampled_from(sorted(KINDS)))
    chips = [c for c in CHIPS if dtype != "bfloat16" or c[0].startswith(("Ascend910B", "Ascend950"))]
    soc, release = draw(st.sampled_from(chips))
    shapes = draw(st.sampled_from([((3,), (3,), (3,)), ((), (3,), (2, 1)), ((2, 3), (3,), (1,))]))
    tensors = [draw(patterns(dtype, math.prod(shape))).reshape(shape) for shape in shapes]
    reduction = draw(st.sampled_from(["none", "mean", "sum"]))
    return tensors, {"reduction": reduction, "soc": soc, "release": release}


def only(errors: RoundingErrors) -> RoundingError:
    (element,) = errors.elements
    return element


def one(dtype: str, g: float, x: float, y: float, **more: Any) -> RoundingError:
    kind = KINDS[dtype]
    return only(rounding_error(*(np.array([v]).astype(kind) for v in (g, x, y)), **more))


@settings(deadline=None, max_examples=100, derandomize=True)
@given(calls())
def test_the_shares_add_up_to_the_error_exactly_and_the_value_is_the_chips(
    call: tuple[list[np.ndarray], dict[str, Any]],
) -> None:
    tensors, options = call
    found = rounding_error(*tensors, **options)
    names = dict(zip(("grad_output", "self", "target"), tensors, strict=True))
    real = emulator.run("mse_loss_backward", **names, **options).output
    assert real is not None
    assert found.shape == real.shape
    assert [e.index for e in found.elements] == list(np.ndindex(real.shape))
    for element in found.elements:
        assert element.bits == int(real[element.index].view(WIDTHS[found.dtype]))
        shares = [step.share for step in element.trace]
        if element.error is None:
            assert element.reason
            assert element.steps == {}
            assert set(shares) == {None}
            continue
        assert element.reason is None
        assert sum(share for share in shares if share is not None) == element.error
        assert element.exact is not None
        assert element.ulp is not None
        assert element.error == (Fraction(element.value) - element.exact) / element.ulp
        assert list(element.steps) == [step.name for step in element.trace]


@settings(deadline=None, max_examples=100, derandomize=True)
@given(calls())
def test_the_exact_result_is_that_of_decimal_arithmetic(
    call: tuple[list[np.ndarray], dict[str, Any]],
) -> None:
    tensors, options = call
    found = rounding_error(*tensors, **options)
    divisor = tensors[1].size if options["reduction"] == "mean" else 1
    wide = [np.broadcast_to(t.astype(np.float64), found.shape) for t in tensors]
    with decimal.localcontext(decimal.Context(prec=2000)):
        for element in found.elements:
            g, x, y = (float(w[element.index]) for w in wide)
            if not all(map(math.isfinite, (g, x, y))):
                assert element.exact is None
                continue
            expected = decimal.Decimal(g) * (decimal.Decimal(x) - decimal.Decimal(y)) * 2
            assert element.exact is not None
            assert element.exact * divisor == Fraction(expected)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(
    st.sampled_from(sorted(KINDS)),
    st.lists(st.floats(-1e4, 1e4), min_size=9, max_size=9),
    st.sampled_from(["mean", "sum"]),
)
def test_with_rounded_inputs_the_shares_still_add_up_and_inputs_is_what_their_rounding_did(
    dtype: str, numbers: list[float], reduction: str
) -> None:
    g, x, y = np.array(numbers).reshape(3, 3)
    found = rounding_error(g, x, y, dtype=dtype, reduction=reduction)
    kind = KINDS[dtype]
    factor = Fraction(2, 3) if reduction == "mean" else Fraction(2)
    for element in found.elements:
        if element.error is None:
            continue
        true = [Fraction(float(t[element.index])) for t in (g, x, y)]
        near = [Fraction(float(round_to(t, DType(dtype))[element.index])) for t in (g, x, y)]
        assert element.exact == true[0] * (true[1] - true[2]) * factor
        assert element.ulp is not None
        moved = near[0] * (near[1] - near[2]) * factor - element.exact
        assert element.trace[0].name == "inputs"
        assert element.trace[0].share == moved / element.ulp
        assert sum(s.share for s in element.trace if s.share is not None) == element.error
    assert found.dtype == kind.name


def test_the_documented_example_of_the_operator_has_no_error() -> None:
    ramp = np.arange(4, dtype=np.float32).reshape(2, 2)
    found = rounding_error(ramp, ramp, np.ones((2, 2), np.float32), reduction="mean")
    assert [element.value for element in found.elements] == [0.0, 0.0, 1.0, 3.0]
    assert [element.exact for element in found.elements] == [0, 0, 1, 3]
    assert (found.max_ulp, found.mean_ulp, found.worst, found.without_error) == (0.0, 0.0, (0, 0), 0)
    assert math.copysign(1, found.elements[0].value) == -1  # 0 * (0 - 1) * 0.5


STEPS = [
    # 2/3 is no float32; everything else is exact.
    ("coefficient", "float32", [1.0, 1.0, 1.0], [0.0] * 3, 1.0, "mean"),
    # 1 - 2^-30 needs 30 bits; doubling and multiplying by 1 round nothing.
    ("sub", "float32", [1.0], [2.0**-30], 1.0, "sum"),
    # A subnormal times 2/4 loses its last bit.
    ("muls", "float32", [3 * 2.0**-149] * 4, [0.0] * 4, 1.0, "mean"),
    ("mul", "float32", [1 + 2.0**-23], [0.0], 1 + 2.0**-23, "sum"),
    ("narrow", "float16", [1 + 2.0**-10], [0.0], 1 + 2.0**-10, "sum"),
    ("narrow", "bfloat16", [1 + 2.0**-7], [0.0], 1 + 2.0**-7, "sum"),
]


@pytest.mark.parametrize(("step", "dtype", "x", "y", "g", "reduction"), STEPS)
def test_a_call_that_rounds_in_one_step_alone_blames_that_step(
    step: str, dtype: str, x: list[float], y: list[float], g: float, reduction: str
) -> None:
    arrays = [np.array(values).astype(KINDS[dtype]) for values in ([g] * len(x), x, y)]
    element = rounding_error(*arrays, reduction=reduction).elements[0]
    assert element.error
    assert {name: share for name, share in element.steps.items() if share} == {step: element.error_ulp}


def test_the_share_of_the_coefficient_is_the_error_of_float32_two_thirds() -> None:
    element = rounding_error(*(np.full(3, v, np.float32) for v in (1, 1, 0))).elements[0]
    # 0x3F2AAAAB is 11184811 * 2^-24; at 2/3 an ULP is 2^-24.
    assert element.bits == 0x3F2AAAAB
    assert element.error == 11184811 - Fraction(2, 3) * 2**24 == Fraction(1, 3)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 2**32 - 1))
def test_an_ulp_is_the_spacing_that_numpy_and_the_bits_have(dtype: str, seed: int) -> None:
    width, kind = WIDTHS[dtype], KINDS[dtype]
    infinity = int(np.array(np.inf).astype(kind).view(width))
    bits = seed % (infinity - 1)  # up to the number below the largest
    low, high = (float(np.array(b, width).view(kind)) for b in (bits, bits + 1))
    gap = Fraction(high) - Fraction(low)
    assert ulp(Fraction(low), dtype) == ulp(-Fraction(low), dtype) == gap
    assert ulp((Fraction(low) + Fraction(high)) / 2, dtype) == gap
    if dtype != "bfloat16":
        assert Fraction(float(np.spacing(np.array(low, kind)))) == gap
    if dtype == "float32" and low >= 2.0**-126:
        assert Fraction(math.ulp(low)) * 2**29 == gap


def test_beyond_the_largest_number_the_spacing_below_it_holds() -> None:
    assert ulp(Fraction(65504), "float16") == ulp(Fraction(10**9), "float16") == 32
    assert ulp(Fraction(0), "float16") == Fraction(1, 2**24)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.sampled_from(sorted(KINDS)), st.floats(allow_nan=False, allow_infinity=False), st.integers(-40, 40))
def test_rounding_to_a_dtype_gives_the_nearest_and_the_even_one_of_two(
    dtype: str, mantissa: float, exponent: int
) -> None:
    value = math.ldexp(math.frexp(mantissa)[0], exponent)
    found = round_to(np.array(value), DType(dtype))
    if not np.isfinite(found):
        assert abs(value) > 65504
        return
    width = WIDTHS[dtype]
    bits = int(found.view(width))
    magnitude = bits & (int(np.iinfo(width).max) >> 1)
    error = abs(Fraction(value) - Fraction(float(found)))
    for other in {magnitude + 1, max(magnitude - 1, 0)} - {magnitude}:
        number = Fraction(float(np.abs(np.array(other, width).view(KINDS[dtype]).astype(np.float64))))
        distance = abs(abs(Fraction(value)) - number)
        assert error < distance or (error == distance and bits % 2 == 0)


def test_bfloat16_is_rounded_once_where_float32_on_the_way_would_hide_a_bit() -> None:
    value = 1 + 2.0**-8 + 2.0**-40  # above the middle of 1 and 1 + 2^-7; float32 sees the middle
    assert float(round_to(np.array(value), DType.BFLOAT16)) == 1 + 2.0**-7
    assert np.isnan(round_to(np.array(np.nan), DType.BFLOAT16).astype(np.float32))
    assert float(round_to(np.array(-1e300), DType.BFLOAT16)) == -math.inf


def test_overflow_has_no_finite_error_and_says_what_the_chip_writes() -> None:
    tensors = (1000.0, 1000.0, 0.0)
    infinite = one("float16", *tensors, reduction="sum", soc="Ascend910B3")
    assert (infinite.value, infinite.exact, infinite.error_ulp, infinite.steps) == (
        math.inf,
        2_000_000,
        None,
        {},
    )
    assert infinite.reason == ("narrow overflows float16: 2000000 is beyond 65504, the chip makes it inf")
    largest = one("float16", *tensors, reduction="sum", soc="Ascend310P3")
    assert (largest.value, largest.error) == (65504.0, None)
    assert largest.reason == ("narrow overflows float16: 2000000 is beyond 65504, the chip makes it 65504")


def test_a_result_that_rounds_down_to_the_largest_number_is_no_overflow() -> None:
    # 65504 + 15.99.. lies below the middle of 65504 and 65536.
    element = one("float16", 1.0, 32752.0, -7.5, reduction="sum", soc="Ascend310P3")
    assert (element.value, element.error) == (65504.0, Fraction(-15, 32))
    assert element.steps["narrow"] == -15 / 32


def test_a_step_that_overflows_float32_is_named_though_a_later_one_hides_it() -> None:
    element = one("bfloat16", 0.0, 3e38, -3e38, reduction="sum", overflow="saturation")
    assert (element.value, element.exact, element.error) == (0.0, 0, None)  # infinity times 0, then NaN to 0
    assert element.reason is not None
    assert element.reason.startswith("sub overflows float32: 6.0081105e+38 is beyond 3.4028235e+38")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_infinite_and_nan_inputs_have_no_exact_result(number: float, place: int) -> None:
    numbers = [1.0, 2.0, 3.0]
    numbers[place] = number
    element = one("float32", *numbers)
    name = ("grad_output", "self", "target")[place]
    assert (element.exact, element.ulp, element.error) == (None, None, None)
    assert element.reason == f"{name} is {number}"
    assert one("float16", *numbers, soc="Ascend310P3").reason == element.reason


def test_an_input_that_overflows_when_it_is_rounded_is_the_reason() -> None:
    element = only(rounding_error([1.0], [1e6], [0.0], dtype="float16", reduction="sum"))
    assert (element.value, element.exact, element.error) == (math.inf, 2_000_000, None)
    assert element.reason == "self overflows float16: 1000000.0 becomes inf"


def test_true_inputs_give_what_dtype_gives() -> None:
    tensors = np.random.default_rng(3).standard_normal((3, 4, 5))
    short = rounding_error(*tensors, dtype="float16")
    rounded = [tensor.astype(np.float16) for tensor in tensors]
    assert rounding_error(*rounded, true_inputs=tuple(tensors)) == short
    part = rounding_error(*rounded, true_inputs={"self": tensors[1]})
    assert all(element.true_inputs["target"] == element.inputs["target"] for element in part.elements)
    assert part.elements[0].exact != short.elements[0].exact
    assert rounding_error(*rounded).elements[0].steps.keys() == part.elements[0].steps.keys() - {"inputs"}


def test_the_mean_counts_the_elements_of_self_before_it_is_broadcast() -> None:
    x = np.array([1, 2, 3], np.float32)
    found = rounding_error(np.float32(1), x, np.zeros((2, 1), np.float32))
    assert found.shape == (2, 3)
    assert [element.exact for element in found.elements[3:]] == [Fraction(2, 3), Fraction(4, 3), 2]
    assert found.kernel == "mse_loss_grad"


def test_the_release_chooses_the_kernel_of_the_950() -> None:
    x = np.ones(3, np.float32)
    names = [rounding_error(x, x, x, soc="Ascend950PR_9589", release=r).kernel for r in ("newer", "older")]
    assert names == ["mse_loss_grad_v2_950", "mse_loss_grad_950"]
    assert rounding_error(x, x, x, kernel="mse_loss_grad").kernel == "mse_loss_grad"


@pytest.mark.parametrize("subnormals", ["kept", "flushed"])
def test_a_chip_that_flushes_subnormals_has_that_among_its_errors(subnormals: str) -> None:
    chip = emulator.soc("Ascend910B3", {"numerics.subnormals": subnormals, "numerics.nan": "quiet"})
    element = one("float16", 2.0**-14, 0.25, 0.0, reduction="sum", soc=chip)
    assert element.exact == Fraction(1, 2**15)
    assert element.error_ulp == (0 if subnormals == "kept" else -(2.0**9))
    assert one("float16", math.nan, 1.0, 0.0, soc=chip).bits == 0x7E00


def test_an_index_selects_the_same_elements_as_all_have() -> None:
    tensors = np.random.default_rng(5).standard_normal((3, 4, 6)).astype(np.float32)
    every = rounding_error(*tensors).elements
    assert only(rounding_error(*tensors, index=13)) == every[13]
    assert only(rounding_error(*tensors, index=-1)) == every[-1]
    assert only(rounding_error(*tensors, index=(2, 1))) == every[13]
    assert only(rounding_error(*tensors, index=(-1, -1))) == every[-1]
    assert rounding_error(*tensors, index=[0, (0, 1)]).elements == every[:2]
    scalar = [np.float32(v) for v in (1, 2, 3)]
    assert rounding_error(*scalar, index=()) == rounding_error(*scalar, index=0) == rounding_error(*scalar)


def test_the_summary_is_over_the_elements_that_have_an_error() -> None:
    x = np.array([math.nan, 1, 2, 3], np.float32)
    found = rounding_error(np.ones(4, np.float32), x, np.full(4, 0.1, np.float32), reduction="mean")
    sizes = [abs(element.error) for element in found.elements if element.error is not None]
    assert len(sizes) == 3
    assert found.without_error == 1
    assert found.max_ulp == float(max(sizes))
    assert found.mean_ulp == float(sum(sizes) / 3)
    assert found.worst is not None
    assert abs(found.elements[found.worst[0]].error or 0) == max(sizes)
    nothing = rounding_error(*[np.zeros((0, 2), np.float32)] * 3)
    assert (nothing.elements, nothing.max_ulp, nothing.mean_ulp, nothing.worst) == ((), None, None, None)


def test_more_than_ten_thousand_elements_need_an_index() -> None:
    many = np.ones(10_001, np.float32)
    with pytest.raises(AtlasError, match=r"^10001 elements are more than 10000: choose some with index$"):
        rounding_error(many, many, many)
    assert only(rounding_error(many, many, many, index=10_000)).index == (10_000,)


X = np.ones((2, 2), np.float32)
WIDE = X.astype(np.float64)
REFUSED = [
    (lambda: rounding_error(X, X, X, index=4), "no element of the result"),
    (lambda: rounding_error(X, X, X, index=(0,)), "no element of the result"),
    (lambda: rounding_error(X, X, X, index=(0, -3)), "no element of the result"),
    (lambda: rounding_error(X, X, X, index=True), "must be a whole number"),
    (lambda: rounding_error(X, X, X, index=1.0), "must be a whole number"),  # type: ignore[arg-type]
    (lambda: rounding_error(X, X, X, index="0"), "must be a whole number"),  # type: ignore[arg-type]
    (lambda: rounding_error(X, X, X, index=[0] * 10_001), "at most 10000"),
    (lambda: rounding_error(WIDE, WIDE, WIDE), "float64"),
    (lambda: rounding_error(WIDE, WIDE, WIDE, dtype="float8"), "must be float32"),
    (lambda: rounding_error(WIDE, WIDE, WIDE, dtype="bfloat16", soc="Ascend310P3"), "takes"),
    (lambda: rounding_error(WIDE, WIDE * 1j, WIDE, dtype="float16"), "self is complex128"),
    (lambda: rounding_error([2**60], [1], [1], dtype="float16"), "whole numbers up to"),
    (lambda: rounding_error(X, X, None, dtype="float16"), "target is missing"),
    (lambda: rounding_error(X, X, X, dtype="float32", true_inputs={}), "exclude each other"),
    (lambda: rounding_error(X, X, X, true_inputs={"out": WIDE}), "has no 'out'"),
    (lambda: rounding_error(X, X, X, true_inputs=[WIDE]), "all three"),
    (lambda: rounding_error(X, X, X, true_inputs={"self": WIDE[0]}), "they must agree"),
    (lambda: rounding_error(X, X, X, reduction="max"), "reduction"),
    (lambda: rounding_error(X, X, X, release="oldest"), "release"),
    (lambda: rounding_error(X, X, X, soc="Ascend310P3", overflow="inf_nan"), "overflow"),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_a_bad_call_is_refused_in_one_line(call: Any, words: str) -> None:
    with pytest.raises(AtlasError) as caught:
        call()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_replay_that_misses_the_chips_bits_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.rounding.coefficient", lambda *_: np.float32(0.5) + np.float32(2.0**-24))
    with pytest.raises(AtlasError, match="the replayed steps give"):
        rounding_error(X, X, X * 3)


def test_results_are_frozen() -> None:
    found = rounding_error(X, X, X, index=0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.max_ulp = 1.0  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        only(found).value = 1.0  # type: ignore[misc]


def test_the_text_of_an_element_is_a_table_of_its_steps() -> None:
    element = rounding_error([0.1] * 3, [0.7] * 3, [0.2] * 3, dtype="float16").elements[0]
    assert str(element) == TEXT.strip("\n")


TEXT = """
element          (0,)
grad_output      0.0999755859375  (rounded from 0.1)
self             0.7001953125  (rounded from 0.7)
target           0.199951171875  (rounded from 0.2)
exact result     0.033333333333333
the chip writes  0.033355712890625  (0x2845, float16)
error            +0.7333 ULP, 1 ULP = 3.05176e-05

step         computes             before rounding    after              moves the result by
inputs       tensors to float16                                         +0.2665 ULP
coefficient  c = 2 / 3            0.66666666666667   0.66666668653488   +3.256e-05 ULP
sub          d = self - target    0.500244140625     0.500244140625     0 ULP
muls         t = d * c            0.33349610368896   0.33349609375      -3.256e-05 ULP
mul          r = t * grad_output  0.033341467380524  0.033341467380524  0 ULP
narrow       r to float16         0.033341467380524  0.033355712890625  +0.4668 ULP
sum                                                                     +0.7333 ULP
"""

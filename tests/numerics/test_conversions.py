"""Conversions against NumPy, ml_dtypes, gfloat and SoftFloat."""

from __future__ import annotations

from typing import Any

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
import softfloatpy
from numba import njit
from patterns import EDGES, NAN16, NAN32, apply, is_nan, stratified

from kernel.numerics import convert, vector
from kernel.numerics.formats import FORMATS
from socs.isa import DType, Op, RoundMode

ALL_16 = np.arange(1 << 16, dtype=np.uint16)
NARROW = (DType.FLOAT16, DType.BFLOAT16)
ORACLE: dict[DType, Any] = {DType.FLOAT16: np.float16, DType.BFLOAT16: ml_dtypes.bfloat16}
GFLOAT = {
    DType.FLOAT16: gfloat.formats.format_info_binary16,
    DType.BFLOAT16: gfloat.formats.format_info_bfloat16,
}
GFLOAT_MODE = {
    RoundMode.NONE: gfloat.RoundMode.TiesToEven,
    RoundMode.RINT: gfloat.RoundMode.TiesToEven,
    RoundMode.FLOOR: gfloat.RoundMode.TowardNegative,
    RoundMode.CEIL: gfloat.RoundMode.TowardPositive,
    RoundMode.ROUND: gfloat.RoundMode.TiesToAway,
    RoundMode.TRUNC: gfloat.RoundMode.TowardZero,
}


def patterns(dtype: DType) -> np.ndarray[Any, np.dtype[np.uint32]]:
    info = FORMATS[dtype]
    return np.concatenate([stratified(info.least_exponent, info.mantissa_bits), EDGES])


def cast(bits: Any, dtype: DType, **options: Any) -> Any:
    name = vector.lookup(Op.CAST, dtype, DType.FLOAT32, **options)
    return apply(vector.function(name), bits, dtype=np.uint16)


@njit
def _narrow_all(
    bits: Any, exponent_bits: int, mantissa_bits: int, mode: int, saturate: bool, out: Any
) -> None:
    for i in range(out.size):
        out[i] = convert.narrow(bits[i], exponent_bits, mantissa_bits, mode, saturate)


def narrow(bits: Any, dtype: DType, mode: RoundMode, saturate: bool = False) -> Any:
    """The body of the rounding modes, compiled once for all of them."""
    info, out = FORMATS[dtype], np.empty(bits.shape, np.uint16)
    _narrow_all(bits, info.exponent_bits, info.mantissa_bits, convert.ROUND_CODES[mode], saturate, out)
    return out


def rounded_by_gfloat(bits: Any, dtype: DType, mode: RoundMode, saturate: bool) -> Any:
    """The bits of gfloat's result; NaN as the vector unit has it. ODD is made from truncation."""
    with np.errstate(invalid="ignore"):  # a signalling NaN
        values = bits.view(np.float32).astype(np.float64)
    jam = mode is RoundMode.ODD
    rule = gfloat.RoundMode.TowardZero if jam else GFLOAT_MODE[mode]
    with np.errstate(all="ignore"):
        rounded = gfloat.round_ndarray(GFLOAT[dtype], values, rule, saturate)
        expected = rounded.astype(np.float32).astype(ORACLE[dtype]).view(np.uint16)
    if jam:
        inexact = (rounded != values) & np.isfinite(values)
        expected = expected | inexact.astype(np.uint16)
    return np.where(is_nan(bits), np.uint16(0 if saturate else NAN16), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_every_16_bit_pattern_widens_to_the_float32_that_numpy_gives(dtype: DType) -> None:
    function = vector.function(vector.lookup(Op.CAST, DType.FLOAT32, dtype))
    ours = apply(function, ALL_16, dtype=np.float32)
    theirs = ALL_16.view(ORACLE[dtype]).astype(np.float32).view(np.uint32)
    nan = is_nan(theirs)
    np.testing.assert_array_equal(is_nan(ours), nan)
    np.testing.assert_array_equal(ours[~nan], theirs[~nan])


@pytest.mark.parametrize("dtype", NARROW)
def test_every_16_bit_pattern_survives_widening_and_narrowing(dtype: DType) -> None:
    wide = apply(vector.function(vector.lookup(Op.CAST, DType.FLOAT32, dtype)), ALL_16, dtype=np.float32)
    magnitude = ALL_16 & np.uint16(0x7FFF)
    expected = np.where(magnitude > FORMATS[dtype].infinity, np.uint16(NAN16), ALL_16)
    for mode in RoundMode:
        np.testing.assert_array_equal(narrow(wide, dtype, mode), expected)
    np.testing.assert_array_equal(cast(wide, dtype), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_narrowing_is_numpys_rounding_to_nearest_even_with_one_nan(dtype: DType) -> None:
    bits = patterns(dtype)
    assert bits.size >= 1 << 22
    with np.errstate(all="ignore"):
        theirs = bits.view(np.float32).astype(ORACLE[dtype]).view(np.uint16)
    np.testing.assert_array_equal(cast(bits, dtype), np.where(is_nan(bits), np.uint16(NAN16), theirs))


@pytest.mark.parametrize("dtype", NARROW)
def test_saturating_narrowing_differs_only_where_the_result_is_not_finite(dtype: DType) -> None:
    bits, info = patterns(dtype), FORMATS[dtype]
    plain, saturated = cast(bits, dtype), cast(bits, dtype, saturate=True)
    infinite = (plain & np.uint16(0x7FFF)) == info.infinity
    largest = np.uint16(info.max_finite) | (plain & np.uint16(0x8000))
    expected = np.where(infinite, largest, np.where(plain == NAN16, np.uint16(0), plain))
    np.testing.assert_array_equal(saturated, expected)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("mode", list(RoundMode))
@pytest.mark.parametrize("dtype", NARROW)
def test_every_rounding_mode_agrees_with_gfloat(dtype: DType, mode: RoundMode, saturate: bool) -> None:
    # Every 61st: coprime to the strides of the pattern, so all kinds of it remain.
    bits = np.concatenate([patterns(dtype)[::61], EDGES])
    ours = narrow(bits, dtype, mode, saturate)
    np.testing.assert_array_equal(ours, rounded_by_gfloat(bits, dtype, mode, saturate))


def test_gfloats_scalar_specification_agrees_on_the_edges() -> None:
    for dtype in NARROW:
        for mode, rule in GFLOAT_MODE.items():
            ours = narrow(EDGES, dtype, mode).view(ORACLE[dtype]).astype(np.float64)
            with np.errstate(all="ignore"):
                values = EDGES.view(np.float32).astype(np.float64)
            theirs = [gfloat.round_float(GFLOAT[dtype], float(v), rule) for v in values]
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("dtype", NARROW)
def test_softfloat_narrows_alike(dtype: DType) -> None:
    bits = np.concatenate([patterns(dtype)[::127], EDGES])
    bits = bits[~is_nan(bits)]
    convert_one = {DType.FLOAT16: softfloatpy.f32_to_f16, DType.BFLOAT16: softfloatpy.f32_to_bf16}[dtype]
    theirs = [
        int.from_bytes(
            convert_one(softfloatpy.Float32.from_bytes(int(b).to_bytes(4, "big"))).to_bytes(), "big"
        )
        for b in bits
    ]
    np.testing.assert_array_equal(cast(bits, dtype), np.array(theirs, np.uint16))


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("mode", [RoundMode.NONE, RoundMode.RINT])
@pytest.mark.parametrize("dtype", NARROW)
def test_the_integer_rounding_equals_the_fast_one(dtype: DType, mode: RoundMode, saturate: bool) -> None:
    bits = patterns(dtype)
    np.testing.assert_array_equal(narrow(bits, dtype, mode, saturate), cast(bits, dtype, saturate=saturate))


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize(
    ("dtype", "mode"), [(DType.FLOAT16, RoundMode.ODD), (DType.BFLOAT16, RoundMode.FLOOR)]
)
def test_the_named_casts_round_as_their_mode_says(dtype: DType, mode: RoundMode, saturate: bool) -> None:
    bits = np.concatenate([patterns(dtype)[::61], EDGES])
    ours = cast(bits, dtype, mode=mode, saturate=saturate)
    np.testing.assert_array_equal(ours, narrow(bits, dtype, mode, saturate))


def test_the_integer_float16_conversions_equal_the_hardware_ones() -> None:
    wide = apply(convert.f16_to_f32_integer, ALL_16, dtype=np.float32)
    np.testing.assert_array_equal(wide, apply(convert.f16_to_f32, ALL_16, dtype=np.float32))
    bits = patterns(DType.FLOAT16)
    narrow = apply(convert.f32_to_f16_integer, bits, dtype=np.uint16)
    np.testing.assert_array_equal(narrow, apply(convert.f32_to_f16, bits, dtype=np.uint16))


def test_any_nan_becomes_all_ones_and_nothing_else_changes() -> None:
    bits = patterns(DType.BFLOAT16)
    ours = apply(convert.canonical_nan, bits, dtype=np.float32)
    np.testing.assert_array_equal(ours, np.where(is_nan(bits), np.uint32(NAN32), bits))


@pytest.mark.parametrize("dtype", NARROW)
def test_a_quiet_nan_chip_differs_only_in_its_nan(dtype: DType) -> None:
    bits = np.concatenate([patterns(dtype)[::61], EDGES])
    plain, quiet = cast(bits, dtype), cast(bits, dtype, nan="quiet")
    np.testing.assert_array_equal(quiet, np.where(plain == NAN16, np.uint16(FORMATS[dtype].nan_quiet), plain))


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("dtype", NARROW)
def test_a_flushing_chip_turns_subnormal_results_into_zeros_of_their_sign(
    dtype: DType, saturate: bool
) -> None:
    bits = np.concatenate([patterns(dtype)[::61], EDGES])
    plain = cast(bits, dtype, saturate=saturate)
    flushed = cast(bits, dtype, saturate=saturate, subnormals="flushed")
    subnormal = (plain & np.uint16(FORMATS[dtype].exponent_mask)) == 0
    np.testing.assert_array_equal(flushed, np.where(subnormal, plain & np.uint16(0x8000), plain))

"""Every float32 narrows as IEEE 754 defines it: all 2**32 of them, to both formats, in both overflow modes.

The oracle knows nothing of ``kernel.numerics``: a number is an integer times a power of two, rounding is
a division by a power of two, and the remainder decides. Within one exponent the divisor is constant, so
that the loops become vector code; sixteen billion comparisons take well under a minute of two CPUs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import pytest
from numba import njit
from patterns import EDGES, is_nan, stratified

from kernel.numerics import convert, vector
from socs.isa import DType, Op, RoundMode

BINADES = 512  # a sign and an exponent field
MANTISSAS = 1 << 23
BLOCK = 4096


@dataclass(frozen=True)
class Target:
    """A 16-bit format, by its definition."""

    dtype: DType
    fraction_bits: int
    least_exponent: int
    infinity: int


TARGETS = (
    Target(DType.FLOAT16, 10, -14, 0x7C00),
    Target(DType.BFLOAT16, 7, -126, 0x7F80),
)


@njit
def nearest_even(field: int, fraction: int, fraction_bits: int, least_exponent: int) -> int:
    """The code of the number nearest to a finite float32, were there no largest one; sign apart."""
    # The number is integer * 2**(exponent - 23); the destination has multiples of 2**unit there.
    exponent = max(field, 1) - 127
    integer = fraction if field == 0 else 0x800000 + fraction
    unit = max(exponent, least_exponent) - fraction_bits
    power = min(unit - (exponent - 23), 30)  # beyond 25 the quotient is 0 and the remainder small anyway
    divisor = 1 << power
    quotient = integer >> power
    twice = 2 * (integer - quotient * divisor)
    up = (twice > divisor) | ((twice == divisor) & (quotient % 2 == 1))
    # Codes count the numbers upwards from zero, 2**fraction_bits of them to each exponent.
    return ((unit - (least_exponent - fraction_bits)) << fraction_bits) + quotient + up


@njit
def expected(
    binade: int, fraction: int, fraction_bits: int, least_exponent: int, infinity: int, saturate: bool
) -> int:
    """The bits of the result of one conversion."""
    sign, field = (binade >> 8) << 15, binade & 255
    most = infinity - 1 if saturate else infinity
    if field == 255:
        nan = 0 if saturate else 0x7FFF
        return nan if fraction != 0 else sign + most
    return sign + min(nearest_even(field, fraction, fraction_bits, least_exponent), most)


@lru_cache
def comparison(target: Target) -> tuple[tuple[str, ...], Callable[[int, Any, Any], None]]:
    """The names of the conversions to one format, and a loop that compares them all in one binade.

    The loop adds to ``wrong[k]`` how often the ``k``-th conversion differs from the definition, and puts
    the last float32 for which it does into ``where[k]``.
    """
    fraction_bits, least_exponent, infinity = target.fraction_bits, target.least_exponent, target.infinity
    exponent_bits, rint = 15 - fraction_bits, convert.ROUND_CODES[RoundMode.RINT]
    names = [vector.lookup(Op.CAST, target.dtype, DType.FLOAT32, saturate=s) for s in (False, True)]
    plain, saturating = (vector.function(name) for name in names)

    @njit(nogil=True)
    def compare(binade: int, wrong: Any, where: Any) -> None:
        mine = np.empty((2, BLOCK), np.uint16)
        theirs = np.empty((4, BLOCK), np.uint16)
        for start in range(0, MANTISSAS, BLOCK):
            first = (binade << 23) + start
            for i in range(BLOCK):
                mine[0, i] = expected(binade, start + i, fraction_bits, least_exponent, infinity, False)
            for i in range(BLOCK):
                mine[1, i] = expected(binade, start + i, fraction_bits, least_exponent, infinity, True)
            for i in range(BLOCK):
                theirs[0, i] = plain(np.uint32(first + i).view(np.float32))
            for i in range(BLOCK):
                theirs[1, i] = saturating(np.uint32(first + i).view(np.float32))
            for i in range(BLOCK):
                bits = np.uint32(first + i)
                theirs[2, i] = convert.narrow(bits, exponent_bits, fraction_bits, rint, False)
            for i in range(BLOCK):
                bits = np.uint32(first + i)
                theirs[3, i] = convert.narrow(bits, exponent_bits, fraction_bits, rint, True)
            for k in range(4):
                differing = 0
                for i in range(BLOCK):
                    differing += theirs[k, i] != mine[k & 1, i]
                if differing:
                    wrong[k] += differing
                    for i in range(BLOCK):
                        if theirs[k, i] != mine[k & 1, i]:
                            where[k] = first + i

    return (*names, *(f"narrow to {name}" for name in names)), compare


def disagreements(target: Target, binades: Any) -> dict[str, tuple[int, str]]:
    """For every conversion that differs somewhere: how often, and a float32 for which it does."""
    names, compare = comparison(target)

    def one(binade: int) -> tuple[Any, Any]:
        wrong, where = np.zeros(len(names), np.int64), np.zeros(len(names), np.int64)
        compare(binade, wrong, where)
        return wrong, where

    one(0)  # compiles
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = list(pool.map(one, binades))
    totals = {}
    for k, name in enumerate(names):
        some = [(int(wrong[k]), int(where[k])) for wrong, where in found if wrong[k]]
        if some:
            totals[name] = sum(count for count, _ in some), f"{some[-1][1]:#010x}"
    return totals


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.dtype))
def test_every_float32_narrows_as_the_definition_says(target: Target) -> None:
    assert disagreements(target, range(BINADES)) == {}


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: str(target.dtype))
def test_the_definition_is_what_numpy_ml_dtypes_and_gfloat_compute(target: Target, saturate: bool) -> None:
    other, gfloat_format = {
        DType.FLOAT16: (np.float16, gfloat.formats.format_info_binary16),
        DType.BFLOAT16: (ml_dtypes.bfloat16, gfloat.formats.format_info_bfloat16),
    }[target.dtype]
    bits = np.concatenate([stratified(target.least_exponent, target.fraction_bits), EDGES])
    mine = _expected_all(bits, target.fraction_bits, target.least_exponent, target.infinity, saturate)
    nan = is_nan(bits)
    finite = ~nan & np.isfinite(bits.view(np.float32))
    with np.errstate(all="ignore"):
        theirs = bits.view(np.float32).astype(other).view(np.uint16)
        rounded = gfloat.round_ndarray(
            gfloat_format, bits[finite][::7].view(np.float32).astype(np.float64), sat=saturate
        )
        gfloats = rounded.astype(np.float32).astype(other).view(np.uint16)
    if saturate:
        infinite = (theirs & np.uint16(0x7FFF)) == target.infinity
        theirs = np.where(infinite & ~nan, theirs - np.uint16(1), theirs)
    theirs = np.where(nan, np.uint16(0 if saturate else 0x7FFF), theirs)
    np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(mine[finite][::7], gfloats)


@njit
def _expected_all(bits: Any, fraction_bits: int, least_exponent: int, infinity: int, saturate: bool) -> Any:
    out = np.empty(bits.size, np.uint16)
    for i in range(bits.size):
        binade, fraction = np.int64(bits[i]) >> 23, np.int64(bits[i]) & 0x7FFFFF
        out[i] = expected(binade, fraction, fraction_bits, least_exponent, infinity, saturate)
    return out

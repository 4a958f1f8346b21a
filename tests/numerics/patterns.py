"""Bit patterns and loops that the numerics tests share."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

U32 = NDArray[np.uint32]

NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF
PER_EXPONENT = 8192

EDGES = np.array(
    [
        0x00000000,  # 0
        0x00000001,  # least subnormal
        0x00000002,
        0x00400000,
        0x007FFFFF,  # greatest subnormal
        0x00800000,  # least normal
        0x00800001,
        0x1FFFFFFF,
        0x20000000,  # products of two of these underflow
        0x33000000,  # 2**-25, half of float16's least subnormal
        0x33800000,  # 2**-24
        0x38800000,  # 2**-14, float16's least normal
        0x3F7FFFFF,
        0x3F800000,  # 1
        0x3F800001,
        0x3FFFFFFF,
        0x40000000,  # 2
        0x40400000,  # 3
        0x4B7FFFFF,
        0x4B800000,  # 2**24
        0x477FE000,  # 65504
        0x477FF000,  # 65520, float16's overflow threshold
        0x5F7FFFFF,
        0x5F800000,  # products of two of these overflow
        0x7E800000,
        0x7F7F0000,  # bfloat16's greatest
        0x7F7F8000,  # its overflow threshold
        0x7F7FFFFF,  # float32's greatest
        0x7F800000,  # infinity
        0x7F800001,  # signalling NaN
        0x7FBFFFFF,
        0x7FC00000,  # quiet NaN
        0x7FFFFFFF,
    ],
    np.uint32,
)
EDGES = np.concatenate([EDGES, EDGES | np.uint32(0x80000000)])


def arithmetic_edges() -> U32:
    """Operands whose differences and products are hard to round, of both signs."""
    fields = [*range(1, 4), 12, 23, 24, 25, 63, 64, 65, *range(101, 105), 112, 113, *range(125, 130)]
    fields += [*range(149, 153), 190, 191, 192, *range(229, 232), 253, 254]
    # The powers of two, and one unit to each side: 2**-25 is a tie below 1, 2**103 above the greatest.
    around = [(field << 23) + offset for field in fields for offset in (-1, 0, 1)]
    subnormal = [1, 2, 3, 5, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFE, 0x7FFFFF, 0x800000, 0x800001]
    # 1 + 2**-12 and its likes have products that are ties; so have 1.5 and every odd mantissa.
    ties = [0x3F800800, 0x3F801800, 0x3F802800, 0x3FC00000, 0x3FC00001, 0x3FC00002, 0x3F400000, 0x3FFFF000]
    nans = [0x7F800001, 0x7F812345, 0x7FBFFFFF, 0x7FC00000, 0x7FC00001, 0x7FD55555, 0x7FFFFFFE, 0x7FFFFFFF]
    largest = [0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000]
    edges = np.array([*around, *subnormal, *ties, *nans, *largest], np.uint32)
    return np.unique(np.concatenate([EDGES, edges, edges | np.uint32(0x80000000)]))


@lru_cache
def stratified(least_exponent: int, mantissa_bits: int) -> U32:
    """2**22 float32 patterns: 8192 of each sign and exponent, aimed at a 16-bit format.

    Where the format keeps ``k`` bits of the mantissa, all ``2**k`` of them occur, each with what is
    dropped at zero, at half a unit, next to both, all ones, and random.
    """
    random = np.random.default_rng(mantissa_bits)
    groups = []
    for exponent in range(256):
        deeper = max(least_exponent + 127 - max(exponent, 1), 0)
        dropped = min(23 - mantissa_bits + deeper, 23)
        half = 1 << (dropped - 1)
        ties = [0, 1, half - 1, half, half + 1, (1 << dropped) - 1]
        kept = np.arange(1 << (23 - dropped), dtype=np.uint32) << np.uint32(dropped)
        columns = PER_EXPONENT // kept.size
        low = random.integers(0, 1 << dropped, (kept.size, columns), dtype=np.uint32)
        low[:, : len(ties)] = ties
        groups.append(np.uint32(exponent << 23) | kept[:, None] | low)
    positive = np.concatenate([group.ravel() for group in groups])
    return np.concatenate([positive, positive | np.uint32(0x80000000)])


@lru_cache
def _loop(function: Callable[..., Any], arity: int) -> Callable[..., None]:
    if arity == 1:

        @njit
        def unary(out: Any, a: Any) -> None:
            for i in range(out.size):
                out[i] = function(a[i])

        return unary

    @njit
    def binary(out: Any, a: Any, b: Any) -> None:
        for i in range(out.size):
            out[i] = function(a[i], b[i])

    return binary


def apply(function: Callable[..., Any], *operands: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """``function`` of every element, in one loop (compiled, unless the JIT is off), as bits.

    float32 operands and results are given as uint32 bits.
    """
    values = [o.view(np.float32) if o.dtype == np.uint32 else o for o in operands]
    out = np.empty(operands[0].shape, dtype)
    _loop(function, len(operands))(out, *values)
    return out.view(np.uint32) if dtype == np.float32 else out


def is_nan(bits: U32) -> NDArray[np.bool_]:
    """Which float32 bits are NaN."""
    return (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)

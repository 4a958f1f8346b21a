"""Conversions between float32, float16 and bfloat16, one scalar at a time.

float32 travels as ``np.float32``, float16 and bfloat16 as their bits in ``np.uint16`` (Numba has
neither type on the CPU). Every function is compiled by Numba and inlines into the loop that calls
it; the selects are branch-free, so that such a loop becomes vector code. Under
``NUMBA_DISABLE_JIT=1`` the same Python bodies run as they stand and give the same bits. Integers
are therefore widened explicitly: Numba computes ``uint16 + uint16`` in 64 bits, NumPy in 16.

Rules: asc-devkit ``Cast.md`` and ``precision_conversion.md`` (rounding), the boundary tables of
the same repository (overflow, infinities, NaN).
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import config, types
from numba.core.registry import cpu_target
from numba.extending import intrinsic, overload

from kernel.numerics.formats import FORMATS
from socs.isa import DType, RoundMode

F = TypeVar("F", bound=Callable[..., Any])

_F32 = FORMATS[DType.FLOAT32]
_F16 = FORMATS[DType.FLOAT16]
_BF16 = FORMATS[DType.BFLOAT16]

ROUND_CODES: dict[RoundMode, int] = {mode: code for code, mode in enumerate(RoundMode)}
"""``RoundMode`` as :func:`narrow` takes it: the values of the Ascend C enumeration."""

_RINT = ROUND_CODES[RoundMode.RINT]
_FLOOR = ROUND_CODES[RoundMode.FLOOR]
_CEIL = ROUND_CODES[RoundMode.CEIL]
_ROUND = ROUND_CODES[RoundMode.ROUND]
_TRUNC = ROUND_CODES[RoundMode.TRUNC]
_ODD = ROUND_CODES[RoundMode.ODD]


def scalar(function: F) -> F:
    """Compile ``function`` with Numba: strict IEEE, to be inlined by LLVM into its caller.

    Not cached on disk, because its code ends up in the kernels that call it. Without the JIT the
    body itself runs, with NumPy's warnings about overflow and NaN off: they are results here.
    """
    if cast(Any, config).DISABLE_JIT:
        return np.errstate(all="ignore")(function)
    # As NumPy has it, a division by zero is a result and no error.
    return cast(F, numba.njit(function, nogil=True, fastmath=False, error_model="numpy"))


def has_half_instructions() -> bool:
    """Whether Numba compiles for a CPU that converts float16 (x86 with F16C, every AArch64).

    Elsewhere LLVM would call a routine of the compiler's runtime library, which a JIT may not
    find, so the integer version is used there. Numba's target is asked rather than the host,
    because a user may compile for another CPU (``NUMBA_CPU_NAME``).
    """
    if platform.machine().lower() in {"aarch64", "arm64"}:
        return True
    _, _, features = cpu_target.target_context.codegen().magic_tuple()
    return "+f16c" in features.split(",")


@scalar
def f32_bits(value: np.float32) -> np.uint32:
    """The bits of a float32."""
    return np.float32(value).view(np.uint32)  # Numba wants to see the dtype before view()


@scalar
def f32_from_bits(bits: np.uint32) -> np.float32:
    """The float32 with these bits."""
    return np.uint32(bits).view(np.float32)


@scalar
def narrow(bits: np.uint32, exponent_bits: int, mantissa_bits: int, mode: int, saturate: bool) -> np.uint16:
    """Round float32 ``bits`` to a 16-bit format, with integers alone.

    ``mode`` is one of :data:`ROUND_CODES`. The result of ``ODD`` (von Neumann) is the truncated
    one with its last bit set when inexact. Without ``saturate`` overflow follows IEEE 754: to
    infinity where the mode rounds away from zero, else (also ``ODD``) to the largest finite number;
    NaN becomes all ones. With ``saturate`` overflow and infinities become the largest finite
    number and NaN +0.
    """
    word = np.int64(bits)
    sign = word >> 31
    magnitude = word & 0x7FFFFFFF
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    dropped = 23 - mantissa_bits
    # Exponent fields of float32: of this value (a subnormal has that of the least normal), and
    # of the smallest normal number of the destination.
    exponent = max(magnitude >> 23, np.int64(1))
    least = 129 - (1 << (exponent_bits - 1))
    # Below it the significand moves right; 25 places already leave less than half a unit.
    deeper = max(least - exponent, np.int64(0))
    implicit = np.int64(magnitude >= 0x00800000) << 23
    significand = (magnitude & 0x007FFFFF) | implicit
    value = significand if deeper > 0 else magnitude - ((least - 1) << 23)
    shift = min(dropped + deeper, np.int64(25))

    kept = value >> shift
    rest = value - (kept << shift)
    half = np.int64(1) << (shift - 1)
    inexact = np.int64(rest != 0)
    if mode <= _RINT:  # NONE and RINT
        rounded = kept + np.int64(rest + (kept & 1) > half)
    elif mode == _FLOOR:
        rounded = kept + (sign & inexact)
    elif mode == _CEIL:
        rounded = kept + ((sign ^ 1) & inexact)
    elif mode == _ROUND:
        rounded = kept + np.int64(rest >= half)
    elif mode == _TRUNC:
        rounded = kept
    else:  # ODD
        rounded = kept | inexact

    # A carry out of the mantissa raises the exponent, in the end to infinity, as it should.
    to_infinity = (mode <= _RINT) | (mode == _ROUND) | ((mode == _FLOOR) & (sign == 1))
    to_infinity = to_infinity | ((mode == _CEIL) & (sign == 0)) | (magnitude == 0x7F800000)
    limit = np.int64(infinity if to_infinity and not saturate else infinity - 1)
    result = (sign << (exponent_bits + mantissa_bits)) | min(rounded, limit)
    nan = 0 if saturate else infinity | ((1 << mantissa_bits) - 1)
    return np.uint16(nan if magnitude > 0x7F800000 else result)


@scalar
def f16_to_f32_integer(bits: np.uint16) -> np.float32:
    """Widen float16 ``bits``, with integers alone. Exact; NaN becomes quiet and keeps its payload."""
    word = np.int64(bits)
    magnitude = word & 0x7FFF
    normal = (magnitude << 13) + (112 << 23)
    # A subnormal is its mantissa in units of 2**-24: an exact conversion and an exact product.
    subnormal = np.int64(f32_bits(np.float32(magnitude) * np.float32(2.0**-24)))
    special = (magnitude << 13) | 0x7F800000 | (np.int64(magnitude > 0x7C00) << 22)
    finite = subnormal if magnitude < 0x0400 else normal
    wide = special if magnitude >= 0x7C00 else finite
    return f32_from_bits(np.uint32(wide | ((word & 0x8000) << 16)))


@scalar
def f32_to_f16_integer(value: np.float32) -> np.uint16:
    """:func:`f32_to_f16` with integers alone."""
    return narrow(f32_bits(value), 5, 10, 1, False)


def _half_to_float(bits: np.uint16) -> np.float32:
    return f16_to_f32_integer(bits)


def _float_to_half(value: np.float32) -> np.uint16:
    return f32_to_f16_integer(value)


@intrinsic
def _fpext_half(context: Any, bits: Any) -> Any:
    """LLVM's ``fpext half``: VCVTPH2PS on x86, which makes NaN quiet and is exact otherwise."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(builder.bitcast(arguments[0], ir.HalfType()), ir.FloatType())

    return (types.float32(types.uint16), generate) if bits == types.uint16 else None


@intrinsic
def _fptrunc_half(context: Any, value: Any) -> Any:
    """LLVM's ``fptrunc`` to ``half``: VCVTPS2PH on x86, to nearest even, subnormals kept."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(builder.fptrunc(arguments[0], ir.HalfType()), ir.IntType(16))

    return (types.uint16(types.float32), generate) if value == types.float32 else None


# An intrinsic has no body for Python, so compiled code gets it as an overload of a function
# that has one.
@overload(_half_to_float)
def _compiled_half_to_float(bits: Any) -> Any:
    widen: Any = _fpext_half if has_half_instructions() else f16_to_f32_integer

    def generate(bits: Any) -> Any:
        return widen(bits)

    return generate


@overload(_float_to_half)
def _compiled_float_to_half(value: Any) -> Any:
    round_to_half: Any = _fptrunc_half if has_half_instructions() else f32_to_f16_integer

    def generate(value: Any) -> Any:
        return round_to_half(value)

    return generate


@scalar
def f16_to_f32(bits: np.uint16) -> np.float32:
    """Widen float16 ``bits`` to float32. Exact (``Cast.md``); NaN stays NaN."""
    return _half_to_float(bits)


@scalar
def bf16_to_f32(bits: np.uint16) -> np.float32:
    """Widen bfloat16 ``bits`` to float32. Exact (``Cast.md``); NaN stays NaN."""
    return f32_from_bits(np.uint32(np.uint32(bits) << np.uint32(16)))


_NAN32 = np.uint32(_F32.nan_all_ones).view(np.float32)
_MAX32 = np.uint32(_F32.max_finite).view(np.float32)
_ZERO32 = np.float32(0.0)
_MAX_F16 = np.float32(65504.0)
_MAX_BF16 = np.uint32(_BF16.max_finite << 16).view(np.float32)
_NAN_BF16 = np.uint32(_BF16.nan_all_ones << 16).view(np.float32)


@scalar
def canonical_nan(value: np.float32) -> np.float32:
    """``value``, or the all-ones NaN (0x7FFFFFFF) for any NaN."""
    return _NAN32 if value != value else value


@scalar
def _bounded(value: np.float32, limit: np.float32) -> np.float32:
    within = limit if value > limit else (-limit if value < -limit else value)
    return _ZERO32 if value != value else within


@scalar
def saturated(value: np.float32) -> np.float32:
    """``value`` with infinities as the largest finite float32 of their sign and NaN as +0."""
    return _bounded(value, _MAX32)


# NaN is settled before the rounding, as a float32: a select between 16-bit results would need the
# mask of the 32-bit comparison packed, which costs more than the whole conversion.


@scalar
def f32_to_f16(value: np.float32) -> np.uint16:
    """Round to float16 bits, nearest even (``CAST_RINT``, and ``CAST_NONE`` when inexact).

    Overflow gives infinity, subnormals are kept, NaN becomes all ones (0x7FFF).
    """
    return _float_to_half(canonical_nan(value))


@scalar
def f32_to_f16_saturate(value: np.float32) -> np.uint16:
    """:func:`f32_to_f16` in saturation mode: overflow and ±inf give ±65504, NaN +0."""
    return _float_to_half(_bounded(value, _MAX_F16))


@scalar
def _nearest_bf16(value: np.float32) -> np.uint16:
    # Half a unit less one, plus the last bit that stays: a tie carries only into an odd mantissa.
    bits = f32_bits(value)
    carry = np.uint32(np.uint32(0x7FFF) + np.uint32(np.uint32(bits >> np.uint32(16)) & np.uint32(1)))
    return np.uint16(np.uint32(np.uint32(bits + carry) >> np.uint32(16)))


@scalar
def f32_to_bf16(value: np.float32) -> np.uint16:
    """Round to bfloat16 bits, nearest even (``CAST_RINT``).

    Overflow gives infinity, subnormals are kept, NaN becomes all ones (0x7FFF).
    """
    # This NaN has only bits that stay, so that the rounding cannot carry into its sign.
    return _nearest_bf16(_NAN_BF16 if value != value else value)


@scalar
def f32_to_bf16_saturate(value: np.float32) -> np.uint16:
    """:func:`f32_to_bf16` in saturation mode: overflow and ±inf give the largest finite, NaN +0."""
    return _nearest_bf16(_bounded(value, _MAX_BF16))

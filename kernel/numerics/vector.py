"""What each vector instruction does to one element: a function per instruction and variant.

:func:`lookup` names the function of an instruction. The interpreter calls it element by element,
the compiled kernels inline it, so both give the same bits. All functions are attributes of this
module; a name is a base and the ways in which it departs from the default chip:

``{add,sub,mul,div,max,min,muls,relu}_{float32,float16}``, ``f16_to_f32``, ``bf16_to_f32``,
``f32_to_{f16,bf16}[_mode]``, then ``_saturate`` (overflow and infinity become the largest finite number, NaN
+0), ``_quiet`` (NaN is the default quiet NaN instead of all ones) and ``_flush`` (a subnormal result becomes
a zero of its sign), in this order. ``*_float32_any`` leave a NaN with whatever bits the host gives it: for
intermediate results inside one fused expression, whose last instruction settles the NaN.
``duplicate_{float32,float16}`` have no variants.

Every arithmetic step is one correctly rounded IEEE 754 operation (asc-devkit, boundary tables of the
instructions): no contraction into a fused multiply-add, no wider intermediate that shows. Max and Min are
``maximum`` and ``minimum`` of IEEE 754-2019 (a NaN wins, and -0 is less than +0); Relu makes -0 a +0 and
keeps a NaN (the same tables).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from importlib import resources
from itertools import product
from typing import Any, Literal

import numpy as np

from kernel.numerics.convert import (
    ROUND_CODES,
    bf16_to_f32,
    canonical_nan,
    f16_to_f32,
    f32_bits,
    f32_from_bits,
    f32_to_bf16,
    f32_to_bf16_saturate,
    f32_to_f16,
    f32_to_f16_saturate,
    narrow,
    saturated,
    scalar,
)
from kernel.numerics.formats import FORMATS, FormatInfo
from socs.errors import AtlasError
from socs.isa import DType, Op, RoundMode

__all__ = [
    "bf16_to_f32",
    "f16_to_f32",
    "f32_to_bf16",
    "f32_to_bf16_saturate",
    "f32_to_f16",
    "f32_to_f16_saturate",
    "function",
    "lookup",
    "mul_float32",
    "muls_float32",
    "source_digest",
    "sub_float32",
]

Body = Callable[..., Any]

_SHORT = {DType.FLOAT32: "f32", DType.FLOAT16: "f16", DType.BFLOAT16: "bf16"}
_WIDENING = {DType.FLOAT16: f16_to_f32, DType.BFLOAT16: bf16_to_f32}
_NEAREST = {
    (DType.FLOAT16, False): f32_to_f16,
    (DType.FLOAT16, True): f32_to_f16_saturate,
    (DType.BFLOAT16, False): f32_to_bf16,
    (DType.BFLOAT16, True): f32_to_bf16_saturate,
}
_INEXACT_MODES = (RoundMode.FLOOR, RoundMode.CEIL, RoundMode.ROUND, RoundMode.TRUNC, RoundMode.ODD)


@scalar
def _subtract(a: np.float32, b: np.float32) -> np.float32:
    return a - b


@scalar
def _multiply(a: np.float32, b: np.float32) -> np.float32:
    return a * b


@scalar
def _sum(a: np.float32, b: np.float32) -> np.float32:
    return a + b


@scalar
def _divide(a: np.float32, b: np.float32) -> np.float32:
    return np.float32(a) / np.float32(b)


# Of two zeros the sum is +0 unless both are -0; with a NaN it is one.


@scalar
def _larger(a: np.float32, b: np.float32) -> np.float32:
    chosen = a if a > b else b
    unordered = (a != a) | (b != b) | ((a == np.float32(0.0)) & (b == np.float32(0.0)))
    return a + b if unordered else chosen


@scalar
def _smaller(a: np.float32, b: np.float32) -> np.float32:
    chosen = a if a < b else b
    unordered = (a != a) | (b != b) | ((a == np.float32(0.0)) & (b == np.float32(0.0)))
    return -(-a - b) if unordered else chosen


@scalar
def _positive(value: np.float32) -> np.float32:
    return value if (value > np.float32(0.0)) | (value != value) else np.float32(0.0)


_ARITHMETIC: dict[Op, Body] = {
    Op.ADD: _sum,
    Op.SUB: _subtract,
    Op.MUL: _multiply,
    Op.DIV: _divide,
    Op.MAX: _larger,
    Op.MIN: _smaller,
    Op.MULS: _multiply,
    Op.RELU: _positive,
}


def _arithmetic(op: Op, saturate: bool, quiet: bool, flush: bool) -> Body:
    """A float32 operation with its result put into the form the chip gives it."""
    operation = _ARITHMETIC[op]
    settle = saturated if saturate else canonical_nan
    if quiet or flush:
        finish = _finish(FORMATS[DType.FLOAT32], np.uint32, quiet, flush)
        settled = settle

        @scalar
        def settle(value: Any) -> Any:
            return f32_from_bits(finish(f32_bits(settled(value))))

    if op is Op.RELU:

        @scalar
        def unary(a: Any) -> Any:
            return settle(operation(a))

        return unary

    @scalar
    def binary(a: Any, b: Any) -> Any:
        return settle(operation(a, b))

    return binary


def _half_arithmetic(op: Op, saturate: bool, quiet: bool, flush: bool) -> Body:
    """The same of float16: the float32 operation rounded once more.

    That is the exact result rounded once: float32 has more than twice the digits of float16 and two.
    """
    operation = _ARITHMETIC[op]
    rounding = _narrowing(DType.FLOAT16, RoundMode.NONE, saturate, quiet, flush)
    if op is Op.RELU:

        @scalar
        def unary(a: Any) -> Any:
            return rounding(operation(f16_to_f32(a)))

        return unary
    if op is Op.MULS:
        # The scalar has the tensor's dtype.
        @scalar
        def scaled(a: Any, b: Any) -> Any:
            return rounding(operation(f16_to_f32(a), f16_to_f32(f32_to_f16(b))))

        return scaled

    @scalar
    def binary(a: Any, b: Any) -> Any:
        return rounding(operation(f16_to_f32(a), f16_to_f32(b)))

    return binary


@scalar
def duplicate_float32(value: np.float32) -> np.float32:
    """The scalar as it is."""
    return value


@scalar
def duplicate_float16(value: np.float32) -> np.uint16:
    """The scalar in the tensor's dtype."""
    return f32_to_f16(value)


def _narrowing(dst: DType, mode: RoundMode, saturate: bool, quiet: bool, flush: bool) -> Body:
    """A cast from float32 to a 16-bit format, likewise."""
    info = FORMATS[dst]
    nearest = _NEAREST[dst, saturate]
    code = ROUND_CODES[mode]
    exponent_bits, mantissa_bits = info.exponent_bits, info.mantissa_bits

    @scalar
    def directed(value: np.float32) -> np.uint16:
        return narrow(f32_bits(value), exponent_bits, mantissa_bits, code, saturate)

    rounding = nearest if mode is RoundMode.NONE else directed
    if not (quiet or flush):
        return rounding
    finish = _finish(info, np.uint16, quiet, flush)

    @scalar
    def finished(value: Any) -> Any:
        return finish(rounding(value))

    return finished


def _finish(info: FormatInfo, carrier: type[np.unsignedinteger[Any]], quiet: bool, flush: bool) -> Body:
    """Bits to bits: the all-ones NaN made quiet, a subnormal made a zero of its sign."""
    ones, magnitude, sign = (carrier(m) for m in (info.nan_all_ones, info.magnitude_mask, info.sign_mask))
    nan = carrier(info.nan_quiet if quiet else info.nan_all_ones)
    floor = carrier(info.min_normal if flush else 0)

    @scalar
    def finish(bits: Any) -> Any:
        settled = nan if bits == ones else bits
        zero = carrier(bits & sign)
        return zero if (bits & magnitude) < floor else settled

    return finish


def _suffix(saturate: bool, quiet: bool, flush: bool) -> str:
    return "_saturate" * saturate + "_quiet" * quiet + "_flush" * flush


def _bodies() -> dict[str, Body]:
    widening: dict[DType, Body] = dict(_WIDENING)
    found: dict[str, Body] = {f"{_SHORT[src]}_to_f32": body for src, body in widening.items()}
    found |= {f"{op}_float32_any": operation for op, operation in _ARITHMETIC.items()}
    found |= {"duplicate_float32": duplicate_float32, "duplicate_float16": duplicate_float16}
    for saturate, quiet, flush in product((False, True), repeat=3):
        if saturate and quiet:
            continue  # saturation leaves no NaN
        suffix = _suffix(saturate, quiet, flush)
        for op in _ARITHMETIC:
            found[f"{op}_float32{suffix}"] = _arithmetic(op, saturate, quiet, flush)
            found[f"{op}_float16{suffix}"] = _half_arithmetic(op, saturate, quiet, flush)
        for dst, mode in product(_WIDENING, (RoundMode.NONE, *_INEXACT_MODES)):
            found[_cast_name(dst, mode) + suffix] = _narrowing(dst, mode, saturate, quiet, flush)
    return found


def _cast_name(dst: DType, mode: RoundMode) -> str:
    return f"f32_to_{_SHORT[dst]}" + (f"_{mode.lower()}" if mode in _INEXACT_MODES else "")


_FUNCTIONS = _bodies()
globals().update(_FUNCTIONS)
sub_float32 = _FUNCTIONS["sub_float32"]
mul_float32 = _FUNCTIONS["mul_float32"]
muls_float32 = _FUNCTIONS["muls_float32"]


def lookup(
    op: Op,
    dst: DType,
    src: DType,
    *,
    mode: RoundMode = RoundMode.NONE,
    saturate: bool = False,
    nan: Literal["all_ones", "quiet", "any"] = "all_ones",
    subnormals: Literal["kept", "flushed"] = "kept",
    float32_overflow: Literal["ieee", "saturate"] = "ieee",
) -> str:
    """The name of the function of this module that does one element of an instruction.

    ``saturate``: the stream runs in saturation mode; it reaches float32 results only where
    ``float32_overflow`` says so. ``nan``, ``subnormals`` and ``float32_overflow`` are the fields of
    ``Soc.numerics``; ``nan="any"`` lets an intermediate float32 result keep the host's NaN where that
    cannot be seen later (sub, mul and casts turn any NaN into a NaN), and changes nothing else.

    Widening casts are exact and have no variants; they take no rounding mode but ``NONE``
    (``Cast.md``). Raises ``AtlasError`` where there is no such instruction.
    """
    quiet, flush = nan == "quiet", subnormals == "flushed"
    if op is Op.CAST and dst is DType.FLOAT32 and src in _WIDENING and mode is RoundMode.NONE:
        return f"{_SHORT[src]}_to_f32"
    if op is Op.CAST and dst in _WIDENING and src is DType.FLOAT32:
        return _cast_name(dst, mode) + _suffix(saturate, quiet and not saturate, flush)
    if op is Op.DUPLICATE and dst in (DType.FLOAT32, DType.FLOAT16):
        return f"{op}_{dst}"
    if op in _ARITHMETIC and dst is src is DType.FLOAT16 and mode is RoundMode.NONE:
        return f"{op}_float16" + _suffix(saturate, quiet and not saturate, flush)
    if op in _ARITHMETIC and dst is src is DType.FLOAT32 and mode is RoundMode.NONE:
        saturate = saturate and float32_overflow == "saturate"
        if nan == "any" and not (saturate or flush):
            return f"{op}_float32_any"
        return f"{op}_float32" + _suffix(saturate, quiet and not saturate, flush)
    raise AtlasError(
        f"{op} from {src} to {dst} with rounding {mode} has no body; there are float32 and float16 "
        f"arithmetic (rounding NONE) and casts between float32 and float16 or bfloat16 "
        f"(kernel.numerics.vector)"
    )


def function(name: str) -> Body:
    """The function that :func:`lookup` named: compiled, or plain under ``NUMBA_DISABLE_JIT=1``."""
    if name not in _FUNCTIONS:
        raise AtlasError(f"no vector function {name!r} (kernel.numerics.vector)")
    return _FUNCTIONS[name]


@cache
def source_digest() -> str:
    """A hash (hexadecimal SHA-256) over the source text of this package.

    Part of the key of compiled kernels on disk: Numba does not see that an inlined function changed.
    """
    digest = hashlib.sha256()
    files = (f for f in resources.files("kernel.numerics").iterdir() if f.name.endswith(".py"))
    for file in sorted(files, key=lambda f: f.name):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()

"""The elementwise operators as the tests know them: what each gives, said in NumPy and ml_dtypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from kernel.operators import OPERATORS, Operator, Request, find
from kernel.plan import Plan
from kernel.tiling import TilingOptions
from socs.isa import DType
from socs.spec import Soc

DTYPES: dict[str, Any] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
FAMILY = sorted(set(OPERATORS) - {"mse_loss_backward"})
COMPUTING = [name for name in FAMILY if OPERATORS[name].writes]
SCALAR = 0.3

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 65504.0, -65504.0, 1e-7, -1e-7, 1e-40, 3e38, 6e-8)


def request(
    operator: Operator,
    shape: tuple[int, ...],
    dtype: str,
    *,
    shapes: dict[str, tuple[int, ...]] | None = None,
    dtypes: dict[str, str] | None = None,
    count: int = 3,
    to: str = "float16",
    kernel: str | None = None,
    options: TilingOptions | None = None,
) -> Request:
    names = operator.arguments(count)
    return Request(
        {**dict.fromkeys(names, shape), **(shapes or {})},
        {**dict.fromkeys(names, dtype), **(dtypes or {})},
        scalar=SCALAR if operator.scalar else None,
        to=to if operator.casts else None,
        kernel=kernel,
        options=options or TilingOptions(),
    )


def planned(soc: Soc, name: str, shape: tuple[int, ...], dtype: str, **more: Any) -> Plan:
    operator = find(name)
    return operator.plan(soc, request(operator, shape, dtype, **more))


def tensor(shape: tuple[int, ...], dtype: str, seed: int) -> Any:
    """A third random bits, a third moderate numbers, a third special values."""
    random = np.random.default_rng(seed)
    kind = DTYPES[dtype]
    count = int(np.prod(shape, dtype=np.int64))
    wild = random.bytes(count * kind.itemsize)
    with np.errstate(all="ignore"):
        special = np.array(SPECIAL, np.float64).astype(np.float32).astype(kind)
        moderate = (random.standard_normal(count) * 3).astype(np.float32).astype(kind)
    choice = random.integers(0, 3, count)
    mixed = np.frombuffer(wild, kind).copy()
    mixed[choice == 1] = moderate[choice == 1]
    picked = special[random.integers(0, len(special), count)]
    mixed[choice == 2] = picked[choice == 2]
    return mixed.reshape(shape)


def _wide(value: Any) -> Any:
    return value.astype(np.float32)


def _maximum(a: Any, b: Any) -> Any:
    larger = np.where(a > b, a, b)
    zeros = (a == 0) & (b == 0)
    signs = np.signbit(a) & np.signbit(b)
    larger = np.where(zeros, np.where(signs, np.float32(-0.0), np.float32(0.0)), larger)
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), larger)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "maximum": _maximum,
    "minimum": lambda a, b: -_maximum(-a, -b),
}


def expected(name: str, tensors: dict[str, Any], dtype: str, to: str = "float16") -> Any:
    """The result, of any NaN: float32 steps, of float16 each with one rounding after it, which makes the
    exact result rounded once (``tests/numerics``); bfloat16 is rounded at the end."""
    kind = DTYPES[to if name == "cast" else dtype]
    arrays = list(tensors.values())
    with np.errstate(all="ignore"):
        first = _wide(arrays[0])
        scalar = np.float32(SCALAR)
        if dtype == "float16":
            scalar = np.float32(np.float16(scalar))
        if name in ("copy", "cast"):
            return arrays[0].astype(kind) if dtype == "float32" else first.astype(kind)
        if name == "fill":
            return np.full(first.shape, scalar, np.float32).astype(kind)
        if name == "relu":
            return np.where(np.isnan(first) | (first > 0), first, np.float32(0)).astype(kind)
        if name in ("neg", "muls"):
            return (first * (np.float32(-1) if name == "neg" else scalar)).astype(kind)
        if name == "add_n":
            total = first
            for other in arrays[1:]:
                total = total + _wide(other)
                total = _wide(total.astype(kind)) if dtype == "float16" else total
            return total.astype(kind)
        return _BINARY[name](first, _wide(arrays[1])).astype(kind)


def same(found: Any, wanted: Any) -> bool:
    """Equal bits, but for the bits of a NaN."""
    unsigned = f"u{found.dtype.itemsize}"
    nans = np.isnan(_wide(found)), np.isnan(_wide(wanted))
    bits = np.ascontiguousarray(found).view(unsigned) == np.ascontiguousarray(wanted).view(unsigned)
    return bool(np.array_equal(*nans) and (bits | nans[0]).all())


def takes(soc: Soc, dtype: str) -> bool:
    """Whether the chip can make a dtype into one that it computes in."""
    return dtype != "bfloat16" or "bfloat16_to_float32" in soc.vector.costs["cast"]


def dtype_of(name: str) -> DType:
    return DType(name)

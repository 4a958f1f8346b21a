"""What the operator must give, in NumPy and ml_dtypes, and the launches that the tests run."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import socs
from kernel.mse_loss_backward import Plan, Reduction, plan
from kernel.program import Launch
from kernel.tiling import TilingOptions
from socs.isa import DType
from socs.spec import Soc

Bits = NDArray[Any]

ARCHS = ("Ascend910B4-1", "Ascend910_9391", "Ascend310P3", "Ascend910A", "Ascend310B1", "Ascend950PR_9579")
"""One chip of each npu_arch and each tiling variant."""

MOST_BUFFERS = {1001: 2, 3002: 2}
"""Buffers per queue, by npu_arch, where three input queues share the eight events (kernel: TBE)."""

NARROW = {DType.FLOAT16: np.dtype(np.float16), DType.BFLOAT16: np.dtype(ml_dtypes.bfloat16)}
LARGEST = {DType.FLOAT16: 0x7BFF, DType.BFLOAT16: 0x7F7F}
INPUTS = ("self", "target", "grad_output")

SPECIAL = {
    DType.FLOAT32: [
        *(0x00000000, 0x00000001, 0x007FFFFF, 0x00800000, 0x33800000, 0x3F800000, 0x477FE000, 0x477FF000),
        *(0x5F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF),
    ],
    DType.FLOAT16: [0x0000, 0x0001, 0x03FF, 0x0400, 0x3C00, 0x5C00, 0x7BFF, 0x7C00, 0x7C01, 0x7E00, 0x7FFF],
    DType.BFLOAT16: [0x0000, 0x0001, 0x007F, 0x0080, 0x3F80, 0x7F00, 0x7F7F, 0x7F80, 0x7F81, 0x7FC0, 0x7FFF],
}
"""Zero, subnormals, the least normal, 1, large, the largest, infinity, NaNs; negated below."""


def chip_dtypes() -> list[Any]:
    """Every (chip of ARCHS, dtype that the operator takes on it)."""
    both = (DType.FLOAT32, DType.FLOAT16)
    return [
        (name, dtype)
        for name in ARCHS
        for dtype in ((*both, DType.BFLOAT16) if socs.load(name).npu_arch in (2201, 3510) else both)
    ]


def depth_for(name: str, depth: int | None) -> int | None:
    """``depth``, or as many buffers per queue as the default kernel of the chip has events for."""
    return min(depth, MOST_BUFFERS.get(socs.load(name).npu_arch, depth)) if depth else depth


def carrier(dtype: DType) -> Any:
    return np.float32 if dtype is DType.FLOAT32 else np.uint16


def random_tensors(dtype: DType, n: int, seed: int) -> dict[str, Bits]:
    """Three inputs of random bits, a third of them special values, and an output of rubbish."""
    random = np.random.default_rng(seed)
    unsigned, sign = (np.uint32, 1 << 31) if dtype is DType.FLOAT32 else (np.uint16, 1 << 15)
    special = np.array([b | s for b in SPECIAL[dtype] for s in (0, sign)], unsigned)
    tensors = {}
    for name in (*INPUTS, "out"):
        wild = random.integers(0, 2 * sign, n, dtype=unsigned)
        moderate = random.standard_normal(n).astype(np.float32)
        bits = moderate.view(np.uint32) if dtype is DType.FLOAT32 else moderate.astype(NARROW[dtype])
        kind = random.integers(0, 3, n)
        mixed = np.where(kind == 0, random.choice(special, n), np.where(kind == 1, wild, bits.view(unsigned)))
        tensors[name] = mixed.astype(unsigned).view(carrier(dtype))
    return tensors


def every_special(dtype: DType) -> dict[str, Bits]:
    """All triples of special values."""
    unsigned, sign = (np.uint32, 1 << 31) if dtype is DType.FLOAT32 else (np.uint16, 1 << 15)
    special = np.array([b | s for b in SPECIAL[dtype] for s in (0, sign)], unsigned)
    grids = [g.ravel().view(carrier(dtype)) for g in np.meshgrid(special, special, special)]
    return {**dict(zip(INPUTS, grids, strict=True)), "out": np.zeros(grids[0].size, carrier(dtype))}


def expected(tensors: dict[str, Bits], dtype: DType, factor: np.float32, *, saturate: bool) -> Bits:
    """((self - target) * factor) * grad_output in float32, rounded once, as bits.

    A NaN is all ones; in saturation mode 16-bit overflow and infinity are the largest number of their
    sign and NaN is +0.
    """
    with np.errstate(all="ignore"):
        if dtype is DType.FLOAT32:
            a, b, g = (tensors[name] for name in INPUTS)
        else:
            a, b, g = (tensors[name].view(NARROW[dtype]).astype(np.float32) for name in INPUTS)
        exact = ((a - b) * factor) * g
        assert exact.dtype == np.float32
        if dtype is DType.FLOAT32:
            return np.where(np.isnan(exact), np.uint32(0x7FFFFFFF), exact.view(np.uint32))
        rounded = exact.astype(NARROW[dtype])
        bits = rounded.view(np.uint16)
    if not saturate:
        return np.where(np.isnan(exact), np.uint16(0x7FFF), bits)
    largest = (bits & np.uint16(0x8000)) | np.uint16(LARGEST[dtype])
    clipped = np.where(np.isinf(rounded.astype(np.float32)), largest, bits)
    return np.where(np.isnan(exact), np.uint16(0), clipped)


def as_bits(array: Bits) -> Bits:
    return array.view(np.uint32) if array.dtype == np.float32 else array


def planned(
    soc: str | Soc, dtype: DType, n: int, reduction: Reduction = Reduction.MEAN, **options: int
) -> Plan:
    chip = socs.load(soc) if isinstance(soc, str) else soc
    return plan(chip, shape=(n,), dtype=dtype, reduction=reduction, options=TilingOptions(**options))


def launched(soc: str | Soc, dtype: DType, n: int, **options: int) -> Launch:
    launch = planned(soc, dtype, n, **options).launch
    assert launch is not None
    return launch

"""The loss itself, ``aclnnMseLoss``: squared differences, and their sum in a stated order.

Facts: operator, 6 (float32 Sub, Mul, a ReduceSum that bisects, a scale; float16, bfloat16 by way of float32).
How the real kernel cuts its tiles is not modelled, so the last bits of a sum may differ from the chip's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel.fuse import Apply, Expression, Fused, Load
from kernel.numerics import vector
from kernel.numerics.convert import scalar
from socs.isa import DType, Op
from socs.spec import Numerics

TILE = 4096
"""Elements that are halved together; the sums of tiles are added in the order of the tiles."""


def squared(dtype: DType, out: DType, numerics: Numerics, *, saturate: bool) -> Fused:
    """``(self - target)²`` of each element: difference and square in float32, one rounding to ``out``."""
    f32 = DType.FLOAT32
    common: dict[str, Any] = {
        "saturate": saturate,
        "nan": numerics.nan,
        "subnormals": numerics.subnormals,
        "float32_overflow": numerics.float32_overflow,
    }

    def wide(name: str) -> Expression:
        load = Load(name)
        return load if dtype is f32 else Apply(vector.lookup(Op.CAST, f32, dtype, **common), (load,))

    difference = Apply(vector.lookup(Op.SUB, f32, f32, **common), (wide("self"), wide("target")))
    square: Expression = Apply(vector.lookup(Op.MUL, f32, f32, **common), (difference, difference))
    if out is not f32:
        square = Apply(vector.lookup(Op.CAST, out, f32, **common), (square,))
    return Fused("out", square, (("self", dtype), ("target", dtype), ("out", out)), ())


@scalar
def halved(tile: Any, width: int) -> np.float32:
    """The sum of ``tile[:width]``, which this uses up: the second half is added to the first, repeatedly."""
    while width > 1:
        half = (width + 1) >> 1
        for i in range(width - half):
            tile[i] = tile[i] + tile[i + half]
        width = half
    first: np.float32 = tile[0]
    return first


def scale(count: int, reduction: int) -> np.float32:
    """What the sum is multiplied with: 1/``count`` in float32 for mean (1), else 1."""
    return np.float32(1.0) / np.float32(count) if reduction == 1 else np.float32(1.0)

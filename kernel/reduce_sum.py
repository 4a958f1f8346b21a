"""Sums over axes, ``aclnnReduceSum``: each in float32, in the order in which the loss is summed.

An element of the result adds up the elements that fall on it, row-major by the axes that go: tiles of
:data:`kernel.mse_loss.TILE` are halved until one element is left, and the sums of the tiles are added to +0
in the order of the tiles. The elements are cast to the dtype that was asked for first; of 16-bit ones the sum
is rounded once. How the chip's kernel cuts, and whether it adds partial sums of blocks, is not public; the
last bits may differ from its.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel.mse_loss import TILE, halved
from kernel.numerics.convert import scalar


@scalar
def summed(values: Any, first: int, count: int, tile: Any) -> np.float32:
    """The sum of ``values[first : first + count]``, float32; ``tile``: scratch of ``TILE`` elements."""
    total = np.float32(0.0)
    for begin in range(0, count, TILE):
        width = min(TILE, count - begin)
        for i in range(width):
            tile[i] = values[first + begin + i]
        total = np.float32(total + halved(tile, width))
    return total

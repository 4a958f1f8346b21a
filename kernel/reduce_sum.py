"""Sums in a stated order: over axes (``aclnnReduceSum``), and of squared differences (``aclnnMseLoss``).

Numbers are added up in float32, those that fall on one element of the result row-major: tiles of
:data:`TILE` are halved until one element is left, and the sums of the tiles are added to +0 in the order of
the tiles. How the chip's kernels cut, and whether they add partial sums of blocks, is not public; the last
bits may differ from theirs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kernel.numerics.convert import scalar

TILE = 4096
"""Elements that are halved together (facts: operator, 6: the vendor's ReduceSum bisects)."""


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

"""Kendall's tau-b: do predictions put launches in the order in which silicon does?"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def kendall_tau(a: Floats, b: Floats) -> float | None:
    """Tau-b of two series of equal length, in O(n log^2 n): concordant less discordant pairs, over the
    geometric mean of the pairs that are not tied in ``a`` and in ``b`` (Kendall 1945).

    1 is the same order, -1 the reverse. ``None`` where one of them has no two different values.
    """
    count = len(a)
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    pairs = count * (count - 1) // 2
    tied_a, tied_b = _pairs(np.bincount(ranks_a)), _pairs(np.bincount(ranks_b))
    if pairs in (tied_a, tied_b):
        return None
    joint = ranks_a * (int(ranks_b.max()) + 1) + ranks_b
    tied_both = _pairs(np.unique(joint, return_counts=True)[1])
    # In the order of a, ties by b, each pair that b has the other way round is discordant.
    discordant = _inversions(ranks_b[np.lexsort((ranks_b, ranks_a))])
    concordant = pairs - tied_a - tied_b + tied_both - discordant
    return (concordant - discordant) / math.sqrt((pairs - tied_a) * (pairs - tied_b))


def _ranks(values: Floats) -> Ints:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _pairs(counts: NDArray[np.intp]) -> int:
    return sum(n * (n - 1) // 2 for n in counts.tolist())


def _inversions(ranks: Ints) -> int:
    """Pairs that stand in descending order: a merge sort from below, all runs of a level at once."""
    size = 1 << max(len(ranks) - 1, 0).bit_length()
    top = int(ranks.max()) + 1
    runs = np.full(size, top, dtype=np.int64)
    runs[: len(ranks)] = ranks
    found, width = 0, 1
    while width < size:
        halves = runs.reshape(-1, 2, width)
        # Shifted by its run, the left halves make one ascending series for one search.
        shift = np.arange(len(halves), dtype=np.int64)[:, None] * (top + 1)
        left, right = (halves[:, 0] + shift).ravel(), (halves[:, 1] + shift).ravel()
        not_greater = np.searchsorted(left, right, side="right") - np.repeat(
            shift[:, 0] // (top + 1) * width, width
        )
        found += int(np.sum(width - not_greater))
        runs = np.sort(runs.reshape(-1, 2 * width), axis=1).ravel()
        width *= 2
    return found

"""Classes of size, by the bytes that a launch moves: mostly launch and latency, within L2, mostly memory."""

from __future__ import annotations

from bisect import bisect_right

_EDGES = (1 << 20, 64 << 20)

SIZES = ("below 1 MiB", "1 to 64 MiB", "64 MiB and more")
"""The classes in ascending order; each includes its lower edge."""


def size_index(nbytes: int) -> int:
    """The place in :data:`SIZES` of tensors of ``nbytes`` together."""
    return bisect_right(_EDGES, nbytes)


def size_class(nbytes: int) -> str:
    """The class of tensors of ``nbytes`` together."""
    return SIZES[size_index(nbytes)]

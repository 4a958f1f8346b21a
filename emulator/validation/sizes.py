"""Classes of size, by the bytes that a launch moves: from all launch to all memory."""

from __future__ import annotations

from bisect import bisect_right

_EDGES = (64 << 10, 1 << 20, 16 << 20, 256 << 20)

SIZES = ("below 64 KiB", "64 KiB to 1 MiB", "1 to 16 MiB", "16 to 256 MiB", "256 MiB and more")
"""The classes in ascending order; each includes its lower edge."""


def size_index(nbytes: int) -> int:
    """The place in :data:`SIZES` of tensors of ``nbytes`` together."""
    return bisect_right(_EDGES, nbytes)


def size_class(nbytes: int) -> str:
    """The class of tensors of ``nbytes`` together."""
    return SIZES[size_index(nbytes)]

"""The workspace that phase 1 asks for: bytes of the intermediate tensors, packed by their lives.

Facts: opbase ``memory_allocator.cpp``, ``kernel_graph.cpp``, ``kernel_workspace.cpp`` (operator, 1.7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PADDING_BYTES = 32
ALIGNMENT_BYTES = 512


@dataclass(frozen=True, slots=True)
class Resident:
    """A tensor in the workspace: alive from the step ``first`` that writes it to its reader ``last``.

    ``feeds_on``: names of the tensors that its step reads.
    """

    name: str
    bytes: int
    first: int
    last: int
    feeds_on: tuple[str, ...] = ()


def aligned(size: int) -> int:
    """Bytes that a tensor of ``size`` bytes takes: padded by 32, then up to a multiple of 512."""
    return (size + PADDING_BYTES + ALIGNMENT_BYTES - 1) & ~(ALIGNMENT_BYTES - 1)


def workspace_bytes(residents: Iterable[Resident]) -> int:
    """Bytes of the workspace for ``residents``, given in the order of their steps.

    Each goes into the last bucket whose latest tensor is dead before it starts and is not read by
    its step; without one it opens a bucket. A bucket is as large as its largest tensor.
    """
    sizes: list[int] = []
    latest: list[Resident] = []
    for resident in residents:
        size = aligned(resident.bytes)
        for place in reversed(range(len(sizes))):
            before = latest[place]
            apart = before.last < resident.first or resident.last < before.first
            if apart and before.name not in resident.feeds_on:
                sizes[place] = max(sizes[place], size)
                latest[place] = resident
                break
        else:
            sizes.append(size)
            latest.append(resident)
    return sum(sizes)

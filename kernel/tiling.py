"""How a launch is cut: blocks over cores, tiles over a block, buffers per queue.

The host side decides this (facts: ops-nn ``mse_loss_grad_v2_tiling.cpp``); a user may decide otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernel.core import Tiles
from socs.errors import AtlasError
from socs.isa import BLOCK_BYTES, DType


@dataclass(frozen=True, slots=True)
class Problem:
    """What a kernel is cut and recorded for: the dtype and the index space.

    ``repeated`` names the inputs that are broadcast in it, ``single`` those of one element.
    """

    dtype: DType
    shape: tuple[int, ...]
    repeated: frozenset[str] = frozenset()
    single: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        """Elements of the index space."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Group:
    """Equal blocks: ``count`` of ``length`` elements each, from ``start``, cut into tiles."""

    start: int
    count: int
    length: int
    tile_length: int
    buffer_length: int
    buffer_num: int


@dataclass(frozen=True, slots=True)
class Tiling:
    """The cut of one launch, in elements.

    ``block_dim`` blocks start ``block_length`` apart; the last may be shorter: it handles
    ``last_block_length``. A full block is cut into tiles of ``tile_length``, kept in buffers of
    ``buffer_length``, ``buffer_num`` of them per queue; the last block uses ``last_buffer_num``.
    ``groups``, where a kernel cuts in another way, says which blocks there are instead.
    """

    total_length: int
    block_dim: int
    block_length: int
    last_block_length: int
    tile_length: int
    buffer_length: int
    buffer_num: int
    last_tile_length: int
    last_buffer_length: int
    last_buffer_num: int
    key: int
    chosen_by: str = "kernel"
    groups: tuple[Group, ...] = ()

    def shapes(self) -> list[tuple[range, int, Tiles, int, int]]:
        """Groups of equal blocks: (starts, first block, tiles, buffer length, buffer_num)."""
        if self.groups:
            return _grouped(self.groups)
        groups = []
        full = self.block_dim if self.last_block_length == self.block_length else self.block_dim - 1
        if full:
            starts = range(0, full * self.block_length, self.block_length)
            tiles = Tiles(self.block_length, self.tile_length)
            groups.append((starts, 0, tiles, self.buffer_length, self.buffer_num))
        if full < self.block_dim:
            start = full * self.block_length
            tiles = Tiles(self.last_block_length, self.last_tile_length)
            groups.append(
                (range(start, start + 1), full, tiles, self.last_buffer_length, self.last_buffer_num)
            )
        return groups

    @property
    def tiles_per_block(self) -> int:
        return -(-self.block_length // self.tile_length)


def _grouped(groups: tuple[Group, ...]) -> list[tuple[range, int, Tiles, int, int]]:
    found, first = [], 0
    for group in groups:
        starts = range(group.start, group.start + group.count * group.length, group.length)
        tiles = Tiles(group.length, group.tile_length)
        found.append((starts, first, tiles, group.buffer_length, group.buffer_num))
        first += group.count
    return found


@dataclass(frozen=True, slots=True)
class TilingOptions:
    """What a user may fix; ``None`` leaves it to the kernel."""

    tile_length: int | None = None
    buffer_num: int | None = None
    block_dim: int | None = None

    def __post_init__(self) -> None:
        for name in ("tile_length", "buffer_num", "block_dim"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise AtlasError(f"{name.replace('_', '-')} = {value}: must be at least 1")

    @property
    def given(self) -> bool:
        return any(v is not None for v in (self.tile_length, self.buffer_num, self.block_dim))


def align_up(value: int, unit: int) -> int:
    """``value`` rounded up to a multiple of ``unit``."""
    return -(-value // unit) * unit


def split_blocks(total: int, used: int) -> tuple[int, int, int]:
    """The block split of ``MseLossGradV2``: (block_dim, block length, last block's length).

    Equal blocks when they come out even. Otherwise one core is set aside: the others share what
    divides evenly among *them*, and the one takes the remainder (facts: operator, 5.1 step 4).
    """
    if total % used == 0:
        return used, total // used, total // used
    workers = used - 1
    block, rest = divmod(total, workers)
    if rest == 0:
        return workers, block, block
    return used, block, rest


def with_options(tiling: Tiling, options: TilingOptions, itemsize: int) -> Tiling:
    """The kernel's cut with the user's numbers in place of its own."""
    if not options.given:
        return tiling
    total = tiling.total_length
    if options.block_dim is not None:
        used = options.block_dim
        if used > total:
            raise AtlasError(f"block-dim = {used}: there are only {total} elements to share")
        block_dim, block, last = split_blocks(total, used)
        tiling = replace(tiling, block_dim=block_dim, block_length=block, last_block_length=last)
    tile = options.tile_length if options.tile_length is not None else tiling.tile_length
    buffers = options.buffer_num if options.buffer_num is not None else tiling.buffer_num
    unit = BLOCK_BYTES // itemsize
    if tiling.groups and options.block_dim is None:
        return _with_tiles(tiling, options, max(32, unit))

    def cut(length: int, fallback: int) -> tuple[int, int]:
        chosen = min(tile, length) if options.tile_length is not None else min(fallback, length)
        return chosen, align_up(chosen, max(32, unit))

    tile_length, buffer_length = cut(tiling.block_length, tiling.tile_length)
    last_tile, last_buffer = cut(tiling.last_block_length, max(tiling.last_tile_length, tile_length))
    return replace(
        tiling,
        tile_length=tile_length,
        buffer_length=buffer_length,
        buffer_num=buffers,
        last_tile_length=last_tile,
        last_buffer_length=last_buffer,
        last_buffer_num=buffers if options.buffer_num is not None else tiling.last_buffer_num,
        chosen_by="user",
        groups=(),
    )


def _with_tiles(tiling: Tiling, options: TilingOptions, alignment: int) -> Tiling:
    """The kernel's own blocks with the user's tiles and buffers."""
    groups = []
    for group in tiling.groups:
        tile = min(options.tile_length or group.tile_length, group.length)
        buffer = align_up(options.tile_length, alignment) if options.tile_length else group.buffer_length
        groups.append(
            replace(
                group,
                tile_length=tile,
                buffer_length=buffer,
                buffer_num=options.buffer_num or group.buffer_num,
            )
        )
    first, last = groups[0], groups[-1]
    return replace(
        tiling,
        tile_length=first.tile_length,
        buffer_length=first.buffer_length,
        buffer_num=first.buffer_num,
        last_tile_length=last.tile_length,
        last_buffer_length=last.buffer_length,
        last_buffer_num=last.buffer_num,
        chosen_by="user",
        groups=tuple(groups),
    )


def cut_evenly(
    problem: Problem, *, per_block: int, tile_length: int, buffer_length: int, buffer_num: int, key: int
) -> Tiling:
    """Blocks of ``per_block`` elements, the last with the rest; tiles of ``tile_length`` in each."""
    total = problem.total
    full, rest = divmod(total, per_block)
    groups = []
    if full:
        groups.append(Group(0, full, per_block, min(tile_length, per_block), buffer_length, buffer_num))
    if rest:
        groups.append(Group(full * per_block, 1, rest, min(tile_length, rest), buffer_length, buffer_num))
    return tiling_of(problem, groups, key=key)


def whole_tiles(
    problem: Problem, tile: int, options: TilingOptions, *, cores: int, buffer_num: int
) -> Tiling:
    """Tiles of one length; each core takes as many whole ones as it must, so that some may take none."""
    tile = min(tile, problem.total)
    tiles = -(-problem.total // tile)
    each = -(-tiles // (options.block_dim or cores))
    made = cut_evenly(
        problem,
        per_block=each * tile,
        tile_length=tile,
        buffer_length=align_up(tile, 32),
        buffer_num=options.buffer_num or buffer_num,
        key=0,
    )
    return replace(made, chosen_by="user") if options.given else made


def tiling_of(problem: Problem, groups: Sequence[Group], *, key: int) -> Tiling:
    """The tiling that consists of ``groups``, described by its first and its last block."""
    first, last = groups[0], groups[-1]
    return Tiling(
        total_length=problem.total,
        block_dim=sum(group.count for group in groups),
        block_length=first.length,
        last_block_length=last.length,
        tile_length=first.tile_length,
        buffer_length=first.buffer_length,
        buffer_num=first.buffer_num,
        last_tile_length=last.tile_length,
        last_buffer_length=last.buffer_length,
        last_buffer_num=last.buffer_num,
        key=key,
        groups=tuple(groups),
    )

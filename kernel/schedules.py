"""How the elementwise kernels are cut and keep their tiles.

The vendor's two frameworks, and kernels written by hand; ``docs/elementwise.md`` lists their sources.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernel.elementwise import Job, Style
from kernel.tiling import Problem, Tiling, TilingOptions, align_up, cut_evenly, whole_tiles, with_options
from socs.isa import BLOCK_BYTES
from socs.spec import Soc

REGISTER_ARCH = 3510

ALIGNMENT = 128
"""Elements to which TBE rounds blocks and tiles (``_ub_factor_align``)."""

REPEAT_ELEMENTS = {1: 32767, 2: 32767, 4: 16383, 8: 8191}
"""Elements of a tile by the bytes of the widest dtype: an instruction repeats 255 times (TBE)."""

SMALL_BLOCKS = 128
"""32 B blocks, of the widest dtype, below which a core gets no share of its own (TBE, ``eletwise_v4``)."""

SMALL_BLOCKS_OLDER = 32
"""The same in the older compiler whose kernels were measured on the training series (506 of 539 rows)."""

UB_KEPT_BYTES = 32
"""What TBE leaves free of the UB."""

ATVOSS_CORE_BITS = 32768
"""Bits of the smallest tensor that are worth a core (opbase ``atvoss/elewise``)."""

ROW_PROGRAM = 1024
"""Elements of a Triton program at least."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A way to run an elementwise operator. ``cut(soc, job, options)`` is its host tiling.

    ``assumed``: what of it no public source settles.
    """

    name: str
    title: str
    cut: Callable[[Soc, Job, TilingOptions], Tiling]
    style: Style
    assumed: tuple[str, ...] = ()


def live_tensors(job: Job) -> int:
    """Tensors of a tile that TBE keeps at once, each counted with the widest dtype.

    An input takes a place; widening, narrowing and repeating a last axis take another while they run; other
    results take the place of an operand, and with two inputs or more one place is kept free all the same
    (``_calc_storage_bound`` of the TBE schedules).
    """
    peak = 0
    for held, given in enumerate(job.inputs[:2], 1):
        widened = given.dtype is not job.work or (given.repeated and not given.single)
        peak = max(peak, held + widened)
    narrowed = job.out is not job.work or job.operator.compute is None
    return max(peak, 1 + narrowed) + (len(job.inputs) > 1 and not job.broadcasts)


def _tbe(soc: Soc, job: Job, options: TilingOptions, small: int = SMALL_BLOCKS) -> Tiling:
    """Equal blocks, the least number of tiles that the UB allows, even among themselves.

    Two buffers of everything where a block takes more than one tile.
    """
    size, live = job.widest, live_tensors(job)
    ub = soc.ub.bytes - UB_KEPT_BYTES
    most = REPEAT_ELEMENTS[size]
    alone = min(_whole(ub // live, BLOCK_BYTES) // size, most)
    paired = min(_whole(ub // 2 // live, BLOCK_BYTES) // size, most)
    cut = _tbe_axes if job.broadcasts else _tbe_flat
    block, unit = cut(soc, job, small * BLOCK_BYTES // size)
    limit = paired if block > alone else alone
    tile = block
    if limit < tile:
        limit = _inner_tile(job.axes, limit) if job.broadcasts else limit
        unit = min(unit, _inner_unit(job.axes, limit)) if job.broadcasts else unit
        even = -(-tile // -(-tile // limit))
        tile = align_up(even, unit)
        if tile > limit:
            tile = max(even // unit, 1) * unit
    return with_options(_even(job, block, tile, 2 if block > alone else 1), options, job.out.itemsize)


def _tbe_older(soc: Soc, job: Job, options: TilingOptions) -> Tiling:
    return _tbe(soc, job, options, SMALL_BLOCKS_OLDER)


def _tbe_flat(soc: Soc, job: Job, least: int) -> tuple[int, int]:
    """Elements of a block and of what tiles are made of: whole 128 elements of one axis."""
    block = align_up(-(-job.total // soc.vector_cores), ALIGNMENT)
    return min(max(block, least), job.total), ALIGNMENT


def _tbe_axes(soc: Soc, job: Job, least: int) -> tuple[int, int]:
    """The same where an input is broadcast: as many whole inner axes as leave no core without a block.

    The real cut is by axes too; which of them it takes is not public in the version that runs.
    """
    cores = min(soc.vector_cores, -(-job.total // least))
    unit = job.total
    for dim in job.axes:
        unit //= dim
        units = job.total // unit
        each = -(-units // cores)
        if -(-units // each) == cores:
            return each * unit, unit
    return min(align_up(-(-job.total // cores), ALIGNMENT), job.total), ALIGNMENT


def _inner_tile(axes: tuple[int, ...], capacity: int) -> int:
    """Whole inner axes as long as they fit, and a piece of the next one."""
    inner = 1
    for dim in reversed(axes):
        if inner * dim > capacity:
            return max(1, capacity // inner) * inner
        inner *= dim
    return inner


def _inner_unit(axes: tuple[int, ...], tile: int) -> int:
    """The whole inner axes within ``tile``."""
    inner = 1
    for dim in reversed(axes):
        if inner * dim > tile:
            break
        inner *= dim
    return inner


def _tensor_move(soc: Soc, job: Job, options: TilingOptions) -> Tiling:
    """All cores, whole 32 B blocks, one buffer that fills the UB."""
    unit = BLOCK_BYTES // job.out.itemsize
    block = min(align_up(-(-job.total // soc.vector_cores), unit), job.total)
    tile = min(_whole(soc.ub.bytes - soc.ub.reserved_bytes, BLOCK_BYTES) // job.out.itemsize, block)
    return with_options(_even(job, block, tile, 1), options, job.out.itemsize)


def _atvoss(soc: Soc, job: Job, options: TilingOptions) -> Tiling:
    """Pieces of the UB shared out whole (``atvoss``): with several inputs by its broadcast template."""
    buffers = 2 * (len(job.inputs[:2]) + 1)
    scratch = sum(i.dtype is not job.work for i in job.inputs[:2]) if not job.moves else 0
    alive = buffers - 2 * job.moves + scratch
    size, total, cores = job.widest, job.total, soc.vector_cores
    piece = soc.ub.bytes // alive // 128 * 128 // size
    if len(job.inputs) < 2:
        smallest = min(d.itemsize for d in (job.out, *(i.dtype for i in job.inputs)))
        used = min(cores, -(-total * smallest * 8 // ATVOSS_CORE_BITS))
        block = align_up(-(-total // used), 512)
        tile = min(soc.ub.bytes // alive // 256 * 256 // size, block)
        return with_options(_even(job, min(block, total), tile, 2), options, job.out.itemsize)
    per_block, blocks = _share(total, piece, cores)
    if blocks < cores / 2 and piece * size * alive > 8192:
        smaller = align_up(-(-2 * total // cores) * size, 128) // size
        piece = max(min(piece, smaller), 8192 // alive // 128 * 128 // size)
        per_block, blocks = _share(total, piece, cores)
    return with_options(_even(job, per_block * piece, piece, 2), options, job.out.itemsize)


def _share(total: int, piece: int, cores: int) -> tuple[int, int]:
    pieces = -(-total // piece)
    each = -(-pieces // cores)
    return each, -(-pieces // each)


def _whole_tiles(default: Callable[[Soc, Job, int], int]) -> Callable[[Soc, Job, TilingOptions], Tiling]:
    """Tiles of one length, which the user may choose."""

    def cut(soc: Soc, job: Job, options: TilingOptions) -> Tiling:
        buffers = options.buffer_num or 2
        tile = options.tile_length or default(soc, job, buffers)
        return whole_tiles(_problem(job), tile, options, cores=soc.vector_cores, buffer_num=buffers)

    return cut


def _filling(soc: Soc, job: Job, buffers: int) -> int:
    """The longest tile of whole 128 elements that fits with ``buffers`` in each queue, at most 8192."""
    return min(_fitting(soc, job, buffers), 8192)


def _program(soc: Soc, job: Job, buffers: int) -> int:
    """Elements of a Triton program: a row, at least :data:`ROW_PROGRAM`, as far as it fits."""
    return min(max(job.last, ROW_PROGRAM), _fitting(soc, job, buffers))


def _fitting(soc: Soc, job: Job, buffers: int) -> int:
    queues = job.out.itemsize + (0 if job.moves else sum(i.dtype.itemsize for i in job.inputs[:2]))
    scratch = 0 if job.moves else sum(job.work.itemsize for i in job.inputs[:2] if i.dtype is not job.work)
    free = soc.ub.bytes - soc.ub.reserved_bytes
    return max(free // (buffers * queues + scratch) // ALIGNMENT, 1) * ALIGNMENT


def _plain(soc: Soc, job: Job, options: TilingOptions) -> Tiling:
    """Equal blocks, tiles that fill the UB with two buffers in every queue."""
    block = align_up(-(-job.total // soc.vector_cores), ALIGNMENT)
    tile = min(_fitting(soc, job, 2), block)
    return with_options(_even(job, block, tile, 2), options, job.out.itemsize)


def _even(job: Job, block: int, tile: int, buffers: int) -> Tiling:
    """Blocks of ``block`` elements, the last with the rest, in tiles of ``tile``."""
    return cut_evenly(
        _problem(job),
        per_block=block,
        tile_length=tile,
        buffer_length=align_up(tile, 32),
        buffer_num=buffers,
        key=0,
    )


def _problem(job: Job) -> Problem:
    return Problem(job.out, (job.total,))


def _whole(nbytes: int, unit: int) -> int:
    return nbytes // unit * unit


APART = Style(in_place=False, broadcast="vector")
BY_DMA = Style(in_place=False, broadcast="dma")

TBE = Schedule("tbe", "the vendor's TBE kernel", _tbe, Style(in_place=True, broadcast="scalar"), ("queues",))
TBE_OLDER = Schedule(
    "tbe_older",
    "the vendor's TBE kernel of an older compiler",
    _tbe_older,
    Style(in_place=True, broadcast="vector"),
    ("tiling", "queues"),
)
TENSOR_MOVE = Schedule("tensor_move", "the vendor's TensorMove", _tensor_move, APART, ("tiling",))
ATVOSS = Schedule("atvoss", "the vendor's kernel on the Ascend 950", _atvoss, BY_DMA, ("queues", "tiling"))
ASCENDC = Schedule(
    "ascendc",
    "a plain AscendC kernel with queues",
    _whole_tiles(_filling),
    Style(in_place=False, broadcast="scalar"),
)
TRITON = Schedule("triton", "a Triton kernel", _whole_tiles(_program), APART, ("tiling", "queues"))
PLAIN = Schedule("plain", "equal blocks and tiles that fill the UB", _plain, APART)


def chosen(soc: Soc, job: Job) -> Schedule:
    """What the chip's own software runs."""
    if soc.npu_arch == REGISTER_ARCH:
        return ATVOSS
    if job.moves:
        return TENSOR_MOVE
    return TBE_OLDER if soc.short_name == "Ascend910" else TBE


BY_HAND = (ASCENDC, TRITON)
"""Schedules that a user may ask for beside the chip's own."""

"""The kernels around the operator's own: Contiguous and ViewCopy (copies), and Cast.

What the vendor's kernels for them do in detail is not modelled: they are the plain two-queue kernel with
equal blocks and tiles that fill the UB. Strided runs are charged by their bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from kernel.core import Core, GlobalTensor, Tiles
from kernel.layout import Layout
from kernel.program import Blocks, Launch, Program, TensorArg
from kernel.tiling import Problem, align_up, cut_evenly
from socs.isa import BLOCK_BYTES, DType, RoundMode
from socs.spec import Soc

ALIGNMENT = 128
"""Elements to which blocks and tiles are rounded."""


def copy(
    soc: Soc,
    dtype: DType,
    shape: tuple[int, ...],
    *,
    name: str,
    source: Layout | None = None,
    target: Layout | None = None,
) -> Launch:
    """A copy of ``shape`` elements of ``dtype``, from and to strided storage if a layout is given.

    ``name``: ``contiguous`` or ``view_copy``.
    """

    def record(tiles: Tiles, length: int, buffers: int) -> Program:
        core = Core(tiles.length)
        queue = core.queue("BIND", length * dtype.itemsize, buffers)
        x, y = GlobalTensor("x", dtype), GlobalTensor("out", dtype)
        for tile in core.loop(tiles):
            issued = _issued(soc, dtype, tile.count)
            buffer = queue.alloc(dtype)
            core.copy_in(buffer, x[tile], issued=issued)
            queue.enque(buffer)
            buffer = queue.deque(dtype)
            core.copy_out(y[tile], buffer, issued=issued)
            queue.free(buffer)
        return core.finish()

    problem = Problem(dtype, shape)
    tensors = (
        TensorArg("x", dtype, problem.total, layout=source),
        TensorArg("out", dtype, problem.total, written=True, layout=target),
    )
    return _launch(soc, problem, name, 2 * dtype.itemsize, record, tensors)


def cast(soc: Soc, source: DType, target: DType, shape: tuple[int, ...]) -> Launch:
    """``shape`` elements of ``source`` rounded to ``target``: through float32 between 16-bit formats.

    Widening is exact; narrowing rounds to nearest even (facts: operator, 3.6).
    """
    through = DType.FLOAT32 not in (source, target)

    def record(tiles: Tiles, length: int, buffers: int) -> Program:
        core = Core(tiles.length)
        inputs = core.queue("VECIN", length * source.itemsize, buffers)
        outputs = core.queue("VECOUT", length * target.itemsize, buffers)
        wide = core.buffer("wide", DType.FLOAT32, length) if through else None
        x, y = GlobalTensor("x", source), GlobalTensor("out", target)
        mode = RoundMode.NONE if target is DType.FLOAT32 else _narrowing(soc, target)
        for tile in core.loop(tiles):
            count = tile.count
            buffer = inputs.alloc(source)
            core.copy_in(buffer, x[tile], issued=_issued(soc, source, count))
            inputs.enque(buffer)
            buffer = inputs.deque(source)
            out = outputs.alloc(target)
            value = buffer[:count]
            if wide is not None:
                core.cast(wide[:count], value, RoundMode.NONE)
                value = wide[:count]
            core.cast(out[:count], value, mode)
            inputs.free(buffer)
            outputs.enque(out)
            out = outputs.deque(target)
            core.copy_out(y[tile], out, issued=_issued(soc, target, count))
            outputs.free(out)
        return core.finish()

    problem = Problem(target, shape)
    tensors = (
        TensorArg("x", source, problem.total),
        TensorArg("out", target, problem.total, written=True),
    )
    per_element = 2 * (source.itemsize + target.itemsize) + (4 if through else 0)
    return _launch(soc, problem, "cast", per_element, record, tensors)


def _narrowing(soc: Soc, target: DType) -> RoundMode:
    modes = soc.vector.casts.get(f"float32_to_{target}", ())
    return RoundMode.RINT if RoundMode.RINT in modes else RoundMode.NONE


def _issued(soc: Soc, dtype: DType, count: int) -> int:
    return count if soc.dma.byte_granular else align_up(count, BLOCK_BYTES // dtype.itemsize)


def _launch(
    soc: Soc,
    problem: Problem,
    name: str,
    bytes_per_element: int,
    record: Callable[[Tiles, int, int], Program],
    tensors: tuple[TensorArg, ...],
) -> Launch:
    free = soc.ub.bytes - soc.ub.reserved_bytes
    block = align_up(-(-problem.total // soc.vector_cores), ALIGNMENT)
    tile = min(max(free // bytes_per_element // ALIGNMENT, 1) * ALIGNMENT, block)
    cut = cut_evenly(problem, per_block=block, tile_length=tile, buffer_length=tile, buffer_num=2, key=0)
    blocks = tuple(
        Blocks(record(tiles, length, buffers), starts, first)
        for starts, first, tiles, length, buffers in cut.shapes()
    )
    return Launch(name, blocks, tensors, {}, problem.shape)

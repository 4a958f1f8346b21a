"""``MseLossGrad`` as a Triton kernel: programs of ``BLOCK`` elements, shared out among the cores.

The launched programs run one after another on the cores that there are, each loading its three inputs,
computing in float32 and storing. What of it the compiler decides (queues, the dtype it computes in, whether
programs of one core overlap) is not public and chosen here; the block size is FlagGems' unless given.
"""

from __future__ import annotations

from kernel.core import Core, GlobalTensor, LocalTensor, Tiles
from kernel.program import Program
from kernel.tiling import Problem, Tiling, TilingOptions, align_up, whole_tiles
from socs.isa import BLOCK_BYTES, DType, RoundMode
from socs.spec import Soc

BLOCK = 1024
"""Elements of a program at most (FlagGems; the recorded runs name it)."""

INPUTS = ("self", "target", "grad_output")


def tiling(soc: Soc, problem: Problem, options: TilingOptions) -> Tiling:
    """Whole programs, as evenly as they come; two buffers of everything where they fit."""
    tile = options.tile_length or BLOCK
    size, scratch = 4 * problem.dtype.itemsize, 0 if problem.dtype is DType.FLOAT32 else 12
    fits = align_up(tile, 32) * (2 * size + scratch) <= soc.ub.bytes - soc.ub.reserved_bytes
    return whole_tiles(problem, tile, options, cores=soc.vector_cores, buffer_num=2 if fits else 1)


def record(soc: Soc, problem: Problem, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """The program of one core."""
    core = Core(tiles.length)
    dtype, size = problem.dtype, buffer_length * problem.dtype.itemsize
    queues = [core.queue("VECIN", size, buffer_num) for _ in INPUTS]
    outputs = core.queue("VECOUT", size, buffer_num)
    narrow = dtype is not DType.FLOAT32
    wide = [core.buffer(f"wide {name}", DType.FLOAT32, buffer_length) for name in INPUTS if narrow]
    modes = soc.vector.casts.get(f"float32_to_{dtype}", ())
    mode = RoundMode.RINT if RoundMode.RINT in modes else RoundMode.NONE
    for tile in core.loop(tiles):
        count = tile.count
        whole = align_up(count, BLOCK_BYTES // dtype.itemsize)
        issued = count if soc.dma.byte_granular else whole
        for queue, name in zip(queues, INPUTS, strict=True):
            buffer = queue.alloc(dtype)
            core.copy_in(buffer, GlobalTensor(name, dtype)[tile], issued=issued)
            queue.enque(buffer)
        loaded = [queue.deque(dtype) for queue in queues]
        values: list[LocalTensor] = [buffer[:count] for buffer in loaded]
        for place, name in enumerate(INPUTS):
            if narrow:
                core.cast(wide[place][:count], values[place], RoundMode.NONE)
                values[place] = wide[place][:count]
            if name in problem.repeated:
                core.broadcast(values[place], values[place])
        out = outputs.alloc(dtype)
        target = values[0] if narrow else out[:count]
        core.sub(target, values[0], values[1])
        core.muls(target, target, "coefficient")
        core.mul(target, target, values[2])
        if narrow:
            core.cast(out[:count], target, mode)
        for queue, buffer in zip(queues, loaded, strict=True):
            queue.free(buffer)
        outputs.enque(out)
        out = outputs.deque(dtype)
        core.copy_out(GlobalTensor("out", dtype)[tile], out, issued=issued)
        outputs.free(out)
    return core.finish()

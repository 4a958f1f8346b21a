"""``MseLossGrad`` before the 950: the TBE kernel, which broadcasts.

It runs on the training and 200I/500 A2 series always, elsewhere when the shapes or formats differ. Its
arithmetic is known (facts: operator, 3.5); its cut and its queues are not public in the version that
runs. Chosen here: equal blocks of a multiple of 128 elements, tiles that fill the UB with two buffers
per queue, one queue per input.
"""

from __future__ import annotations

from kernel.core import Core, GlobalTensor, LocalTensor, Tiles
from kernel.program import Program
from kernel.tiling import Problem, Tiling, align_up, cut_evenly
from socs.isa import BLOCK_BYTES, DType, RoundMode
from socs.spec import Soc

BLOCK_ALIGNMENT = 128
"""Elements to which blocks are rounded (canndev ``elewise_v3``, 1-D)."""

TILE_ALIGNMENT = 64
"""Elements of a float32 repeat; tiles are a multiple."""

INPUTS = ("self", "target", "grad_output")


def tiling(soc: Soc, problem: Problem) -> Tiling:
    """Not split at all up to two 32 B blocks per core; else equal blocks and the largest tiles that fit."""
    total, cores = problem.total, soc.vector_cores
    per_unit = BLOCK_BYTES // problem.dtype.itemsize
    if total <= per_unit * cores * 2:
        block = total
    elif total <= per_unit * 64 * cores:
        block = align_up(-(-total // cores), per_unit)
    else:
        block = align_up(-(-total // cores), BLOCK_ALIGNMENT)
    size = problem.dtype.itemsize
    buffers = 2 if block > TILE_ALIGNMENT else 1
    per_element = buffers * 4 * size + (0 if problem.dtype is DType.FLOAT32 else 16)
    tile = max((soc.ub.bytes - soc.ub.reserved_bytes) // per_element // TILE_ALIGNMENT, 1) * TILE_ALIGNMENT
    tile = min(tile, align_up(block, TILE_ALIGNMENT))
    return cut_evenly(
        problem, per_block=block, tile_length=tile, buffer_length=tile, buffer_num=buffers, key=0
    )


def record(soc: Soc, problem: Problem, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """Load, widen, broadcast, compute, narrow, store, tile by tile."""
    core = Core(tiles.length)
    dtype, size = problem.dtype, buffer_length * problem.dtype.itemsize
    queues = {name: core.queue("VECIN", size, buffer_num) for name in INPUTS}
    outputs = core.queue("VECOUT", size, buffer_num)
    narrow = dtype is not DType.FLOAT32
    wide = {name: core.buffer(f"wide {name}", DType.FLOAT32, buffer_length) for name in INPUTS if narrow}
    result = core.buffer("result", DType.FLOAT32, buffer_length) if narrow else None
    mode = RoundMode.NONE if "RINT" not in soc.vector.casts.get(f"float32_to_{dtype}", ()) else RoundMode.RINT
    whole = not soc.dma.byte_granular
    for tile in core.loop(tiles):
        count = tile.count
        issued = align_up(count, BLOCK_BYTES // dtype.itemsize) if whole else count
        loaded: dict[str, LocalTensor] = {}
        for name in INPUTS:
            buffer = queues[name].alloc(dtype)
            core.copy_in(buffer, GlobalTensor(name, dtype)[tile], issued=issued)
            queues[name].enque(buffer)
        for name in INPUTS:
            loaded[name] = queues[name].deque(dtype)
        out = outputs.alloc(dtype)
        values: dict[str, LocalTensor] = {}
        for name in INPUTS:
            value = loaded[name][:count]
            if narrow:
                core.cast(wide[name][:count], value, RoundMode.NONE)
                value = wide[name][:count]
            if name in problem.repeated:
                core.broadcast(value, value)
            values[name] = value
        target = (out if result is None else result)[:count]
        core.sub(target, values["self"], values["target"])
        core.muls(target, target, "coefficient")
        core.mul(target, target, values["grad_output"])
        if narrow:
            core.cast(out[:count], target, mode)
        for name in INPUTS:
            queues[name].free(loaded[name])
        outputs.enque(out)
        out = outputs.deque(dtype)
        core.copy_out(GlobalTensor("out", dtype)[tile], out, issued=issued)
        outputs.free(out)
    return core.finish()

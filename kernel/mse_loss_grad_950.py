"""The kernels of the Ascend 950, of two releases; both broadcast while they copy in.

``register_based`` (newer, ops-nn @4108e2cc): no queues and no double buffering, four slots, one fused
loop in registers. ``atvoss`` (older, opbase ``atvoss/broadcast``): a template with double buffering and
one vector instruction after another. Facts: operator, 5.5 and 5.2.

Tiles are cut from the flat index space. The real ones, in several dimensions, do not run across rows.
"""

from __future__ import annotations

from kernel.core import Core, GlobalTensor, LocalTensor, Tiles
from kernel.program import Program
from kernel.tiling import Group, Problem, Tiling, align_up, cut_evenly, tiling_of
from socs.isa import BLOCK_BYTES, DType, Pipe, RoundMode
from socs.spec import Soc

SLOTS = 4
INPUTS = ("self", "target", "grad_output")


def register_based_tiling(soc: Soc, problem: Problem) -> Tiling:
    """Four equal slots counted as float32; the first (tiles mod cores) cores take one tile more."""
    slot = soc.ub.bytes // SLOTS // BLOCK_BYTES * BLOCK_BYTES
    tile = _inner_tile(problem.shape, slot // 4)
    total = problem.total
    tiles = -(-total // tile)
    cores = min(tiles, soc.vector_cores)
    each, more = divmod(tiles, cores)
    groups = []
    start = 0
    for count, per_core in ((more, each + 1), (cores - more, each)):
        if not count:
            continue
        length = per_core * tile
        last = start + count * length >= total
        full = count - 1 if last and start + count * length > total else count
        if full:
            groups.append(Group(start, full, length, min(tile, length), tile, 1))
        start += full * length
        if full < count:
            rest = total - start
            groups.append(Group(start, 1, rest, min(tile, rest), tile, 1))
            start += rest
    rank = sum(dim > 1 for dim in problem.shape)
    return tiling_of(problem, groups, key=0 if rank <= 4 else 1)


def _inner_tile(shape: tuple[int, ...], capacity: int) -> int:
    """Elements of a tile: whole inner axes as long as they fit, a piece of the next one."""
    inner = 1
    for dim in reversed(shape):
        if inner * dim > capacity:
            return max(1, capacity // inner) * inner
        inner *= dim
    return inner


def atvoss_tiling(soc: Soc, problem: Problem) -> Tiling:
    """schMode 201, one contiguous dimension: a UB piece of 128 B multiples, shared out in whole pieces."""
    wide = problem.dtype is DType.FLOAT32
    alive = (8 if wide else 9) if "grad_output" in problem.single else (10 if wide else 11)
    total, cores = problem.total, soc.vector_cores
    former = soc.ub.bytes // alive // 128 * 128 // 4

    def share(piece: int) -> tuple[int, int]:
        outer = -(-total // piece)
        per_block = -(-outer // cores)
        return per_block, -(-outer // per_block)

    per_block, blocks = share(former)
    if blocks < cores / 2 and former * 4 * alive > 8192:
        smaller = align_up(-(-2 * total // cores) * 4, 128) // 4
        former = max(min(former, smaller), 8192 // alive // 128 * 128 // 4)
        per_block, blocks = share(former)
    return cut_evenly(
        problem,
        per_block=per_block * former,
        tile_length=former,
        buffer_length=former,
        buffer_num=2,
        key=65543 if "grad_output" in problem.single else 7,
    )


def record_register_based(
    soc: Soc, problem: Problem, tiles: Tiles, buffer_length: int, buffer_num: int
) -> Program:
    """Loads, one loop in registers, store; nothing overlaps with the next tile."""
    core = Core(tiles.length)
    size = align_up(buffer_length * 4, BLOCK_BYTES)
    slots = [core.reserve(f"slot {number}", size) for number in range(SLOTS)]
    dtype = problem.dtype
    loaded = core.event(Pipe.MTE2, Pipe.V)
    computed = core.event(Pipe.V, Pipe.MTE3)
    stored = core.event(Pipe.MTE3, Pipe.MTE2)
    taken = core.event(Pipe.V, Pipe.MTE2)
    names = {name: GlobalTensor(name, dtype) for name in (*INPUTS, "out")}

    def slot(number: int, kind: DType) -> LocalTensor:
        return LocalTensor(slots[number], kind, size // kind.itemsize)

    for tile in core.loop(tiles):
        count = tile.count
        if tile.index:
            core.wait_flag(stored)
        if dtype is DType.FLOAT32:
            values = [slot(number, dtype)[:count] for number in range(3)]
            for value, name in zip(values, INPUTS, strict=True):
                core.copy_in(value, names[name][tile])
            core.set_flag(loaded)
            core.wait_flag(loaded)
            target = slot(3, DType.FLOAT32)[:count]
        else:
            values = []
            for number, name in enumerate(INPUTS):
                core.copy_in(slot(0, dtype), names[name][tile])
                core.set_flag(loaded)
                core.wait_flag(loaded)
                wide = slot(number + 1, DType.FLOAT32)[:count]
                core.cast(wide, slot(0, dtype)[:count], RoundMode.NONE)
                values.append(wide)
                if number < 2:
                    core.set_flag(taken)
                    core.wait_flag(taken)
            target = slot(0, DType.FLOAT32)[:count]
        with core.register_loop():
            core.sub(target, values[0], values[1])
            core.muls(target, target, "coefficient")
            core.mul(target, target, values[2])
        out = slot(3, dtype) if dtype is DType.FLOAT32 else slot(1, dtype)
        if dtype is not DType.FLOAT32:
            core.cast(out[:count], target, RoundMode.RINT)
        core.set_flag(computed)
        core.wait_flag(computed)
        core.copy_out(names["out"][tile], out)
        if not tile.last:
            core.set_flag(stored)
    return core.finish()


def record_atvoss(soc: Soc, problem: Problem, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """Double buffering on every tensor; a single grad_output element is duplicated in the UB."""
    core = Core(tiles.length)
    dtype, size = problem.dtype, buffer_length * problem.dtype.itemsize
    narrow = dtype is not DType.FLOAT32
    queues = {name: core.queue("VECIN", size, buffer_num) for name in INPUTS}
    outputs = core.queue("VECOUT", size, buffer_num)
    wide = {name: core.buffer(f"wide {name}", DType.FLOAT32, buffer_length) for name in INPUTS if narrow}
    for tile in core.loop(tiles):
        count = tile.count
        loaded: dict[str, LocalTensor] = {}
        values: dict[str, LocalTensor] = {}
        for name in INPUTS:
            buffer = queues[name].alloc(dtype)
            core.copy_in(buffer, GlobalTensor(name, dtype)[tile])
            queues[name].enque(buffer)
        for name in INPUTS:
            loaded[name] = queues[name].deque(dtype)
            value = loaded[name][:count]
            if name == "grad_output" and name in problem.single:
                core.broadcast(value, value)
            if narrow:
                core.cast(wide[name][:count], value, RoundMode.NONE)
                value = wide[name][:count]
            values[name] = value
        out = outputs.alloc(dtype)
        target = values["self"] if narrow else out[:count]
        core.sub(target, values["self"], values["target"])
        core.muls(target, target, "coefficient")
        core.mul(target, target, values["grad_output"])
        if narrow:
            core.cast(out[:count], target, RoundMode.RINT)
        for name in INPUTS:
            queues[name].free(loaded[name])
        outputs.enque(out)
        out = outputs.deque(dtype)
        core.copy_out(GlobalTensor("out", dtype)[tile], out)
        outputs.free(out)
    return core.finish()

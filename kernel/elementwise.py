"""The elementwise kernels: load, widen, compute, narrow, store, tile by tile; one line per operator.

An :class:`Elementwise` says what is computed with a tile that lies in the UB; everything else (queues, tile
loop, casts to the dtype in which the vector unit computes, broadcasting) is the one function :func:`record`.
How a launch is cut is another matter: :mod:`kernel.elementwise_tiling`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernel.core import Core, GlobalTensor, LocalTensor, Tiles
from kernel.layout import Layout
from kernel.program import Blocks, Launch, Program, TensorArg
from kernel.tiling import Problem, align_up, cut_evenly
from socs.isa import BLOCK_BYTES, DType, RoundMode
from socs.spec import Soc

ALIGNMENT = 128
"""Elements to which blocks and tiles are rounded."""

NATIVE = (DType.FLOAT32, DType.FLOAT16)
"""Dtypes in which the vector unit of every chip computes; others are computed in float32."""

Compute = Callable[[Core, LocalTensor, list[LocalTensor]], None]


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An operator: what it does with tiles in the UB. ``compute(core, out, inputs)``; ``None`` moves only.

    ``reads`` False: ``x`` gives the shape and the dtype, and its elements are not loaded. ``variadic``: the
    last input may be repeated (``x0``, ``x1``, ...).
    """

    name: str
    inputs: tuple[str, ...]
    compute: Compute | None = None
    scalar: bool = False
    casts: bool = False
    reads: bool = True
    variadic: bool = False


def _sum(core: Core, out: LocalTensor, inputs: list[LocalTensor]) -> None:
    core.add(out, inputs[0], inputs[1])
    for value in inputs[2:]:
        core.add(out, out, value)


FAMILY: dict[str, Elementwise] = {
    operator.name: operator
    for operator in (
        Elementwise("copy", ("x",)),
        Elementwise("cast", ("x",), casts=True),
        Elementwise("fill", ("x",), lambda c, out, _: c.duplicate(out, "scalar"), scalar=True, reads=False),
        Elementwise("relu", ("x",), lambda c, out, a: c.relu(out, *a)),
        Elementwise("neg", ("x",), lambda c, out, a: c.muls(out, *a, "scalar")),
        Elementwise("muls", ("x",), lambda c, out, a: c.muls(out, *a, "scalar"), scalar=True),
        Elementwise("add", ("x", "y"), lambda c, out, a: c.add(out, *a)),
        Elementwise("sub", ("x", "y"), lambda c, out, a: c.sub(out, *a)),
        Elementwise("mul", ("x", "y"), lambda c, out, a: c.mul(out, *a)),
        Elementwise("div", ("x", "y"), lambda c, out, a: c.div(out, *a)),
        Elementwise("maximum", ("x", "y"), lambda c, out, a: c.max(out, *a)),
        Elementwise("minimum", ("x", "y"), lambda c, out, a: c.min(out, *a)),
        Elementwise("add_n", ("x",), _sum, variadic=True),
    )
}


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a launch. ``repeated``: it is broadcast; ``single``: it has one element."""

    name: str
    dtype: DType
    repeated: bool = False
    single: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """What a kernel is cut and recorded for."""

    operator: Elementwise
    inputs: tuple[Input, ...]
    out: DType
    shape: tuple[int, ...]

    @property
    def moves(self) -> bool:
        """Whether nothing is computed."""
        return self.operator.compute is None and self.inputs[0].dtype is self.out

    @property
    def work(self) -> DType:
        """The dtype in which the vector unit computes."""
        if self.moves:
            return self.out
        if self.operator.casts and DType.FLOAT32 in (self.inputs[0].dtype, self.out):
            return self.inputs[0].dtype
        dtypes = {*(i.dtype for i in self.inputs), self.out}
        return self.out if len(dtypes) == 1 and self.out in NATIVE else DType.FLOAT32

    @property
    def bytes_per_element(self) -> int:
        """Bytes of UB per element of a tile, with two buffers in every queue."""
        held = 2 * (sum(i.dtype.itemsize for i in self.inputs) + self.out.itemsize)
        if self.moves:
            return 2 * self.out.itemsize
        work = self.work
        scratch = sum(work.itemsize for i in self.inputs if i.dtype is not work)
        return held + scratch + (work.itemsize if self.out is not work and self.operator.compute else 0)


def record(soc: Soc, job: Job, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """The program of one block."""
    if job.moves:
        return _moved(soc, job, tiles, buffer_length, buffer_num)
    core = Core(tiles.length)
    work, out_type = job.work, job.out
    queues = [core.queue("VECIN", buffer_length * i.dtype.itemsize, buffer_num) for i in job.inputs]
    outputs = core.queue("VECOUT", buffer_length * out_type.itemsize, buffer_num)
    wide = [
        None if i.dtype is work else core.buffer(f"wide {i.name}", work, buffer_length) for i in job.inputs
    ]
    compute = job.operator.compute
    result = core.buffer("result", work, buffer_length) if compute and out_type is not work else None
    target = GlobalTensor("out", out_type)
    for tile in core.loop(tiles):
        count = tile.count
        for queue, given in zip(queues, job.inputs, strict=True):
            buffer = queue.alloc(given.dtype)
            core.copy_in(
                buffer, GlobalTensor(given.name, given.dtype)[tile], issued=_issued(soc, given.dtype, count)
            )
            queue.enque(buffer)
        loaded = [queue.deque(given.dtype) for queue, given in zip(queues, job.inputs, strict=True)]
        out = outputs.alloc(out_type)
        values = []
        for given, buffer, scratch in zip(job.inputs, loaded, wide, strict=True):
            value = buffer[:count]
            if scratch is not None:
                core.cast(scratch[:count], value, RoundMode.NONE)
                value = scratch[:count]
            if given.repeated:
                core.broadcast(value, value)
            values.append(value)
        if compute is not None:
            computed = (out if result is None else result)[:count]
            compute(core, computed, values)
            values = [computed]
        if out_type is not work or compute is None:
            core.cast(out[:count], values[0], _rounding(soc, work, out_type))
        for queue, buffer in zip(queues, loaded, strict=True):
            queue.free(buffer)
        outputs.enque(out)
        out = outputs.deque(out_type)
        core.copy_out(target[tile], out, issued=_issued(soc, out_type, count))
        outputs.free(out)
    return core.finish()


def _moved(soc: Soc, job: Job, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """In and out through one buffer; the vector unit has no part in it."""
    core = Core(tiles.length)
    dtype = job.out
    queue = core.queue("BIND", buffer_length * dtype.itemsize, buffer_num)
    source, target = GlobalTensor(job.inputs[0].name, dtype), GlobalTensor("out", dtype)
    for tile in core.loop(tiles):
        issued = _issued(soc, dtype, tile.count)
        buffer = queue.alloc(dtype)
        core.copy_in(buffer, source[tile], issued=issued)
        queue.enque(buffer)
        buffer = queue.deque(dtype)
        core.copy_out(target[tile], buffer, issued=issued)
        queue.free(buffer)
    return core.finish()


def _rounding(soc: Soc, source: DType, target: DType) -> RoundMode:
    """Widening takes no mode; narrowing rounds to nearest even (facts: operator, 3.6)."""
    if target is DType.FLOAT32:
        return RoundMode.NONE
    modes = soc.vector.casts.get(f"{source}_to_{target}", ())
    return RoundMode.RINT if RoundMode.RINT in modes else RoundMode.NONE


def _issued(soc: Soc, dtype: DType, count: int) -> int:
    return count if soc.dma.byte_granular else align_up(count, BLOCK_BYTES // dtype.itemsize)


def launch(soc: Soc, job: Job, name: str, tensors: Sequence[TensorArg], scalars: dict[str, float]) -> Launch:
    """Equal blocks, tiles that fill the UB with two buffers in every queue."""
    problem = Problem(job.out, job.shape)
    free = soc.ub.bytes - soc.ub.reserved_bytes
    block = align_up(-(-problem.total // soc.vector_cores), ALIGNMENT)
    tile = min(max(free // job.bytes_per_element // ALIGNMENT, 1) * ALIGNMENT, block)
    cut = cut_evenly(problem, per_block=block, tile_length=tile, buffer_length=tile, buffer_num=2, key=0)
    blocks = tuple(
        Blocks(record(soc, job, tiles, length, buffers), starts, first)
        for starts, first, tiles, length, buffers in cut.shapes()
    )
    return Launch(name, blocks, tuple(tensors), scalars, problem.shape)


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

    ``name``: ``contiguous`` or ``view_copy``, the vendor's kernels, of which nothing more is modelled.
    """
    total = Problem(dtype, shape).total
    tensors = (
        TensorArg("x", dtype, total, layout=source),
        TensorArg("out", dtype, total, written=True, layout=target),
    )
    return launch(soc, Job(FAMILY["copy"], (Input("x", dtype),), dtype, shape), name, tensors, {})


def cast(soc: Soc, source: DType, target: DType, shape: tuple[int, ...]) -> Launch:
    """``shape`` elements of ``source`` rounded to ``target``: through float32 between 16-bit formats."""
    total = Problem(target, shape).total
    tensors = (TensorArg("x", source, total), TensorArg("out", target, total, written=True))
    return launch(soc, Job(FAMILY["cast"], (Input("x", source),), target, shape), "cast", tensors, {})

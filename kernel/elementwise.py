"""The elementwise kernels: load, widen, compute, narrow, store, tile by tile; one line per operator.

An :class:`Elementwise` says what is computed with tiles that lie in the UB; everything else (queues, tile
loop, casts to the dtype in which the vector unit computes, broadcasting) is :func:`record`, once for all. How
a launch is cut, and how a kernel keeps its tiles, is another matter: :mod:`kernel.schedules`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from kernel.core import Core, GlobalTensor, LocalTensor, Queue, Tile, Tiles
from kernel.program import Flag, Program
from kernel.tiling import align_up
from socs.isa import BLOCK_BYTES, DType, Pipe, RoundMode
from socs.spec import Soc

NATIVE = (DType.FLOAT32, DType.FLOAT16, DType.INT32, DType.INT16)
"""Dtypes in which the vector unit of every chip computes; bfloat16 is computed in float32."""

Compute = Callable[..., None]
"""``compute(core, out, *values)``: the instructions that make ``out`` of tiles in the UB."""


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An operator. ``compute`` is what it does with tiles that lie in the UB; ``None`` where it only moves.

    ``scalar``: it takes a number, ``constant`` is one of its own. ``casts``: the result's dtype is asked for.
    ``reads`` False: ``x`` gives the shape and the dtype alone. ``writes`` False: nothing is stored.
    ``variadic``: any number of inputs ``x0``, ``x1``, ..., which ``compute`` joins two at a time.
    """

    name: str
    inputs: tuple[str, ...]
    compute: Compute | None = None
    scalar: bool = False
    constant: float | None = None
    casts: bool = False
    reads: bool = True
    writes: bool = True
    variadic: bool = False


def _times(core: Core, out: LocalTensor, value: LocalTensor) -> None:
    core.muls(out, value, "scalar")


FAMILY: dict[str, Elementwise] = {
    operator.name: operator
    for operator in (
        Elementwise("copy", ("x",)),
        Elementwise("load", ("x",), writes=False),
        Elementwise("cast", ("x",), casts=True),
        Elementwise(
            "fill", ("x",), lambda core, out: core.duplicate(out, "scalar"), scalar=True, reads=False
        ),
        Elementwise("relu", ("x",), Core.relu),
        Elementwise("neg", ("x",), _times, constant=-1.0),
        Elementwise("muls", ("x",), _times, scalar=True),
        Elementwise("add", ("x", "y"), Core.add),
        Elementwise("sub", ("x", "y"), Core.sub),
        Elementwise("mul", ("x", "y"), Core.mul),
        Elementwise("div", ("x", "y"), Core.div),
        Elementwise("maximum", ("x", "y"), Core.max),
        Elementwise("minimum", ("x", "y"), Core.min),
        Elementwise("add_n", ("x",), Core.add, variadic=True),
    )
}


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a launch.

    ``repeated``: it is broadcast; ``single``: it has one element. ``row``: so many consecutive elements of
    the index space are the same one of it (1 unless its last axis is broadcast).
    """

    name: str
    dtype: DType
    repeated: bool = False
    single: bool = False
    row: int = 1


@dataclass(frozen=True, slots=True)
class Job:
    """What a kernel is cut and recorded for.

    ``axes``: the index space, in as few as all inputs allow; ``last``: its innermost dimension as given.
    """

    operator: Elementwise
    inputs: tuple[Input, ...]
    out: DType
    axes: tuple[int, ...]
    last: int = 1

    @property
    def total(self) -> int:
        """Elements of the index space."""
        return math.prod(self.axes)

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
        alike = all(i.dtype is self.out for i in self.inputs)
        return self.out if alike and self.out in NATIVE else DType.FLOAT32

    @property
    def in_place(self) -> bool:
        """Whether the result may take the buffer of the one input."""
        return len(self.inputs) == 1 and self.inputs[0].dtype is self.out and not self.operator.casts

    @property
    def widest(self) -> int:
        """Bytes of the largest dtype in the UB."""
        return max(d.itemsize for d in (self.out, self.work, *(i.dtype for i in self.inputs)))

    @property
    def broadcasts(self) -> bool:
        """Whether an input is broadcast that has more than one element."""
        return any(i.repeated and not i.single for i in self.inputs)


@dataclass(frozen=True, slots=True)
class Style:
    """How a kernel keeps its tiles.

    ``in_place``: the result of one input takes its buffer. ``broadcast``: how a last axis is repeated:
    ``scalar`` (a scalar read and a fill for each row), ``vector`` (a fill) or ``dma`` (on the way in, for
    nothing).
    """

    in_place: bool
    broadcast: str


def record(soc: Soc, job: Job, style: Style, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """The program of one block."""
    core = Core(tiles.length)
    if job.moves:
        _move(core, soc, job, tiles, buffer_length, buffer_num)
    else:
        _compute(core, soc, job, style, tiles, buffer_length, buffer_num)
    return core.finish()


def _move(core: Core, soc: Soc, job: Job, tiles: Tiles, buffer_length: int, buffer_num: int) -> None:
    """In, and out again through the same buffer; the vector unit has no part in it."""
    dtype, writes = job.out, job.operator.writes
    queue = core.queue("BIND" if writes else "VECIN", buffer_length * dtype.itemsize, buffer_num)
    source, target = GlobalTensor(job.inputs[0].name, dtype), GlobalTensor("out", dtype)
    for tile in core.loop(tiles):
        issued = _issued(soc, dtype, tile.count)
        buffer = queue.alloc(dtype)
        core.copy_in(buffer, source[tile], issued=issued)
        queue.enque(buffer)
        buffer = queue.deque(dtype)
        if writes:
            core.copy_out(target[tile], buffer, issued=issued)
        queue.free(buffer)


def _compute(
    core: Core, soc: Soc, job: Job, style: Style, tiles: Tiles, buffer_length: int, buffer_num: int
) -> None:
    loads = _Loads(core, soc, job, style, buffer_length, buffer_num)
    compute, out_type, work = job.operator.compute, job.out, job.work
    if style.in_place and job.in_place:
        outputs, shared = loads.queues[0], True
    else:
        outputs, shared = core.queue("VECOUT", buffer_length * out_type.itemsize, buffer_num), False
    result = None
    if compute is not None and out_type is not work:
        result = loads.wide[0] if job.inputs else core.buffer("result", work, buffer_length)
    target = GlobalTensor("out", out_type)
    for tile in core.loop(tiles):
        count = tile.count
        loads.begin(tile)
        held = [loads.value(0)] if job.inputs else []
        out = loads.keep() if shared else outputs.alloc(out_type)
        computed = (result or out)[:count]
        for number in range(1, max(2, len(job.inputs))):
            if number < len(job.inputs):
                held.append(loads.value(number))
            if compute is not None:
                compute(core, computed, *held)
                held = [computed]
            loads.done(number)
        if out_type is not work or compute is None:
            core.cast(out[:count], held[0], _rounding(soc, work, out_type))
        loads.done(0)
        outputs.enque(out)
        out = outputs.deque(out_type)
        core.copy_out(target[tile], out, issued=_issued(soc, out_type, count))
        outputs.free(out)


class _Loads:
    """The inputs of a tile: their queues, the scratch in which they are widened, and how they are broadcast.

    The first has a queue of its own; the others share one, each loaded when its turn comes.
    """

    def __init__(
        self, core: Core, soc: Soc, job: Job, style: Style, buffer_length: int, buffer_num: int
    ) -> None:
        self.core, self.soc, self.job, self.style = core, soc, job, style
        inputs, work = job.inputs, job.work
        self.queues: list[Queue] = []
        if inputs:
            position = "INOUT" if style.in_place and job.in_place else "VECIN"
            self.queues.append(core.queue(position, buffer_length * inputs[0].dtype.itemsize, buffer_num))
        if len(inputs) > 1:
            size = max(i.dtype.itemsize for i in inputs[1:])
            self.queues += [core.queue("VECIN", buffer_length * size, buffer_num)] * (len(inputs) - 1)
        self.wide = [
            core.buffer(f"wide {number}", work, buffer_length)
            if any(i.dtype is not work for i in which)
            else None
            for number, which in enumerate((inputs[:1], inputs[1:]))
        ]
        self._tensors = [GlobalTensor(given.name, given.dtype) for given in inputs]
        # Events for each buffer: what comes next in it waits for what reads this one.
        self._events = {
            number: [(core.event(Pipe.MTE2, Pipe.S), core.event(Pipe.S, Pipe.V)) for _ in range(buffer_num)]
            for number, given in enumerate(inputs)
            if style.broadcast == "scalar" and _by_rows(given.row, work)
        }
        self._buffers: list[LocalTensor | None] = [None] * len(inputs)
        self._tile = Tile(0, 0, 0, True)

    def begin(self, tile: Tile) -> None:
        """Load the first two inputs of a tile."""
        self._tile = tile
        for number in range(min(2, len(self.queues))):
            self._load(number)

    def value(self, number: int) -> LocalTensor:
        """The tile of an input, widened and repeated as far as need be."""
        core, given, count = self.core, self.job.inputs[number], self._tile.count
        if number > 1:
            self._load(number)
        buffer = self._buffers[number] = self.queues[number].deque(given.dtype)
        value = buffer[:count]
        scratch = self.wide[min(number, 1)] if given.dtype is not self.job.work else None
        if scratch is not None:
            core.cast(scratch[:count], value, RoundMode.NONE)
            value = scratch[:count]
        if given.single:
            return value.again()
        if given.repeated and self.style.broadcast != "dma":
            self._repeat(number, value, buffer)
        return value

    def keep(self) -> LocalTensor:
        """The first input's buffer, for the result."""
        buffer, self._buffers[0] = self._buffers[0], None
        assert buffer is not None
        return buffer

    def done(self, number: int) -> None:
        """An input that the tile needs no more, if there is one that is still held."""
        if number < len(self._buffers):
            buffer, self._buffers[number] = self._buffers[number], None
            if buffer is not None:
                self.queues[number].free(buffer)

    def _load(self, number: int) -> None:
        given = self.job.inputs[number]
        buffer = self.queues[number].alloc(given.dtype)
        issued = _issued(self.soc, given.dtype, self._tile.count)
        self.core.copy_in(buffer, self._tensors[number][self._tile], issued=issued)
        self.queues[number].enque(buffer)
        if number in self._events:
            self.core.set_flag(self._event(number)[0])

    def _repeat(self, number: int, value: LocalTensor, buffer: LocalTensor) -> None:
        """Repeat a broadcast input over its tile; rows of whole blocks are filled one by one."""
        core, row, count = self.core, self.job.inputs[number].row, self._tile.count
        rows = -(-count // row)
        if number in self._events:
            loaded, read = self._event(number)
            core.wait_flag(loaded)
            core.get_value(buffer[:rows])
            core.set_flag(read)
            core.wait_flag(read)
        if rows > 1 and count % row == 0 and _by_rows(row, value.dtype):
            value = value.every(row, row, rows)
        core.broadcast(value, value)

    def _event(self, number: int) -> tuple[Flag, Flag]:
        events = self._events[number]
        return events[self._tile.index % len(events)]


def _by_rows(row: int, dtype: DType) -> bool:
    return row > 1 and row * dtype.itemsize % BLOCK_BYTES == 0


def _rounding(soc: Soc, source: DType, target: DType) -> RoundMode:
    """Widening takes no mode; narrowing rounds to nearest even (facts: operator, 3.6)."""
    if target is DType.FLOAT32:
        return RoundMode.NONE
    modes = soc.vector.casts.get(f"{source}_to_{target}", ())
    return RoundMode.RINT if RoundMode.RINT in modes else RoundMode.NONE


def _issued(soc: Soc, dtype: DType, count: int) -> int:
    return count if soc.dma.byte_granular else align_up(count, BLOCK_BYTES // dtype.itemsize)

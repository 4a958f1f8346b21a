"""The record of a kernel: what every reader (verify, interpret, compile, time) reads.

A program is the instruction stream of one block, in the order in which the scalar unit issues it.
Global-memory offsets are relative to the block's own start, so that blocks of one shape share one
program. A steady stretch of the tile loop is kept as :class:`Loop`: its body once, with the number of
trips.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from kernel.layout import Layout, contiguous_strides
from socs.isa import DType, Memory, Op, Pipe, RoundMode


@dataclass(frozen=True, slots=True)
class Region:
    """Elements in the unified buffer: ``rows`` runs of ``count``, ``pitch`` elements apart.

    ``block``: one 32 B block that the instruction reads again and again (a stride of 0); the record keeps its
    element as often as it is used.
    """

    address: int
    dtype: DType
    count: int
    rows: int = 1
    pitch: int = 0
    block: bool = False

    memory = Memory.UB

    def spans(self) -> Iterator[tuple[int, int]]:
        """Byte ranges (start, stop) that it consists of; rows without a gap between them are one."""
        if self.rows == 1 or self.pitch == self.count:
            yield self.address, self.address + self.rows * self.count * self.dtype.itemsize
        else:
            yield from self.each_row()

    def each_row(self) -> Iterator[tuple[int, int]]:
        """Byte ranges (start, stop) of the rows."""
        size = self.dtype.itemsize
        for row in range(self.rows):
            start = self.address + row * self.pitch * size
            yield start, start + self.count * size

    @property
    def elements(self) -> int:
        return self.count * self.rows


@dataclass(frozen=True, slots=True)
class Window:
    """A contiguous run of a global-memory tensor, in elements from the block's start.

    Inside a loop the run moves by ``stride`` elements each trip.
    """

    tensor: str
    dtype: DType
    offset: int
    count: int
    stride: int = 0

    memory = Memory.GM

    @property
    def elements(self) -> int:
        return self.count

    def at(self, trip: int) -> Window:
        """The run of one trip."""
        return replace(self, offset=self.offset + trip * self.stride, stride=0)


Operand = Region | Window


@dataclass(frozen=True, slots=True)
class Flag:
    """An event: ``source`` raises it, ``target`` waits for it."""

    source: Pipe
    target: Pipe
    event: int

    def __str__(self) -> str:
        return f"{self.source}->{self.target}#{self.event}"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    ``dst`` and ``srcs`` are what it usefully writes and reads. ``issued_count`` is the number of
    elements that the hardware instruction runs over where that is more: only timing reads it.
    ``scalar`` names a scalar argument of the kernel. ``tile`` is the trip of the kernel's loop.
    """

    op: Op
    pipe: Pipe
    dst: Operand | None = None
    srcs: tuple[Operand, ...] = ()
    issued_count: int = 0
    scalar: str | None = None
    mode: RoundMode = RoundMode.NONE
    flag: Flag | None = None
    tile: int = 0
    fused: tuple[int, int] | None = None
    """Place and number of the instructions of a register loop; intermediate results stay in registers."""

    def operands(self) -> Iterator[Operand]:
        yield from self.srcs
        if self.dst is not None:
            yield self.dst

    def __str__(self) -> str:
        what = f" {self.flag}" if self.flag else ""
        return f"{self.op}{what} (tile {self.tile}, pipe {self.pipe})"


@dataclass(frozen=True, slots=True)
class Loop:
    """``trips`` repetitions of ``body``; each covers ``tiles`` tiles."""

    body: tuple[Instruction, ...]
    trips: int
    tiles: int


@dataclass(frozen=True, slots=True)
class Buffer:
    """A stretch of the unified buffer that the kernel reserves (``InitBuffer``)."""

    name: str
    address: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """The instruction stream of one block."""

    items: tuple[Instruction | Loop, ...]
    buffers: tuple[Buffer, ...]
    length: int
    """Elements of the operator's tensors that the block handles."""

    @property
    def ub_bytes(self) -> int:
        """Bytes of the unified buffer that the block reserves."""
        return max((b.address + b.bytes for b in self.buffers), default=0)

    def walk(self, max_trips: int | None = None) -> Iterator[tuple[Instruction, int]]:
        """Instructions in issue order as (instruction, trip).

        ``max_trips`` limits each loop: its first ``max_trips - 1`` trips and its last one.
        """
        for item in self.items:
            if isinstance(item, Instruction):
                yield item, 0
                continue
            for trip in _trips(item.trips, max_trips):
                for instruction in item.body:
                    yield instruction, trip

    @property
    def instruction_count(self) -> int:
        """Instructions that the block issues, flags and loop overhead included."""
        return sum(1 if isinstance(i, Instruction) else i.trips * len(i.body) for i in self.items)


def _trips(trips: int, most: int | None) -> Iterator[int]:
    if most is None or trips <= most:
        yield from range(trips)
    else:
        yield from range(most - 1)
        yield trips - 1


@dataclass(frozen=True, slots=True)
class Starts:
    """What takes the place of a ``range`` of starts where the numbers are traced (:mod:`kernel.trace`)."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks that share one program; ``starts`` are their first elements in the tensors."""

    program: Program
    starts: range
    first_block: int

    @property
    def count(self) -> int:
        return len(self.starts) if isinstance(self.starts, range) else self.starts.count

    @property
    def first_start(self) -> int:
        return self.starts.start

    @property
    def last_start(self) -> int:
        return self.first_start + (self.count - 1) * self.step

    @property
    def step(self) -> int:
        """Elements from one block's start to the next one's."""
        return self.starts.step


@dataclass(frozen=True, slots=True)
class TensorArg:
    """A tensor argument of a launch.

    ``length`` elements of the launch's index space, in row-major order. ``layout`` says where they lie in
    the tensor's storage; without one, element *i* is element *i*.
    """

    name: str
    dtype: DType
    length: int
    written: bool = False
    layout: Layout | None = None

    @property
    def bytes(self) -> int:
        """Bytes of the distinct elements that are touched."""
        return (self.layout.distinct if self.layout else self.length) * self.dtype.itemsize


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: everything that runs and on how many cores."""

    kernel: str
    blocks: tuple[Blocks, ...]
    tensors: tuple[TensorArg, ...]
    scalars: dict[str, float] = field(default_factory=dict)
    shape: tuple[int, ...] | None = None
    """The index space that the blocks cut, where a tensor has a layout."""

    def layout(self, tensor: TensorArg) -> Layout:
        """Where the elements of ``tensor`` lie."""
        if tensor.layout is not None:
            return tensor.layout
        shape = self.shape if self.shape is not None else (tensor.length,)
        return Layout(shape, contiguous_strides(shape))

    @property
    def block_dim(self) -> int:
        return sum(group.count for group in self.blocks)

    @property
    def bytes_read(self) -> int:
        return sum(t.bytes for t in self.tensors if not t.written)

    @property
    def bytes_written(self) -> int:
        return sum(t.bytes for t in self.tensors if t.written)

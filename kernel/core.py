"""The recorder: what a kernel function calls, in the words of Ascend C.

Nothing is computed here. A kernel function takes a :class:`Core`, asks it for queues and buffers and
calls instructions; the result is a :class:`kernel.program.Program`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import index

from kernel.program import Buffer, Flag, Instruction, Loop, Operand, Program, Region, Window
from socs.errors import AtlasError
from socs.isa import BLOCK_BYTES, DType, Op, Pipe, RoundMode

EVENT_IDS = 8
"""Event ids of one pair of pipes (facts: asc-devkit, SetFlag/WaitFlag)."""


@dataclass(frozen=True, slots=True)
class GlobalTensor:
    """A tensor argument as one block sees it: element 0 is the block's first."""

    name: str
    dtype: DType

    def __getitem__(self, tile: Tile) -> Window:
        return Window(self.name, self.dtype, tile.offset, tile.count)


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """Elements of the unified buffer; a slice, from the front, moves the address."""

    address: int
    dtype: DType
    count: int
    rows: int = 1
    pitch: int = 0
    block: bool = False

    def __getitem__(self, part: slice) -> LocalTensor:
        start = 0 if part.start is None else part.start
        stop = self.count if part.stop is None else min(part.stop, self.count)
        return LocalTensor(self.address + start * self.dtype.itemsize, self.dtype, stop - start)

    def view(self, dtype: DType) -> LocalTensor:
        """The same bytes as elements of another dtype (``ReinterpretCast``)."""
        return LocalTensor(self.address, dtype, self.count * self.dtype.itemsize // dtype.itemsize)

    def every(self, pitch: int, count: int, rows: int) -> LocalTensor:
        """``rows`` runs of ``count`` elements, ``pitch`` apart."""
        return LocalTensor(self.address, self.dtype, count, rows, pitch)

    def again(self) -> LocalTensor:
        """The elements as one block that is read for all of them."""
        return replace(self, block=True)

    @property
    def region(self) -> Region:
        return Region(self.address, self.dtype, self.count, self.rows, self.pitch, self.block)


@dataclass(frozen=True, slots=True)
class Tile:
    """One trip of the kernel's loop: ``count`` elements from ``offset`` of the block."""

    index: int
    offset: int
    count: int
    last: bool


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a block of ``length`` elements; the last takes the rest."""

    length: int
    tile_length: int

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-self.length // self.tile_length)

    def __len__(self) -> int:
        return index(self.count)

    @property
    def full(self) -> int:
        """Tiles of ``tile_length`` elements that are not the last one."""
        return self.count - 1

    def __getitem__(self, number: int) -> Tile:
        offset = number * self.tile_length
        count = min(self.tile_length, self.length - offset)
        return Tile(number, offset, count, number == self.count - 1)


POSITIONS = {
    "VECIN": (Pipe.MTE2, Pipe.V),
    "VECOUT": (Pipe.V, Pipe.MTE3),
    "BIND": (Pipe.MTE2, Pipe.MTE3),
    "INOUT": (Pipe.MTE2, Pipe.V, Pipe.MTE3),
}
"""The pipes through which the buffers of a queue go, by its position."""


class Queue:
    """``TQue``: ``depth`` buffers that go from pipe to pipe; alloc, enque, deque and free make the flags.

    A ``VECIN`` queue is filled by MTE2 and drained by V, a ``VECOUT`` queue by V and MTE3; a ``BIND`` queue
    (``TQueBind``) by MTE2 and MTE3. An ``INOUT`` buffer is loaded, worked on in place and stored: it is
    enqueued and dequeued twice.
    """

    def __init__(self, core: Core, position: str, nbytes: int, depth: int) -> None:
        pipes = POSITIONS[position]
        self._core = core
        self.depth = depth
        self._addresses = [core.reserve(f"{position}[{slot}]", nbytes) for slot in range(depth)]
        self._bytes = nbytes
        self._filled = [
            [core.event(source, target) for _ in range(depth)] for source, target in itertools.pairwise(pipes)
        ]
        self._emptied = [core.event(pipes[-1], pipes[0]) for _ in range(depth)]
        self._in_flight = [False] * depth
        self._next_alloc = 0
        self._handed: list[list[int]] = [[] for _ in self._filled]
        self._stage = [0] * depth

    def alloc(self, dtype: DType) -> LocalTensor:
        """The next buffer, once its last consumer has freed it."""
        slot = self._next_alloc
        self._next_alloc = (slot + 1) % self.depth
        if self._in_flight[slot]:
            self._core.wait_flag(self._emptied[slot])
            self._in_flight[slot] = False
        self._stage[slot] = 0
        return self._tensor(slot, dtype)

    def enque(self, tensor: LocalTensor) -> None:
        """Hand a filled buffer to the next pipe."""
        slot = self._slot(tensor)
        stage = self._stage[slot]
        self._core.set_flag(self._filled[stage][slot])
        self._handed[stage].append(slot)

    def deque(self, dtype: DType) -> LocalTensor:
        """The oldest buffer that was handed over and not taken yet, once the pipe before is done with it.

        Of an ``INOUT`` queue one that has been worked on comes before one that has been loaded.
        """
        stage = max(stage for stage, slots in enumerate(self._handed) if slots)
        slot = self._handed[stage].pop(0)
        self._core.wait_flag(self._filled[stage][slot])
        self._stage[slot] = stage + 1
        return self._tensor(slot, dtype)

    def free(self, tensor: LocalTensor) -> None:
        """Give the buffer back to the producer."""
        slot = self._slot(tensor)
        self._core.set_flag(self._emptied[slot])
        self._in_flight[slot] = True

    def close(self) -> None:
        """Take back the buffers that are still marked (``TPipe`` does it at its end)."""
        for slot in range(self.depth):
            if self._in_flight[slot]:
                self._core.wait_flag(self._emptied[slot])
                self._in_flight[slot] = False

    def _tensor(self, slot: int, dtype: DType) -> LocalTensor:
        return LocalTensor(self._addresses[slot], dtype, self._bytes // dtype.itemsize)

    def _slot(self, tensor: LocalTensor) -> int:
        return self._addresses.index(tensor.address)


class Core:
    """Records one block. ``length`` is the number of elements that the block handles."""

    def __init__(self, length: int) -> None:
        self.length = length
        self._items: list[Instruction | Loop] = []
        self._buffers: list[Buffer] = []
        self._queues: list[Queue] = []
        self._events: dict[tuple[Pipe, Pipe], int] = {}
        self._top = 0
        self._tile = 0

    def reserve(self, name: str, nbytes: int) -> int:
        """Address of ``nbytes`` more of the unified buffer, rounded up to whole blocks."""
        size = -(-nbytes // BLOCK_BYTES) * BLOCK_BYTES
        address = self._top
        self._buffers.append(Buffer(name, address, size))
        self._top += size
        return address

    def buffer(self, name: str, dtype: DType, count: int) -> LocalTensor:
        """A scratch buffer (``TBuf``)."""
        return LocalTensor(self.reserve(name, count * dtype.itemsize), dtype, count)

    def queue(self, position: str, nbytes: int, depth: int) -> Queue:
        """A queue of ``depth`` buffers of ``nbytes`` at ``VECIN`` or ``VECOUT``."""
        queue = Queue(self, position, nbytes, depth)
        self._queues.append(queue)
        return queue

    def event(self, source: Pipe, target: Pipe) -> Flag:
        """A fresh event id of a pair of pipes; there are :data:`EVENT_IDS` of them."""
        used = self._events.get((source, target), 0)
        if used == EVENT_IDS:
            raise AtlasError(
                f"the kernel needs more than {EVENT_IDS} events from {source} to {target} "
                "(one per queue buffer): use a smaller buffer_num"
            )
        self._events[source, target] = used + 1
        return Flag(source, target, used)

    def loop(self, tiles: Tiles) -> Iterator[Tile]:
        """The tile loop. Its steady part is recorded once and folded into a :class:`Loop`.

        The first ``period`` tiles differ (no buffer has to be waited for); after them the stream
        repeats every ``period`` tiles, the least common multiple of the queue depths. Three periods
        are recorded: the first two give the strides, and the third must follow from them. A kernel
        that looks at a tile's number in any other way cannot be folded by this.
        """
        period = math.lcm(*(queue.depth for queue in self._queues)) if self._queues else 1
        trips = (tiles.full - period) // period
        if trips < 3:
            yield from self._record(tiles, 0, tiles.count)
            return
        yield from self._record(tiles, 0, period)
        first = len(self._items)
        yield from self._record(tiles, period, period)
        second = len(self._items)
        yield from self._record(tiles, 2 * period, period)
        third = len(self._items)
        yield from self._record(tiles, 3 * period, period)
        body = self._fold(self._items[first:second], self._items[second:third], self._items[third:], period)
        if body is None:
            yield from self._record(tiles, 4 * period, tiles.count - 4 * period)
            return
        del self._items[first:]
        self._items.append(Loop(body, trips, period))
        rest = period * (1 + trips)
        yield from self._record(tiles, rest, tiles.count - rest)

    def _record(self, tiles: Tiles, first: int, count: int) -> Iterator[Tile]:
        for place in range(count):
            self._tile = first + place
            self._emit(Op.LOOP, Pipe.S)
            yield tiles[self._tile]

    @staticmethod
    def _fold(
        first: list[Instruction | Loop],
        second: list[Instruction | Loop],
        third: list[Instruction | Loop],
        period: int,
    ) -> tuple[Instruction, ...] | None:
        """``first`` with the strides that make its next trips ``second`` and ``third``; else ``None``."""
        if not len(first) == len(second) == len(third):
            return None
        body = []
        for a, b, c in zip(first, second, third, strict=True):
            if isinstance(a, Loop) or isinstance(b, Loop) or isinstance(c, Loop):
                return None
            moved = _with_strides(a, b)
            if not (_follows(moved, b, 1, period) and _follows(moved, c, 2, period)):
                return None
            body.append(moved)
        return tuple(body)

    def _emit(
        self,
        op: Op,
        pipe: Pipe,
        dst: Operand | None = None,
        srcs: tuple[Operand, ...] = (),
        issued: int = 0,
        scalar: str | None = None,
        mode: RoundMode = RoundMode.NONE,
        flag: Flag | None = None,
    ) -> None:
        self._items.append(Instruction(op, pipe, dst, srcs, issued, scalar, mode, flag, self._tile))

    def set_flag(self, flag: Flag) -> None:
        self._emit(Op.SET_FLAG, flag.source, flag=flag)

    def wait_flag(self, flag: Flag) -> None:
        self._emit(Op.WAIT_FLAG, flag.target, flag=flag)

    def copy_in(self, dst: LocalTensor, src: Window, *, issued: int = 0) -> None:
        """GM to UB: ``src.count`` elements; the hardware moves ``issued`` where that is more."""
        region = dst[: src.count].region
        self._emit(Op.COPY_IN, Pipe.MTE2, region, (src,), max(issued, src.count))

    def copy_out(self, dst: Window, src: LocalTensor, *, issued: int = 0) -> None:
        """UB to GM: ``dst.count`` elements; the hardware moves ``issued`` where that is more."""
        region = src[: dst.count].region
        self._emit(Op.COPY_OUT, Pipe.MTE3, dst, (region,), max(issued, dst.count))

    def set_value(self, dst: Window, src: LocalTensor) -> None:
        """UB to GM element by element (``GetValue``/``SetValue``), on the scalar unit."""
        region = src[: dst.count].region
        self._emit(Op.SET_VALUE, Pipe.S, dst, (region,), dst.count)

    def get_value(self, src: LocalTensor) -> None:
        """Read elements of the UB into scalar registers (``GetValue``), on the scalar unit."""
        region = src.region
        self._emit(Op.GET_VALUE, Pipe.S, None, (region,), region.elements)

    def add(self, dst: LocalTensor, a: LocalTensor, b: LocalTensor, *, issued: int = 0) -> None:
        """dst = a + b."""
        self._vector(Op.ADD, dst, (a, b), issued)

    def sub(self, dst: LocalTensor, a: LocalTensor, b: LocalTensor, *, issued: int = 0) -> None:
        """dst = a - b."""
        self._vector(Op.SUB, dst, (a, b), issued)

    def mul(self, dst: LocalTensor, a: LocalTensor, b: LocalTensor, *, issued: int = 0) -> None:
        """dst = a * b."""
        self._vector(Op.MUL, dst, (a, b), issued)

    def div(self, dst: LocalTensor, a: LocalTensor, b: LocalTensor, *, issued: int = 0) -> None:
        """dst = a / b."""
        self._vector(Op.DIV, dst, (a, b), issued)

    def max(self, dst: LocalTensor, a: LocalTensor, b: LocalTensor, *, issued: int = 0) -> None:
        """dst = the larger of a and b."""
        self._vector(Op.MAX, dst, (a, b), issued)

    def min(self, dst: LocalTensor, a: LocalTensor, b: LocalTensor, *, issued: int = 0) -> None:
        """dst = the smaller of a and b."""
        self._vector(Op.MIN, dst, (a, b), issued)

    def muls(self, dst: LocalTensor, a: LocalTensor, scalar: str, *, issued: int = 0) -> None:
        """dst = a * scalar; ``scalar`` names a scalar argument."""
        self._vector(Op.MULS, dst, (a,), issued, scalar=scalar)

    def relu(self, dst: LocalTensor, a: LocalTensor, *, issued: int = 0) -> None:
        """dst = a where it is positive, else 0."""
        self._vector(Op.RELU, dst, (a,), issued)

    def duplicate(self, dst: LocalTensor, scalar: str, *, issued: int = 0) -> None:
        """dst = scalar in every element; ``scalar`` names a scalar argument."""
        self._vector(Op.DUPLICATE, dst, (), issued, scalar=scalar)

    def cast(self, dst: LocalTensor, src: LocalTensor, mode: RoundMode, *, issued: int = 0) -> None:
        """dst = src in dst's dtype, rounded by ``mode``."""
        self._vector(Op.CAST, dst, (src,), issued, mode=mode)

    def broadcast(self, dst: LocalTensor, src: LocalTensor) -> None:
        """Repeat ``src``, which a broadcasting copy has brought, over ``dst``.

        The record keeps the repeated elements in ``src`` already, so that it reads as an element-wise
        instruction; what it costs is that of filling ``dst``.
        """
        self._vector(Op.BROADCAST, dst, (src,), 0)

    @contextmanager
    def register_loop(self) -> Iterator[None]:
        """Vector instructions of one fused loop in registers (``__VEC_SCOPE__``): one pass over the UB."""
        first = len(self._items)
        yield
        members = [i for i in self._items[first:] if isinstance(i, Instruction)]
        for place, instruction in enumerate(members):
            self._items[first + place] = replace(instruction, fused=(place, len(members)))

    def _vector(
        self,
        op: Op,
        dst: LocalTensor,
        srcs: tuple[LocalTensor, ...],
        issued: int,
        *,
        scalar: str | None = None,
        mode: RoundMode = RoundMode.NONE,
    ) -> None:
        region = dst.region
        self._emit(
            op,
            Pipe.V,
            region,
            tuple([src.region for src in srcs]),
            max(issued, region.elements),
            scalar,
            mode,
        )

    def finish(self) -> Program:
        """Close the queues and return the record."""
        for queue in self._queues:
            queue.close()
        return Program(tuple(self._items), tuple(self._buffers), self.length)


def _with_strides(a: Instruction, b: Instruction) -> Instruction:
    """``a`` with its runs moving each trip as far as from ``a`` to ``b``."""
    if isinstance(a.dst, Window) and isinstance(b.dst, Window):
        return replace(a, dst=replace(a.dst, stride=b.dst.offset - a.dst.offset))
    if len(a.srcs) == len(b.srcs) == 1:
        (x,), (y,) = a.srcs, b.srcs
        if isinstance(x, Window) and isinstance(y, Window):
            return replace(a, srcs=(replace(x, stride=y.offset - x.offset),))
    return a


def _follows(first: Instruction, other: Instruction, trip: int, period: int) -> bool:
    """Whether ``other`` is what ``first`` becomes in a trip."""
    return (
        first.op is other.op
        and first.pipe is other.pipe
        and first.flag == other.flag
        and first.issued_count == other.issued_count
        and first.scalar == other.scalar
        and first.mode is other.mode
        and first.fused == other.fused
        and other.tile == first.tile + trip * period
        and _moved_to(first.dst, other.dst, trip)
        and len(first.srcs) == len(other.srcs)
        and all(_moved_to(x, y, trip) for x, y in zip(first.srcs, other.srcs, strict=True))
    )


def _moved_to(first: Operand | None, other: Operand | None, trip: int) -> bool:
    if isinstance(first, Window):
        return (
            isinstance(other, Window)
            and other.offset == first.offset + trip * first.stride
            and (other.tensor, other.dtype, other.count) == (first.tensor, first.dtype, first.count)
        )
    return first == other

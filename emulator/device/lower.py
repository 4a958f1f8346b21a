"""A launch as a table of numbers: what the compiled engine reads, and what the bounds are sums of.

A row for each instruction of each program, in issue order, with the costs that :class:`Costs` gives. Two
things that a pipe finds out while it runs are settled here once: the number of a flag, and whether a vector
instruction has to wait until the pipe has drained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from emulator.device.costs import Costs
from kernel.program import Blocks, Flag, Instruction, Launch, Loop, Region
from socs.errors import AtlasError
from socs.isa import Op, Pipe

PIPES = tuple(Pipe)
"""The order of the pipes in every table."""

WORK, SET_FLAG, WAIT_FLAG = range(3)
"""Kinds of row."""

ALIKE_WITHIN = 16
"""Trips of a loop within which the vector pipe has to begin two alike."""


class Irregular(AtlasError):
    """A program that cannot be written as a table."""


class Row(NamedTuple):
    """One instruction.

    ``pipe``: its place in :data:`PIPES`. ``issue``: cycles of the scalar unit to hand it over. ``flag``: its
    number among the group's, or -1. ``cycles``: of the pipe, until the next instruction may begin; of a
    transfer, alone and unloaded. ``retire``: of a vector instruction, until its result is there; of a
    transfer, what passes after the memory has served it. ``drains``: whether it touches what an earlier one
    may still have to write. A transfer asks the memory for ``grains``, at most ``cap`` per cycle, each taking
    ``hbm`` of HBM's rate; ``store``: it writes. With the memory to itself it takes ``alone`` cycles, and
    ``overlap`` before its end the pipe goes on.
    """

    pipe: int
    kind: int
    issue: int
    flag: int
    cycles: int
    retire: int = 0
    drains: int = 0
    grains: int = 0
    cap: int = 0
    hbm: int = 0
    alone: int = 0
    store: int = 0
    overlap: int = 0


class Segment(NamedTuple):
    """Rows ``first`` to ``last`` (exclusive), ``trips`` times over."""

    first: int
    last: int
    trips: int


@dataclass(frozen=True, slots=True)
class Group:
    """Equal blocks: ``count`` cores that run ``segments``; ``flags`` by their numbers."""

    count: int
    segments: tuple[Segment, ...]
    flags: tuple[Flag, ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A launch: all rows, and which of them each group runs."""

    rows: tuple[Row, ...]
    groups: tuple[Group, ...]


def lower(launch: Launch, costs: Costs) -> Lowered:
    """``launch`` with the costs of a chip. Raises ``UnknownCost`` where the chip has none."""
    rows: list[Row] = []
    groups = tuple(_Lowering(blocks, costs, rows).group() for blocks in launch.blocks)
    return Lowered(tuple(rows), groups)


class _Lowering:
    """Appends one group's rows to ``rows``."""

    def __init__(self, blocks: Blocks, costs: Costs, rows: list[Row]) -> None:
        self._blocks = blocks
        self._costs = costs
        self._rows = rows
        self._flags: dict[Flag, int] = {}
        self._open: list[Region] = []
        """What vector instructions since the last drain write: those that touch it wait."""

    def group(self) -> Group:
        segments: list[Segment] = []
        for trips, body in _stretches(self._blocks):
            segments += self._stretch(trips, body)
        return Group(self._blocks.count, tuple(segments), tuple(self._flags))

    def _stretch(self, trips: int, body: Sequence[Instruction]) -> Iterator[Segment]:
        """Trips until the vector pipe begins one as it began an earlier one; then those again and again."""
        begun: list[list[Region]] = []
        places: list[int] = []
        while self._open not in begun:
            if len(begun) == trips:
                yield Segment(places[0], len(self._rows), 1)
                return
            if len(begun) == ALIKE_WITHIN:
                raise Irregular(f"{ALIKE_WITHIN} trips of a loop begin with different results to come")
            begun.append(list(self._open))
            places.append(len(self._rows))
            self._append(body)
        alone = begun.index(self._open)
        if alone:
            yield Segment(places[0], places[alone], 1)
        times, rest = divmod(trips - alone, len(begun) - alone)
        yield Segment(places[alone], len(self._rows), times)
        if rest:
            first = len(self._rows)
            for _ in range(rest):
                self._append(body)
            yield Segment(first, len(self._rows), 1)

    def _append(self, body: Sequence[Instruction]) -> None:
        self._rows += [self._row(instruction) for instruction in body]

    def _row(self, instruction: Instruction) -> Row:
        costs, pipe = self._costs, instruction.pipe
        number = PIPES.index(pipe)
        issue = 0
        if pipe is not Pipe.S:
            issue = costs.issue()
            costs.queue_depth()
        if instruction.op is Op.SET_FLAG:
            if pipe is Pipe.V:
                self._open = []
            return Row(number, SET_FLAG, issue, self._flag(instruction), costs.set_flag())
        if instruction.op is Op.WAIT_FLAG:
            return Row(number, WAIT_FLAG, issue, self._flag(instruction), costs.wait_flag())
        if pipe is Pipe.S:
            return Row(number, WORK, issue, -1, costs.scalar(instruction))
        if pipe is Pipe.V:
            time = costs.vector(instruction)
            drains = self._drains(instruction)
            return Row(number, WORK, issue, -1, time.issue_cycles, time.retire_cycles, drains)
        transfer = costs.transfer(instruction, self._blocks)
        demand = transfer.demand
        return Row(
            number,
            WORK,
            issue,
            -1,
            transfer.unloaded_cycles,
            transfer.stream_latency_cycles,
            grains=demand.grains,
            cap=demand.cap,
            hbm=demand.hbm,
            alone=transfer.alone_cycles,
            store=demand.store,
            overlap=transfer.overlap_cycles,
        )

    def _flag(self, instruction: Instruction) -> int:
        assert instruction.flag is not None
        return self._flags.setdefault(instruction.flag, len(self._flags))

    def _drains(self, instruction: Instruction) -> int:
        touched = [r for r in instruction.operands() if isinstance(r, Region)]
        drains = any(overlap(r, written) for written in self._open for r in touched)
        if drains:
            self._open = []
        assert isinstance(instruction.dst, Region)
        if instruction.dst not in self._open:
            self._open.append(instruction.dst)
        return int(drains)


def overlap(a: Region, b: Region) -> bool:
    """Whether two regions of the unified buffer share a byte."""
    return any(x0 < y1 and y0 < x1 for x0, x1 in a.spans() for y0, y1 in b.spans())


def _stretches(blocks: Blocks) -> Iterator[tuple[int, tuple[Instruction, ...]]]:
    """The program as stretches of instructions: (trips, body)."""
    straight: list[Instruction] = []
    for item in blocks.program.items:
        if isinstance(item, Loop):
            if not item.trips or not item.body:
                continue
            if straight:
                yield 1, tuple(straight)
            straight = []
            yield item.trips, item.body
        else:
            straight.append(item)
    if straight:
        yield 1, tuple(straight)

"""A launch through the compiled engine: looked up, simulated, and told as the SimPy device tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from emulator.device import steady
from emulator.device.bound import Bounds, Moved, assembled, moved_by
from emulator.device.conditions import Conditions
from emulator.device.fast import engine
from emulator.device.lower import PIPES, Irregular, Lowered, Row, Segment, lower
from emulator.device.timeline import CoreTimeline, PipeRow, PipeTotals, Reason, Timeline
from kernel.program import Launch
from socs.errors import AtlasError
from socs.spec import Soc

Int = NDArray[np.int64]
Cells = tuple[int, ...]
Named = tuple[int, str, str]
"""A flag as the place of the pipe that waits for it, its name, and that of the wait."""


ROW_WIDTH = len(Row._fields) + 1
"""Cells of a row: with how far on the pipe's next one is."""
SEGMENT_WIDTH = len(Segment._fields) + len(PIPES)
"""Cells of a segment: with where each pipe begins."""


class NotForThisEngine(AtlasError):
    """A launch that only SimPy's engine can count: its numbers may not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Table:
    """A launch as the compiled engine takes it.

    ``first_blocks`` and ``flags``: of each group. ``moved``: what all transfers together take of the
    memories (:func:`emulator.device.bound.assembled`).
    """

    rows: Int
    segments: Int
    groups: Int
    first_blocks: Sequence[int]
    flags: Sequence[Sequence[Named]]
    moved: Moved


def simulate(launch: Launch, soc: Soc, *, l2: str = "cold", skip: bool = True) -> tuple[Outcome, Conditions]:
    """What becomes of ``launch`` on ``soc``, and what decided it.

    Arguments, cycles, sums and errors as of :func:`emulator.device.device.simulate`. Raises
    ``NotForThisEngine`` for the few launches that only SimPy's engine can count.
    """
    conditions = Conditions.of(launch, soc, l2)
    try:
        lowered = lower(launch, conditions.costs)
    except Irregular as error:
        raise NotForThisEngine(str(error)) from None
    rows, segments, groups = cells(lowered)
    first_blocks = [blocks.first_block for blocks in launch.blocks]
    table = Table(
        array(rows), array(segments), array(groups), first_blocks, flags_of(lowered), moved_by(lowered)
    )
    return run(table, conditions, skip=skip), conditions


def flags_of(lowered: Lowered) -> list[list[Named]]:
    """Of each group its flags, by number."""
    return [
        [(PIPES.index(flag.target), str(flag), f"{Reason.FLAG}:{flag}") for flag in group.flags]
        for group in lowered.groups
    ]


def cells(lowered: Lowered) -> tuple[list[Cells], list[Cells], list[Cells]]:
    """What is in a table: rows, segments and groups, with the links that the engine follows."""
    rows: list[Cells] = []
    segments: list[Cells] = []
    groups: list[Cells] = []
    for group in lowered.groups:
        if not group.segments:
            raise NotForThisEngine("a block without instructions")
        begin = len(segments)
        for segment in group.segments:
            linked, starts = _linked(lowered.rows[segment.first : segment.last])
            rows += linked
            segments.append((*segment, *starts))
        groups.append((begin, len(segments), group.count, len(group.flags)))
    return rows, segments, groups


def _linked(rows: Sequence[Row]) -> tuple[list[Cells], list[int]]:
    """Rows, each with how far on the next one of its pipe is (or 0), and the pipes' first ones (or -1)."""
    following = [-1] * len(PIPES)
    found: list[Cells] = []
    for place in range(len(rows) - 1, -1, -1):
        row = rows[place]
        after = following[row.pipe]
        found.append((*row, after - place if after >= 0 else 0))
        following[row.pipe] = place
    return found[::-1], following


def array(numbers: Sequence[Cells] | Sequence[int]) -> Int:
    """As 64-bit integers. ``NotForThisEngine`` for larger ones."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise NotForThisEngine("a number does not fit into 64 bits") from None


def run(table: Table, conditions: Conditions, *, skip: bool = True) -> Outcome:
    """Simulate a table."""
    many = len(table.flags)
    stretch = engine.FLAGS_FROM + 3 * max(map(len, table.flags))
    w, out = np.zeros(many * stretch, np.int64), np.zeros(engine.OUT, np.int64)
    engine.run(table.rows, table.segments, table.groups, _numbers(conditions, skip), w, out)
    report = out.tolist()
    if report[engine.STATUS] != engine.FINISHED:
        _refuse(report, w.tolist(), stretch, table)
    return Outcome(table, conditions, report, w.tolist(), stretch)


class Outcome:
    """What the engine has found, told when it is asked for."""

    def __init__(
        self, table: Table, conditions: Conditions, report: list[int], w: list[int], stretch: int
    ) -> None:
        self.cycles = report[engine.TOTAL]
        self.launch_cycles = conditions.launch_cycles
        self._table = table
        self._conditions = conditions
        self._report = report
        self._w = w
        self._stretch = stretch

    @property
    def bounds(self) -> Bounds:
        pipes, serial = self._report[engine.LIMITS : engine.SERIAL], self._report[engine.SERIAL]
        return assembled(pipes, serial, self._table.moved, self._conditions)

    def rows(self) -> tuple[PipeRow, ...]:
        """The sums of all pipes: those of :meth:`timeline`, at a fraction of its cost."""
        rows = []
        w, total, own = self._w, self.cycles, 0
        counts = self._table.groups[:, engine.BLOCKS].tolist()
        for group, (first, blocks) in enumerate(zip(self._table.first_blocks, counts, strict=True)):
            own, waits = group * self._stretch, self._waits(group)
            for place, pipe in enumerate(PIPES):
                waiting = {name: cycles for _, name, cycles in waits[place]}
                cycles = own + engine.CYCLES
                for name, reason in _WAITS:
                    if w[cycles + reason]:
                        waiting[name] = w[cycles + reason]
                if not place and any(w[cycles + engine.QUEUE : cycles + engine.REASONS]):
                    waiting[_QUEUE] = sum(w[cycles + engine.QUEUE : cycles + engine.REASONS])
                busy = w[cycles + engine.EXECUTE] + w[cycles + engine.DRAIN]
                done = total - w[own + engine.DONE_AT]
                rows.append(PipeRow(first, blocks, pipe, busy, waiting, done, w[own + engine.INSTRUCTIONS]))
                own += engine.PIPE_WIDTH
        return tuple(rows)

    def timeline(self) -> Timeline:
        """Everything but the spans."""
        simulated = self._report[engine.SIMULATED]
        timeline = Timeline(self.cycles, self.launch_cycles, simulated_instructions=simulated)
        counts = self._table.groups[:, engine.BLOCKS].tolist()
        for group, (first, blocks) in enumerate(zip(self._table.first_blocks, counts, strict=True)):
            waits = self._waits(group)
            pipes = {}
            for place, pipe in enumerate(PIPES):
                own = self._own(group, place)
                cycles = Counter({key: own[engine.CYCLES + r] for r, key in _KEYS if own[engine.CYCLES + r]})
                cycles |= {(Reason.FLAG, flag): waited for flag, _, waited in waits[place]}
                if self.cycles > own[engine.DONE_AT]:
                    cycles[Reason.DONE, ""] = self.cycles - own[engine.DONE_AT]
                pipes[pipe] = PipeTotals(cycles, own[engine.INSTRUCTIONS])
            end = max(self._own(group, place)[engine.DONE_AT] for place in range(len(PIPES)))
            timeline.cores.append(CoreTimeline(group, first, blocks, end, pipes))
        return timeline

    def _own(self, group: int, pipe: int) -> list[int]:
        """A pipe's stretch of the engine's array."""
        start = group * self._stretch + pipe * engine.PIPE_WIDTH
        return self._w[start : start + engine.PIPE_WIDTH]

    def _waits(self, group: int) -> list[list[tuple[str, str, int]]]:
        """Of each pipe, for which flags it waited how long: (flag, name of the wait, cycles)."""
        found: list[list[tuple[str, str, int]]] = [[] for _ in PIPES]
        flags = self._table.flags[group]
        many = (self._stretch - engine.FLAGS_FROM) // 3
        start = group * self._stretch + engine.FLAGS_FROM + many
        for (pipe, flag, name), cycles in zip(flags, self._w[start : start + len(flags)], strict=True):
            if cycles:
                found[pipe].append((flag, name, cycles))
        for waits in found:
            if len(waits) > 1:
                waits.sort()
        return found


_WAITS = tuple(
    (str(reason), place)
    for reason, place in (
        (Reason.ISSUE, engine.ISSUE),
        (Reason.LAUNCH, engine.LAUNCH),
        (Reason.MEMORY, engine.MEMORY),
    )
)
_QUEUE = str(Reason.QUEUE)
_KEYS = (
    (engine.EXECUTE, (Reason.EXECUTE, "")),
    (engine.DRAIN, (Reason.EXECUTE, "drain")),
    (engine.LAUNCH, (Reason.LAUNCH, "")),
    (engine.ISSUE, (Reason.ISSUE, "")),
    (engine.MEMORY, (Reason.MEMORY, "")),
    *((engine.QUEUE + place, (Reason.QUEUE, str(pipe))) for place, pipe in enumerate(PIPES[1:])),
)


def _refuse(report: list[int], w: list[int], stretch: int, table: Table) -> NoReturn:
    status, cycle, group = report[engine.STATUS], report[engine.TOTAL], report[engine.STUCK_GROUP]
    if status == engine.TOO_LARGE:
        raise NotForThisEngine("sums over this launch may not fit into 64 bits")
    if status == engine.AHEAD:
        raise NotForThisEngine("a flag is raised again while transfers that raise it have yet to end")
    names = [name for _, name, _ in table.flags[group]]
    if status == engine.RAISED_TWICE:
        first = group * stretch + engine.FLAGS_FROM
        twice = min(name for number, name in enumerate(names) if w[first + number] > 1)
        raise AtlasError(f"flag {twice} is raised twice before a wait (cycle {cycle})")
    stuck, place = "no pipe can go on", report[engine.STUCK_FLAG]
    if place >= 0:
        stuck = f"pipe {PIPES[report[engine.STUCK_PIPE]]} waits for flag {names[place]}"
    raise AtlasError(f"deadlock at cycle {cycle}, core group {group}: {stuck}")


def _numbers(conditions: Conditions, skip: bool) -> Int:
    numbers = [0] * engine.NUMBERS
    numbers[engine.LAUNCH_CYCLES] = conditions.launch_cycles
    numbers[engine.ENTRY_CYCLES] = conditions.entry_cycles
    numbers[engine.QUEUE_DEPTH] = conditions.costs.queue_depth()
    numbers[engine.LOAD_GRAINS] = conditions.capacity.load_grains
    numbers[engine.STORE_GRAINS] = conditions.capacity.store_grains
    numbers[engine.HBM_GRAINS] = conditions.capacity.hbm_grains
    numbers[engine.LOAD_HBM] = conditions.residency.load_traffic
    numbers[engine.STORE_HBM] = conditions.residency.store_traffic
    numbers[engine.SKIP] = skip
    numbers[engine.REMEMBERED] = steady.MEMORY
    return array(numbers)

"""A launch through the compiled engine: looked up, simulated, and told as the SimPy device tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulator.device import steady
from emulator.device.bound import Bounds, Moved, assembled, moved_by
from emulator.device.conditions import Conditions
from emulator.device.fast import engine
from emulator.device.lower import PIPES, Irregular, Lowered, Row, lower
from emulator.device.timeline import CoreTimeline, PipeTotals, Reason, Timeline
from kernel.program import Flag, Launch
from socs.errors import AtlasError
from socs.spec import Soc

Int = NDArray[np.int64]
Cells = tuple[int, ...]


class NotForThisEngine(AtlasError):
    """A launch that only SimPy's engine can count: its numbers may not fit into 64 bits."""


@dataclass(frozen=True, slots=True)
class Table:
    """A launch as the compiled engine takes it. ``first_blocks``, ``flags``: of each group; ``moved``: what
    all transfers together take of the memories (:func:`emulator.device.bound.assembled`)."""

    rows: Int
    segments: Int
    groups: Int
    first_blocks: Sequence[int]
    flags: Sequence[Sequence[Flag]]
    moved: Moved


def simulate(
    launch: Launch, soc: Soc, *, l2: str = "cold", skip: bool = True
) -> tuple[Timeline, Bounds, Conditions]:
    """The timeline of ``launch`` on ``soc`` without its spans, its bounds, and what decided them.

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
    flags = [group.flags for group in lowered.groups]
    table = Table(array(rows), array(segments), array(groups), first_blocks, flags, moved_by(lowered))
    timeline, limits = run(table, conditions, skip=skip)
    return timeline, limits, conditions


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
            linked, starts = _linked(lowered.rows[segment.first : segment.last], segment.first)
            rows += linked
            segments.append((*segment, *starts))
        groups.append((begin, len(segments), group.count, len(group.flags)))
    return rows, segments, groups


def _linked(rows: Sequence[Row], first: int) -> tuple[list[Cells], list[int]]:
    """Rows, each with the next one of its pipe in the trip (or -1), and the pipes' first ones."""
    following = [-1] * len(PIPES)
    found: list[Cells] = []
    for place in range(len(rows) - 1, -1, -1):
        row = rows[place]
        found.append((*row, following[row.pipe]))
        following[row.pipe] = first + place
    return found[::-1], following


def array(numbers: Sequence[Cells] | Sequence[int]) -> Int:
    """As 64-bit integers. ``NotForThisEngine`` for larger ones."""
    try:
        return np.array(numbers, np.int64)
    except OverflowError:
        raise NotForThisEngine("a number does not fit into 64 bits") from None


def run(table: Table, conditions: Conditions, *, skip: bool = True) -> tuple[Timeline, Bounds]:
    """Simulate a table."""
    many = len(table.flags)
    stretch = engine.FLAGS_FROM + 3 * max(map(len, table.flags))
    w, out = np.zeros(many * stretch, np.int64), np.zeros(engine.OUT, np.int64)
    engine.run(table.rows, table.segments, table.groups, _numbers(conditions, skip), w, out)
    report = out.tolist()
    _check(report, table)
    total = report[engine.TOTAL]
    timeline = Timeline(total, conditions.launch_cycles, simulated_instructions=report[engine.SIMULATED])
    for group, flags in enumerate(table.flags):
        own = w[group * stretch : (group + 1) * stretch].tolist()
        pipes = {pipe: _totals(own, place, total) for place, pipe in enumerate(PIPES)}
        for number, flag in enumerate(flags, start=engine.FLAGS_FROM + (stretch - engine.FLAGS_FROM) // 3):
            if own[number]:
                pipes[flag.target].cycles[Reason.FLAG, str(flag)] = own[number]
        end = max(own[engine.PIPE_WIDTH * place + engine.DONE_AT] for place in range(len(PIPES)))
        timeline.cores.append(
            CoreTimeline(group, table.first_blocks[group], int(table.groups[group, 2]), end, pipes)
        )
    pipe_limits, serial = report[engine.LIMITS : engine.SERIAL], report[engine.SERIAL]
    return timeline, assembled(pipe_limits, serial, table.moved, conditions)


def _totals(own: list[int], place: int, total: int) -> PipeTotals:
    """Cycles of a pipe by reason, but the flags'. ``own``: its group's stretch of the engine's array."""
    first = engine.PIPE_WIDTH * place
    cycles: Counter[tuple[Reason, str]] = Counter()
    for reason, key in _KEYS:
        if own[first + engine.CYCLES + reason]:
            cycles[key] = own[first + engine.CYCLES + reason]
    if total > own[first + engine.DONE_AT]:
        cycles[Reason.DONE, ""] = total - own[first + engine.DONE_AT]
    return PipeTotals(cycles, own[first + engine.INSTRUCTIONS])


_KEYS = (
    (engine.EXECUTE, (Reason.EXECUTE, "")),
    (engine.DRAIN, (Reason.EXECUTE, "drain")),
    (engine.LAUNCH, (Reason.LAUNCH, "")),
    (engine.ISSUE, (Reason.ISSUE, "")),
    (engine.MEMORY, (Reason.MEMORY, "")),
    *((engine.QUEUE + place, (Reason.QUEUE, str(pipe))) for place, pipe in enumerate(PIPES[1:])),
)


def _check(report: list[int], table: Table) -> None:
    status, cycle, group = report[engine.STATUS], report[engine.TOTAL], report[engine.STUCK_GROUP]
    if status == engine.FINISHED:
        return
    if status == engine.TOO_LARGE:
        raise NotForThisEngine("sums over this launch may not fit into 64 bits")
    place = report[engine.STUCK_FLAG]
    flag = table.flags[group][place] if place >= 0 else None
    if status == engine.RAISED_TWICE:
        raise AtlasError(f"flag {flag} is raised twice before a wait (cycle {cycle})")
    stuck = "no pipe can go on"
    if flag is not None:
        stuck = f"pipe {PIPES[report[engine.STUCK_PIPE]]} waits for flag {flag}"
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

"""Skipping whole periods of a steady pipeline, exactly.

At the start of a trip of the tile loop the whole state of the device is compared with earlier ones:
queues, flags, what each pipe is doing and for how much longer, what the memory still owes. When a state
comes back, what follows is the same as what followed before, as long as the loop goes on. So the loop
counters are moved by whole periods, the clock with them, and nothing else changes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.device.timeline import Reason, Repeat

if TYPE_CHECKING:
    from emulator.device.core import Core
    from emulator.device.device import Device

MEMORY = 8192
"""States remembered. A longer period than this many trips is simply simulated."""


@dataclass(frozen=True, slots=True)
class _Seen:
    now: int
    trips: tuple[int, ...]
    cycles: tuple[Counter[tuple[Reason, str]], ...]
    instructions: tuple[int, ...]
    since: tuple[int, ...]
    spans: int


class Steady:
    """Watches the starts of trips; ``enabled`` False simulates every trip."""

    def __init__(self, device: Device, *, enabled: bool) -> None:
        self._device = device
        self._enabled = enabled
        self._seen: dict[tuple[object, ...], _Seen] = {}

    def check(self, core: Core) -> None:
        """Called by ``core``'s scalar pipe when it is about to begin a trip."""
        if not self._enabled or core.scalar.trips_left < 2:
            return
        device = self._device
        state = (core.index, device.memory.state(), *(c.state() for c in device.cores))
        now = self._snapshot()
        before = self._seen.get(state)
        if before is None or not _spans_repeat(before, now):
            if before is not None or len(self._seen) < MEMORY:
                self._seen[state] = now
            return
        moved = [a - b for a, b in zip(now.trips, before.trips, strict=True)]
        times = min(
            (c.scalar.trips_left // step for c, step in zip(device.cores, moved, strict=True) if step),
            default=0,
        )
        if times:
            self._skip(before, now, moved, times)
        self._seen.clear()

    def _snapshot(self) -> _Seen:
        cores = self._device.cores
        logs = [unit.log for core in cores for unit in core.units.values()]
        return _Seen(
            self._device.now,
            tuple(core.scalar.trip for core in cores),
            tuple(log.totals.cycles.copy() for log in logs),
            tuple(log.totals.instructions for log in logs),
            tuple(log.since for log in logs),
            len(self._device.timeline.spans),
        )

    def _skip(self, before: _Seen, now: _Seen, moved: list[int], times: int) -> None:
        device = self._device
        period = now.now - before.now
        shift = times * period
        tiles = {}
        for core, step in zip(device.cores, moved, strict=True):
            if not step:
                continue
            assert core.scalar.loop is not None
            tiles[core.index] = step * core.scalar.loop.tiles
            core.scalar.trip += times * step
            # The scalar unit's current entry is in another pipe's queue too: one object, moved once.
            held = [e for unit in core.units.values() for e in (*unit.queue, unit.current) if e is not None]
            for entry in {id(e): e for e in held}.values():
                entry.tile += times * tiles[core.index]
        logs = [unit.log for core in device.cores for unit in core.units.values()]
        for log, cycles, instructions, since in zip(
            logs, before.cycles, before.instructions, before.since, strict=True
        ):
            if log.since != since:
                log.since += shift
            for key, total in list(log.totals.cycles.items()):
                log.totals.cycles[key] += times * (total - cycles[key])
            log.totals.instructions += times * (log.totals.instructions - instructions)
        device.offset += shift
        device.timeline.repeats.append(Repeat(before.spans, now.spans, times, period, tiles))


def _spans_repeat(before: _Seen, now: _Seen) -> bool:
    """Whether every pipe's open span began one period later than before, or is the same one still open.

    No part of the future, but without it the sums of a period would not be known.
    """
    period = now.now - before.now
    return all(b - a in (0, period) for a, b in zip(before.since, now.since, strict=True))

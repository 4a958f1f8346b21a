"""Skipping whole periods of a steady pipeline, exactly.

At the start of a trip of the tile loop the whole state of the device is compared with earlier ones:
queues, flags, what each pipe is doing and how far ahead it is, what the memory still owes. When a state
comes back, what follows is the same as what followed before, as long as the loop goes on. So the loop
counters are moved by whole periods, all clocks with them, and nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.device.timeline import Reason, Repeat

if TYPE_CHECKING:
    from emulator.device.core import Core
    from emulator.device.device import Device
    from emulator.device.pipe import PipeUnit

MEMORY = 8192
"""States remembered, the latest. A longer period than this many trips is simply simulated."""


@dataclass(frozen=True, slots=True)
class _Seen:
    now: int
    trips: tuple[int, ...]
    cycles: tuple[dict[tuple[Reason, str], int], ...]
    instructions: tuple[int, ...]
    clocks: tuple[int, ...]
    spans: int


class Steady:
    """Watches the starts of trips; ``enabled`` False simulates every trip."""

    def __init__(self, device: Device, *, enabled: bool) -> None:
        self._device = device
        self._enabled = enabled
        self._seen: dict[tuple[object, ...], _Seen] = {}

    def check(self, core: Core) -> None:
        """Called by ``core``'s scalar pipe when it is about to begin a trip."""
        self._device.timeline.trim()
        if not self._enabled or core.scalar.trips_left < 2:
            return
        device = self._device
        state = (core.index, device.memory.state(), *(c.state(device.now) for c in device.cores))
        now = self._snapshot()
        before = self._seen.pop(state, None)
        if before is None or not _clocks_repeat(before, now):
            self._seen[state] = now
            if len(self._seen) > MEMORY:
                del self._seen[next(iter(self._seen))]
            return
        moved = [a - b for a, b in zip(now.trips, before.trips, strict=True)]
        times = min(
            (c.scalar.trips_left // step for c, step in zip(device.cores, moved, strict=True) if step),
            default=0,
        )
        if times:
            self._skip(before, now, moved, times)
        self._seen.clear()

    def _units(self) -> list[PipeUnit]:
        return [unit for core in self._device.cores for unit in core.units.values()]

    def _snapshot(self) -> _Seen:
        units = self._units()
        return _Seen(
            self._device.now,
            tuple(core.scalar.trip for core in self._device.cores),
            tuple({key: account.cycles for key, account in unit.accounts.items()} for unit in units),
            tuple(unit.instructions for unit in units),
            tuple(unit.clock for unit in units),
            self._device.timeline.span_count,
        )

    def _skip(self, before: _Seen, now: _Seen, moved: list[int], times: int) -> None:
        device = self._device
        period = now.now - before.now
        shift = times * period
        tiles = {}
        for core, step in zip(device.cores, moved, strict=True):
            for event in core.events:
                event.shift(shift, now.now)
            if not step:
                continue
            tiles[core.index] = step * core.parts[core.scalar.part].tiles
            for unit in core.units.values():
                if unit.part == core.scalar.part:
                    unit.trip += times * step
                    unit.first_tile += times * tiles[core.index]
        for unit, cycles, instructions, clock in zip(
            self._units(), before.cycles, before.instructions, before.clocks, strict=True
        ):
            unit.shift(shift)
            # A pipe that has been waiting all the time still does, from the same cycle on.
            if unit.clock != clock:
                unit.clock += shift
            for key, account in unit.accounts.items():
                account.cycles += times * (account.cycles - cycles.get(key, 0))
            skipped = times * (unit.instructions - instructions)
            unit.instructions += skipped
            device.timeline.simulated_instructions -= skipped
        device.offset += shift
        device.timeline.repeats.append(Repeat(before.spans, now.spans, times, period, tiles))


def _clocks_repeat(before: _Seen, now: _Seen) -> bool:
    """Whether every pipe's clock has moved by one period, or not at all because it waits.

    No part of the future, but without it the sums of a period would not be known.
    """
    period = now.now - before.now
    return all(b - a in (0, period) for a, b in zip(before.clocks, now.clocks, strict=True))

"""Closed-form limits of a launch, beside which the simulated time is read.

Lower: no pipe and no memory can be faster than its own work. Upper: everything one after another, each
transfer at the share it gets when all cores load and store at once. Simulated cycles lie between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.device.conditions import Conditions
from emulator.device.lower import PIPES, SET_FLAG, WAIT_FLAG, WORK, Group, Lowered, Row, lower
from emulator.device.memory import rates, whole
from kernel.program import Launch
from socs.isa import Pipe

if TYPE_CHECKING:
    from emulator.device.device import Device

_S, _V = PIPES.index(Pipe.S), PIPES.index(Pipe.V)

Moved = tuple[int, int, int]
"""Grains loaded, grains stored, and what they take of HBM, out of :data:`emulator.device.memory.whole`."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Cycles from the start of the task if one thing alone were the limit, and their extremes."""

    limits: dict[str, int]
    lower: int
    serial: int

    @property
    def limiter(self) -> str:
        """What the lower bound comes from: a pipe, ``HBM`` or ``L2``."""
        return max(self.limits, key=lambda name: self.limits[name])


def bounds(launch: Launch, device: Device) -> Bounds:
    """Limits of ``launch`` on the chip that ``device`` was made for."""
    return bounds_of(lower(launch, device.costs), device.conditions)


def bounds_of(lowered: Lowered, conditions: Conditions) -> Bounds:
    """Limits of a launch whose costs have been looked up."""
    slowest = _worst_rates([group.count for group in lowered.groups], conditions)
    work = [_Work(lowered, group, share) for group, share in zip(lowered.groups, slowest, strict=True)]
    pipes = [max(one.cycles[pipe] for one in work) for pipe in range(len(PIPES))]
    return assembled(pipes, max(one.serial for one in work), moved_by(lowered), conditions)


def assembled(pipes: list[int], serial: int, moved: Moved, conditions: Conditions) -> Bounds:
    """Bounds from the most cycles that any core needs of each pipe and one after another."""
    start, capacity = conditions.launch_cycles + conditions.entry_cycles, conditions.capacity
    loaded, stored, of_hbm = moved
    limits = {pipe.value: start + cycles for pipe, cycles in zip(PIPES, pipes, strict=True)}
    limits["L2"] = start + max(loaded // capacity.load_grains, stored // capacity.store_grains)
    limits["HBM"] = start + of_hbm // whole // capacity.hbm_grains
    return Bounds(limits, max(limits.values()), start + serial)


def moved_by(lowered: Lowered) -> Moved:
    """What all transfers of a launch take of the memories."""
    moved, of_hbm = [0, 0], 0
    for group in lowered.groups:
        for segment in group.segments:
            times = segment.trips * group.count
            for row in lowered.rows[segment.first : segment.last]:
                if row.kind == WORK and row.pipe not in (_S, _V):
                    grains = row.grains * times
                    moved[row.store] += grains
                    of_hbm += grains * row.hbm
    return moved[0], moved[1], of_hbm


class _Work:
    """Sums of one block's work. ``slowest``: grains per cycle of a transfer at worst."""

    def __init__(self, lowered: Lowered, group: Group, slowest: int) -> None:
        self.cycles = [0] * len(PIPES)
        self.serial = 0
        self._slowest = slowest
        for segment in group.segments:
            last: Row | None = None
            for row in lowered.rows[segment.first : segment.last]:
                last = self._one(row, segment.trips, last)

    def _one(self, row: Row, times: int, last: Row | None) -> Row | None:
        """Adds ``times`` times ``row``. ``last``: the vector instruction that must still be in the pipe."""
        self._both(_S, row.issue * times)
        if row.kind == WAIT_FLAG:
            self._both(row.pipe, row.cycles * times)
            # The pipe may drain while it waits, so a drain after a wait is not certain to cost.
            return None if row.pipe == _V else last
        if row.pipe == _V and last is not None and (row.kind == SET_FLAG or row.drains):
            self.cycles[_V] += max(0, last.retire - last.cycles) * times
        if row.kind == SET_FLAG or row.pipe == _S:
            self._both(row.pipe, row.cycles * times)
            return None if row.pipe == _V else last
        if row.pipe == _V:
            self.cycles[_V] += row.cycles * times
            self.serial += max(row.cycles, row.retire) * times
            return row
        served = -(-row.grains // self._slowest)
        worst = max(row.cycles, row.retire + served, row.alone)
        self.cycles[row.pipe] += (row.alone - row.overlap) * times
        self.serial += worst * times
        return last

    def _both(self, pipe: int, cycles: int) -> None:
        self.cycles[pipe] += cycles
        self.serial += cycles


def _worst_rates(counts: list[int], conditions: Conditions) -> list[int]:
    """Grains per cycle of a transfer of each group when every core loads and stores."""
    uncapped = 1 << 60
    shares = (conditions.residency.load_traffic, conditions.residency.store_traffic)
    flows = [(count, uncapped, hbm, store) for count in counts for store, hbm in enumerate(shares)]
    found = rates(flows, conditions.capacity)
    return list(map(min, found[::2], found[1::2]))

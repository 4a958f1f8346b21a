"""The device: all cores, the memory they share, and the launch; run by SimPy in integer cycles."""

from __future__ import annotations

import simpy

from emulator.device.collection import no_collection
from emulator.device.conditions import Conditions
from emulator.device.core import Core
from emulator.device.server import SharedMemory
from emulator.device.steady import Steady
from emulator.device.timeline import CoreTimeline, Reason, Timeline
from kernel.program import Launch
from socs.errors import AtlasError
from socs.spec import Soc


class Device:
    """One launch on one chip."""

    def __init__(self, launch: Launch, soc: Soc, *, l2: str, skip: bool = True) -> None:
        self.env = simpy.Environment()
        self.offset = 0
        self.timeline = Timeline()
        self.conditions = Conditions.of(launch, soc, l2)
        self.costs = self.conditions.costs
        self.memory = SharedMemory(self.env, self.conditions.capacity)
        self.launch_cycles = self.conditions.launch_cycles
        self.entry_cycles = self.conditions.entry_cycles
        self.cores = [Core(self, i, blocks, self.costs) for i, blocks in enumerate(launch.blocks)]
        self.steady = Steady(self, enabled=skip)

    @property
    def now(self) -> int:
        """Cycles since the start of the task, skipped ones included."""
        return int(self.env.now) + self.offset

    def run(self) -> Timeline:
        """Simulate to the end. ``AtlasError`` names cycle, pipe and flag of a deadlock."""
        for core in self.cores:
            core.start()
        with no_collection():
            self.env.run()
        self._check()
        timeline = self.timeline
        timeline.launch_cycles = self.launch_cycles
        timeline.cycles = max(core.end for core in self.cores)
        for core in self.cores:
            end = core.end
            for unit in core.units.values():
                timeline.simulated_instructions += unit.instructions
                unit.spend(timeline.cycles - unit.clock, unit.account(Reason.DONE), "done")
            timeline.cores.append(
                CoreTimeline(
                    core.index,
                    core.blocks.first_block,
                    core.blocks.count,
                    end,
                    {pipe: unit.totals() for pipe, unit in core.units.items()},
                )
            )
        timeline.trim()
        return timeline

    def _check(self) -> None:
        """``AtlasError`` where the program did not end as it should."""
        twice = [
            (cycle, core.index, event.name)
            for core in self.cores
            for event in core.events
            for cycle in event.raised_twice()
        ]
        if twice:
            cycle, _, flag = min(twice)
            raise AtlasError(f"flag {flag} is raised twice before a wait (cycle {cycle})")
        for core in self.cores:
            if not core.finished:
                cycle = max(core.end for core in self.cores)
                raise AtlasError(f"deadlock at cycle {cycle}, core group {core.index}: {core.stuck()}")


def simulate(launch: Launch, soc: Soc, *, l2: str = "cold", skip: bool = True) -> tuple[Timeline, Device]:
    """The timeline of ``launch`` on ``soc``, and the device that made it.

    ``l2``: ``cold`` or ``hot`` (see :func:`emulator.device.memory.residency`). ``skip`` False simulates
    every trip of every loop; the cycles are the same.
    """
    device = Device(launch, soc, l2=l2, skip=skip)
    return device.run(), device

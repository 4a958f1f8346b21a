"""One vector core, standing for all blocks that do the same at the same time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import simpy

from emulator.device.clock import Late
from emulator.device.costs import Costs
from emulator.device.flag import Event
from emulator.device.pipe import Part, PipeUnit, Process, Step, TransferPipe, VectorPipe
from emulator.device.timeline import Reason
from kernel.program import Blocks, Flag, Loop
from socs.isa import Pipe

if TYPE_CHECKING:
    from emulator.device.device import Device


class ScalarPipe(PipeUnit):
    """S: walks the program and hands each instruction to its pipe."""

    @property
    def trips_left(self) -> int:
        """Whole trips of the current loop that can still begin after the current one."""
        part = self.core.parts[self.part]
        return part.trips - 1 - self.trip if part.loop and not self.finished else 0

    def run(self) -> Process:
        self.spend(self.device.entry_cycles, self.executing, "entry")
        for number, part in enumerate(self.core.parts):
            self.part, self.trip = number, 0
            while self.trip < part.trips:
                self.first_tile = self.trip * part.tiles
                if part.loop:
                    self.doing = "trip"
                    # S is ahead of SimPy's clock by no more than a trip. At the end of the cycle, so that
                    # the state holds everything that is decided.
                    yield Late(self.device.env, delay=self.clock - self.device.now)
                    self.device.steady.check(self.core)
                for step in part.steps:
                    self.current = step
                    unit = step.unit
                    if unit is not self:
                        tile = step.tile + self.first_tile
                        self.spend(step.issue_cycles, self.executing, step.label, tile)
                        if unit.places:
                            unit.places -= 1
                        else:
                            if not unit.freed:
                                self.doing = "queue"
                                unit.room = self.device.env.event()
                                yield unit.room
                                tile = step.tile + self.first_tile
                            free = unit.freed.popleft()
                            if free > self.clock:
                                self.spend(free - self.clock, unit.queueing, step.label, tile)
                        unit.queue.append(self.clock)
                        if unit.arrival is not None:
                            unit.arrive()
                        continue
                    self.instructions += 1
                    if step.event is None:
                        self.execute(step)
                    elif step.raises:
                        self.raise_flag(step)
                    elif step.event.raised:
                        self.take_flag(step)
                    else:
                        self.doing = "flag"
                        yield step.event.awaited()
                        self.take_flag(step)
                self.trip += 1
        for unit in self.core.queued:
            unit.queue.append(self.clock)
            unit.arrive()
        self.doing, self.finished = "finished", True

    def execute(self, step: Step) -> simpy.Event | None:
        self.spend(step.cycles, self.executing, step.label, step.tile + self.first_tile)
        return None


class Core:
    """The pipes of a core, its flags, its program, and the blocks it stands for."""

    def __init__(self, device: Device, index: int, blocks: Blocks, costs: Costs) -> None:
        self.device = device
        self.index = index
        self.blocks = blocks
        self.costs = costs
        self.parts: tuple[Part, ...] = ()
        self._events: dict[Flag, Event] = {}
        self.scalar = ScalarPipe(self, Pipe.S)
        self.queued: tuple[PipeUnit, ...] = (
            TransferPipe(self, Pipe.MTE2),
            VectorPipe(self, Pipe.V),
            TransferPipe(self, Pipe.MTE3),
        )
        self.units: dict[Pipe, PipeUnit] = {Pipe.S: self.scalar, **{p.pipe: p for p in self.queued}}
        for unit in self.queued:
            unit.queueing = self.scalar.account(Reason.QUEUE, str(unit.pipe))

    def event(self, flag: Flag) -> Event:
        """The core's own event of that name."""
        if flag not in self._events:
            self._events[flag] = Event(self.device.env, flag)
        return self._events[flag]

    @property
    def events(self) -> Iterable[Event]:
        return self._events.values()

    def start(self) -> None:
        """Launch, then all pipes at once."""
        self.parts = tuple(self._parts())
        for unit in self.units.values():
            unit.spend(self.device.launch_cycles, unit.account(Reason.LAUNCH), "launch")
            self.device.env.process(unit.run())

    def _parts(self) -> Iterator[Part]:
        straight: list[Step] = []
        for item in self.blocks.program.items:
            if isinstance(item, Loop):
                yield Part(tuple(straight), 1, 0, loop=False)
                straight = []
                yield Part(tuple(Step(i, self) for i in item.body), item.trips, item.tiles, loop=True)
            else:
                straight.append(Step(item, self))
        yield Part(tuple(straight), 1, 0, loop=False)

    @property
    def end(self) -> int:
        """The cycle up to which any of its pipes has come."""
        return max(unit.clock for unit in self.units.values())

    @property
    def finished(self) -> bool:
        return all(unit.finished for unit in self.units.values())

    def state(self, now: int) -> tuple[object, ...]:
        return (*(e.state(now) for e in self.events), *(unit.state(now) for unit in self.units.values()))

    def stuck(self) -> str:
        """Which pipe is waiting for which flag."""
        for unit in self.units.values():
            if unit.doing == "flag" and unit.current is not None and unit.current.event is not None:
                return f"pipe {unit.pipe} waits for flag {unit.current.event.name}"
        return "no pipe can go on"

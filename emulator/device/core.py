"""One vector core, standing for all blocks that do the same at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.device.clock import Late
from emulator.device.costs import Costs
from emulator.device.flag import Flags
from emulator.device.pipe import Entry, PipeUnit, Process, TransferPipe, VectorPipe
from emulator.device.timeline import Reason
from kernel.program import Blocks, Instruction, Loop
from socs.isa import Op, Pipe

if TYPE_CHECKING:
    from emulator.device.device import Device


class ScalarPipe(PipeUnit):
    """S: walks the program and hands each instruction to its pipe."""

    def __init__(self, core: Core) -> None:
        super().__init__(core, Pipe.S)
        self._item = 0
        self._place = 0
        self.loop: Loop | None = None
        self.trip = 0

    def state(self) -> tuple[object, ...]:
        return (*super().state(), self._item, self._place)

    @property
    def trips_left(self) -> int:
        """Whole trips of the current loop that can still begin after the current one."""
        return self.loop.trips - 1 - self.trip if self.loop else 0

    def run(self) -> Process:
        if self.core.device.entry_cycles:
            yield self.hold(self.core.device.entry_cycles, "entry")
            self.log.end(Reason.EXECUTE, label="entry")
        for number, item in enumerate(self.core.blocks.program.items):
            self._item = number
            if isinstance(item, Instruction):
                yield from self._issue(item, item.tile)
                continue
            self.loop, self.trip = item, 0
            while self.trip < item.trips:
                self.doing = "checkpoint"
                # The end of the cycle, so that the state holds everything that is decided.
                yield Late(self.env)
                self.core.device.steady.check(self.core)
                for place, instruction in enumerate(item.body):
                    self._place = place
                    yield from self._issue(instruction, instruction.tile + self.trip * item.tiles)
                self.trip += 1
            self.loop = None
        for pipe in self.core.queued:
            pipe.push(None)
        self.doing, self.finished = "finished", True
        self.core.pipe_done()

    def _issue(self, instruction: Instruction, tile: int) -> Process:
        entry = self.current = Entry(instruction, tile)
        if instruction.pipe is Pipe.S:
            yield from self.dispatch(entry)
            return
        target = self.core.units[instruction.pipe]
        cycles = self.core.costs.issue()
        if cycles:
            yield self.hold(cycles, "issue")
        self.log.end(Reason.EXECUTE, entry)
        while len(target.queue) >= self.core.costs.queue_depth():
            self.doing = "queue"
            yield target.room()
            self.log.end(Reason.QUEUE, entry, detail=str(target.pipe))
        target.push(entry)

    def execute(self, entry: Entry) -> Process:
        yield self.hold(self.core.costs.scalar(entry.instruction), str(Op.LOOP))
        self.log.end(Reason.EXECUTE, entry)


class Core:
    """The pipes of a core, its flags, and the blocks it stands for."""

    def __init__(self, device: Device, index: int, blocks: Blocks, costs: Costs) -> None:
        self.device = device
        self.index = index
        self.blocks = blocks
        self.costs = costs
        self.flags = Flags(device)
        self.scalar = ScalarPipe(self)
        self.queued: tuple[PipeUnit, ...] = (
            TransferPipe(self, Pipe.MTE2),
            VectorPipe(self, Pipe.V),
            TransferPipe(self, Pipe.MTE3),
        )
        self.units: dict[Pipe, PipeUnit] = {Pipe.S: self.scalar, **{p.pipe: p for p in self.queued}}
        self.end = 0
        self._running = len(self.units)

    def start(self) -> Process:
        """The core's life: launch, then all pipes at once."""
        yield self.device.env.timeout(self.device.launch_cycles)
        for unit in self.units.values():
            unit.log.since = 0
            unit.log.end(Reason.LAUNCH)
            self.device.env.process(unit.run())

    def pipe_done(self) -> None:
        self._running -= 1
        if not self._running:
            self.end = self.device.now

    @property
    def finished(self) -> bool:
        return self._running == 0

    def state(self) -> tuple[object, ...]:
        return (self.flags.state(), *(unit.state() for unit in self.units.values()))

    def stuck(self) -> str:
        """Which pipe is waiting for which flag."""
        for unit in self.units.values():
            if not unit.finished and unit.doing == "flag" and unit.current is not None:
                return f"pipe {unit.pipe} waits for flag {unit.current.instruction.flag}"
        return "no pipe can go on"

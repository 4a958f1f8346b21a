"""The pipes of a core: each an in-order queue with a process that works it off.

Each pipe keeps a clock of its own: the cycle up to which its time is accounted for. It runs ahead of SimPy's
clock as long as it knows when what it needs is there (an instruction was issued, a flag was raised), so an
instruction is no event. What makes SimPy's clock move are the transfers, for which all pipes compete.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import simpy

from emulator.device.flag import Event
from emulator.device.lower import overlap
from emulator.device.timeline import Account, PipeTotals, Reason
from kernel.program import Instruction, Region
from socs.isa import Op, Pipe

if TYPE_CHECKING:
    from emulator.device.core import Core

Process = Generator[simpy.Event, Any, None]


class Step:
    """An instruction with what is looked up to run it."""

    def __init__(self, instruction: Instruction, core: Core) -> None:
        costs, pipe = core.costs, instruction.pipe
        self.instruction = instruction
        self.unit = core.units[pipe]
        self.label = str(instruction.op)
        self.tile = instruction.tile
        self.issue_cycles = 0 if pipe is Pipe.S else costs.issue()
        self.event: Event | None = None
        self.raises = instruction.op is Op.SET_FLAG
        self.cycles = 0
        if instruction.flag is not None:
            self.event = core.event(instruction.flag)
            self.waiting = self.unit.account(Reason.FLAG, self.event.name)
            self.cycles = costs.set_flag() if self.raises else costs.wait_flag()
        elif pipe is Pipe.S:
            self.cycles = costs.scalar(instruction)
        elif pipe is Pipe.V:
            self.vector = costs.vector(instruction)
        else:
            self.transfer = costs.transfer(instruction, core.blocks)
        self._touched: dict[Step, bool] = {}

    def touches(self, other: Step) -> bool:
        """Whether it reads or writes what ``other`` writes, both being vector instructions."""
        known = self._touched.get(other)
        if known is None:
            written = other.instruction.dst
            assert isinstance(written, Region)
            own = [r for r in self.instruction.operands() if isinstance(r, Region)]
            known = self._touched[other] = any(overlap(region, written) for region in own)
        return known


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a program: ``steps``, ``trips`` times over, each covering ``tiles`` tiles."""

    steps: tuple[Step, ...]
    trips: int
    tiles: int
    loop: bool

    def of(self, unit: PipeUnit) -> Part:
        """What of it runs on ``unit``."""
        return Part(tuple(s for s in self.steps if s.unit is unit), self.trips, self.tiles, self.loop)


class PipeUnit(ABC):
    """What all pipes share: the queue, flags, the account of time, and a state that says all about the
    future."""

    def __init__(self, core: Core, pipe: Pipe) -> None:
        self.core = core
        self.device = core.device
        self.pipe = pipe
        self.clock = 0
        self.instructions = 0
        self.doing = "idle"
        self.finished = False
        self.current: Step | None = None
        # Where in the program it is: a part, a trip of it, and the tile with which that trip begins.
        self.part = 0
        self.trip = 0
        self.first_tile = 0
        # The queue, filled by S and emptied by the pipe: cycles at which the instructions in it were issued.
        # Places in it that nobody has had yet, and the cycles at which others became free.
        self.queue: deque[int] = deque()
        self.places = core.costs.queue_depth()
        self.freed: deque[int] = deque()
        self.arrival: simpy.Event | None = None
        self.room: simpy.Event | None = None
        self.accounts: dict[tuple[Reason, str], Account] = {}
        self.executing = self.account(Reason.EXECUTE)
        self.queueing: Account  # of S, while the queue is full
        self._issuing = self.account(Reason.ISSUE)
        self._write_span = core.device.timeline.write

    def account(self, reason: Reason, detail: str = "") -> Account:
        """The account of that name, opened if need be."""
        key = (reason, detail)
        if key not in self.accounts:
            self.accounts[key] = Account(self.core.index, self.pipe, reason, detail)
        return self.accounts[key]

    def spend(self, cycles: int, account: Account, label: str, tile: int = -1) -> None:
        """Time passes on this pipe."""
        if cycles:
            start = self.clock
            self.clock = stop = start + cycles
            account.cycles += cycles
            self._write_span((account, label, tile, start, stop))

    def totals(self) -> PipeTotals:
        """What its time has gone into."""
        spent = {key: account.cycles for key, account in self.accounts.items() if account.cycles}
        return PipeTotals(Counter(spent), self.instructions)

    # ---- the process -------------------------------------------------------------------------------

    def run(self) -> Process:
        queue = self.queue
        for number, whole in enumerate(self.core.parts):
            part = whole.of(self)
            self.part, self.trip = number, 0
            while part.steps and self.trip < part.trips:
                self.first_tile = self.trip * part.tiles
                for step in part.steps:
                    if not queue:
                        yield self.idle()
                        if self.trip == part.trips:
                            break  # it was ahead of S, and the trips left were skipped while it was idle
                    issued = queue.popleft()
                    if issued > self.clock:
                        self.spend(issued - self.clock, self._issuing, "issue")
                    self.current = step
                    self.freed.append(self.clock)
                    if self.room is not None:
                        self.room.succeed()
                        self.room = None
                    self.instructions += 1
                    if step.event is None:
                        done = self.execute(step)
                        if done is not None:
                            yield done
                            self.complete(step)
                    elif step.raises:
                        self.raise_flag(step)
                    elif step.event.raised:
                        self.take_flag(step)
                    else:
                        self.doing = "flag"
                        yield step.event.awaited()
                        self.take_flag(step)
                self.trip += 1
        if not queue:
            yield self.idle()
        self.spend(max(queue.popleft() - self.clock, 0), self._issuing, "issue")
        self.drain("execute", -1)
        self.doing, self.finished = "finished", True

    def idle(self) -> simpy.Event:
        """An event that fires when the queue is empty no more."""
        self.doing = "idle"
        self.arrival = self.device.env.event()
        return self.arrival

    def arrive(self) -> None:
        """Something has come into the queue."""
        if self.arrival is not None:
            self.arrival.succeed()
            self.arrival = None

    def raise_flag(self, step: Step) -> None:
        assert step.event is not None
        tile = step.tile + self.first_tile
        self.drain(step.label, tile)
        self.spend(step.cycles, self.executing, step.label, tile)
        step.event.set(self.clock)

    def take_flag(self, step: Step) -> None:
        """Go on past a flag that is raised, or will have been at a known cycle."""
        assert step.event is not None
        waited = step.event.take(self.clock) - self.clock
        if waited > 0:
            self.spend(waited, step.waiting, step.label, step.tile + self.first_tile)
        self.spend(step.cycles, self.executing, step.label, step.tile + self.first_tile)

    @abstractmethod
    def execute(self, step: Step) -> simpy.Event | None:
        """Work off an instruction that is no flag; what it has to wait for before it is complete."""

    def complete(self, step: Step) -> None:  # noqa: B027 (most have nothing to do)
        """What follows that wait."""

    def drain(self, label: str, tile: int) -> None:  # noqa: B027
        """Until everything issued has its result written."""

    # ---- skipping ----------------------------------------------------------------------------------

    def state(self, now: int) -> tuple[object, ...]:
        """All that decides what comes next. What lies before ``now`` is alike: nothing can begin then."""
        if self.finished:
            return ()
        scalar = self.core.scalar
        return (
            self.doing,
            max(self.clock - now, 0),
            self.current,
            self.part,
            # How far it is behind, or how far it has come in a loop that S has left.
            self.trip - (scalar.trip if scalar.part == self.part else 0),
            tuple([max(cycle - now, 0) for cycle in self.queue]),
            # As many places are free as the queue is not full: all but these from now on.
            tuple([cycle - now for cycle in self.freed if cycle > now]),
        )

    def shift(self, cycles: int) -> None:
        """Move all that is to come on in time."""
        self.queue.extend([self.queue.popleft() + cycles for _ in range(len(self.queue))])
        self.freed = deque([cycle + cycles for cycle in self.freed])


class TransferPipe(PipeUnit):
    """MTE2 or MTE3: one transfer at a time, at the pace of the slower of its own path and the memory.

    The next one may begin ``overlap_cycles`` before the data of the last are there. A flag is raised when
    they are; the pipe does not wait for that.
    """

    def __init__(self, core: Core, pipe: Pipe) -> None:
        super().__init__(core, pipe)
        self._owner = (core.index, pipe)
        self._cores = core.blocks.count
        self._sharing = self.account(Reason.MEMORY)
        self._draining = self.account(Reason.EXECUTE, "drain")
        self._retire = 0

    def state(self, now: int) -> tuple[object, ...]:
        # While a transfer is served, the clock stands still at its start.
        began = self.clock - now if self.doing == "served" else 0
        return (*super().state(now), began, max(self._retire - now, 0))

    def shift(self, cycles: int) -> None:
        super().shift(cycles)
        self._retire += cycles

    def execute(self, step: Step) -> simpy.Event | None:
        self.doing = "served"
        demand, delay = step.transfer.demand, self.clock - self.device.now
        return self.device.memory.serve(self._owner, demand, self._cores, delay)

    def complete(self, step: Step) -> None:
        time, start, tile = step.transfer, self.clock, step.tile + self.first_tile
        now = self.device.now
        end = max(start + time.unloaded_cycles, now + time.stream_latency_cycles)
        free = max(now, end - time.overlap_cycles)
        waited = max(0, end - start - time.alone_cycles)
        self._retire = max(self._retire, end)
        self.spend(free - start - waited, self.executing, step.label, tile)
        self.spend(waited, self._sharing, step.label, tile)

    def raise_flag(self, step: Step) -> None:
        assert step.event is not None
        cycle = max(self.clock, self._retire) + step.cycles
        self.spend(step.cycles, self.executing, step.label, step.tile + self.first_tile)
        step.event.set(cycle)

    def drain(self, label: str, tile: int) -> None:
        left = self._retire - self.clock
        if left > 0:
            self.spend(left, self._draining, label, tile)


class VectorPipe(PipeUnit):
    """V: independent instructions overlap; one that needs a result waits until the pipe has drained."""

    def __init__(self, core: Core, pipe: Pipe) -> None:
        super().__init__(core, pipe)
        self._draining = self.account(Reason.EXECUTE, "drain")
        self._retire = 0
        self._pending: dict[Step, None] = {}

    def state(self, now: int) -> tuple[object, ...]:
        left = max(self._retire - now, 0)
        return (*super().state(now), left, tuple(self._pending) if left else ())

    def shift(self, cycles: int) -> None:
        super().shift(cycles)
        self._retire += cycles

    def execute(self, step: Step) -> simpy.Event | None:
        tile = step.tile + self.first_tile
        for earlier in self._pending:
            if step.touches(earlier):
                self.drain(step.label, tile)
                break
        time = step.vector
        self._retire = max(self._retire, self.clock + time.retire_cycles)
        self._pending[step] = None
        self.spend(time.issue_cycles, self.executing, step.label, tile)
        return None

    def drain(self, label: str, tile: int) -> None:
        left = self._retire - self.clock
        if left > 0:
            self.spend(left, self._draining, label, tile)
        self._pending.clear()

"""The pipes of a core: each an in-order queue with a process that works it off."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import simpy

from emulator.device.timeline import PipeTotals, Reason, Span
from kernel.program import Instruction, Region
from socs.isa import Op, Pipe

if TYPE_CHECKING:
    from emulator.device.core import Core

Process = Generator[simpy.Event, Any, None]


class Entry:
    """An instruction in a queue, with the tile it belongs to (a label; timing never reads it)."""

    __slots__ = ("instruction", "tile")

    def __init__(self, instruction: Instruction, tile: int) -> None:
        self.instruction = instruction
        self.tile = tile


class Log:
    """Writes one pipe's spans. ``since`` is where the current one began, on the launch's clock."""

    def __init__(self, core: Core, pipe: Pipe) -> None:
        self._core = core
        self._pipe = pipe
        self.totals = PipeTotals()
        self.since = 0

    def begin(self) -> None:
        self.since = self._core.device.now

    def end(
        self,
        reason: Reason,
        entry: Entry | None = None,
        *,
        label: str = "",
        detail: str = "",
        cycles: int | None = None,
    ) -> None:
        """Close a span that began at ``since`` after ``cycles`` (default: now); the next begins there."""
        stop = self._core.device.now if cycles is None else self.since + cycles
        if stop > self.since:
            label = label or (str(entry.instruction.op) if entry else str(reason))
            self.totals.cycles[reason, detail] += stop - self.since
            self._core.device.timeline.add(
                Span(
                    self._core.index,
                    self._pipe,
                    label,
                    entry.tile if entry else -1,
                    self.since,
                    stop,
                    reason,
                    detail,
                )
            )
        self.since = stop


class PipeUnit(ABC):
    """What all pipes share: the queue, flags, the log, and a state that says all about the future."""

    def __init__(self, core: Core, pipe: Pipe) -> None:
        self.core = core
        self.env = core.device.env
        self.pipe = pipe
        self.log = Log(core, pipe)
        self.queue: deque[Entry | None] = deque()
        self.current: Entry | None = None
        self.finished = False
        self.doing = "idle"
        self.until = 0
        self._arrival: simpy.Event | None = None
        self._room: simpy.Event | None = None

    def push(self, entry: Entry | None) -> None:
        self.queue.append(entry)
        if self._arrival is not None:
            self._arrival.succeed()
            self._arrival = None

    def room(self) -> simpy.Event:
        """An event that fires when an entry leaves the queue."""
        self._room = self.env.event()
        return self._room

    def hold(self, cycles: int, doing: str) -> simpy.Event:
        """Time passes; ``doing`` and ``until`` tell the state."""
        self.doing, self.until = doing, int(self.env.now) + cycles
        return self.env.timeout(cycles)

    def state(self) -> tuple[object, ...]:
        if self.finished:
            return ()
        now = int(self.env.now)
        return (
            self.doing,
            self.until - now if self.until > now else 0,
            id(self.current.instruction) if self.current else 0,
            tuple(id(e.instruction) if e else 0 for e in self.queue),
        )

    def run(self) -> Process:
        while True:
            if not self.queue:
                self.doing, self.current = "idle", None
                self._arrival = self.env.event()
                yield self._arrival
                self.log.end(Reason.ISSUE)
            self.current = self.queue.popleft()
            if self._room is not None:
                self._room.succeed()
                self._room = None
            if self.current is None:
                break
            yield from self.dispatch(self.current)
        yield from self.drain()
        self.finished = True
        self.core.pipe_done()

    def dispatch(self, entry: Entry) -> Process:
        self.log.totals.instructions += 1
        self.core.device.timeline.simulated_instructions += 1
        if entry.instruction.op is Op.SET_FLAG:
            yield from self.set_flag(entry)
        elif entry.instruction.op is Op.WAIT_FLAG:
            yield from self.wait_flag(entry)
        else:
            yield from self.execute(entry)

    def set_flag(self, entry: Entry) -> Process:
        yield from self.drain()
        assert entry.instruction.flag is not None
        yield self.hold(self.core.costs.set_flag(), "set_flag")
        self.log.end(Reason.EXECUTE, entry)
        self.core.flags.set(entry.instruction.flag)

    def wait_flag(self, entry: Entry) -> Process:
        flag = entry.instruction.flag
        assert flag is not None
        if not self.core.flags.is_raised(flag):
            self.doing = "flag"
            yield self.core.flags.raised(flag)
            self.log.end(Reason.FLAG, entry, detail=str(flag))
        self.core.flags.consume(flag)
        yield self.hold(self.core.costs.wait_flag(), "wait_flag")
        self.log.end(Reason.EXECUTE, entry)

    def drain(self) -> Process:
        """Until everything issued has its result written."""
        yield from ()

    @abstractmethod
    def execute(self, entry: Entry) -> Process:
        """Work off an instruction that is no flag."""


class TransferPipe(PipeUnit):
    """MTE2 or MTE3: one transfer at a time, at the pace of the slower of its own path and the memory."""

    def __init__(self, core: Core, pipe: Pipe) -> None:
        super().__init__(core, pipe)
        self._started = 0

    def state(self) -> tuple[object, ...]:
        elapsed = int(self.env.now) - self._started if self.doing == "served" else 0
        return (*super().state(), elapsed)

    def execute(self, entry: Entry) -> Process:
        time = self.core.costs.transfer(entry.instruction, self.core.blocks)
        self._started = start = int(self.env.now)
        self.doing = "served"
        yield self.core.device.memory.serve((self.core.index, self.pipe), time.demand, self.core.blocks.count)
        end = max(start + time.unloaded_cycles, int(self.env.now) + time.stream_latency_cycles)
        if end > self.env.now:
            yield self.hold(end - int(self.env.now), "transfer")
        waited = end - start - time.alone_cycles
        self.log.end(Reason.EXECUTE, entry, cycles=(end - start) - max(0, waited))
        self.log.end(Reason.MEMORY, entry)


class VectorPipe(PipeUnit):
    """V: independent instructions overlap; one that needs a result waits until the pipe has drained."""

    def __init__(self, core: Core, pipe: Pipe) -> None:
        super().__init__(core, pipe)
        self._retire = 0
        self._pending: list[Region] = []

    def state(self) -> tuple[object, ...]:
        left = self._retire - int(self.env.now)
        return (*super().state(), max(left, 0), tuple(r.address for r in self._pending) if left > 0 else ())

    def execute(self, entry: Entry) -> Process:
        instruction = entry.instruction
        assert isinstance(instruction.dst, Region)
        touched = [r for r in instruction.operands() if isinstance(r, Region)]
        if any(_overlap(r, p) for r in touched for p in self._pending):
            yield from self.drain()
        time = self.core.costs.vector(instruction)
        self._retire = max(self._retire, int(self.env.now) + time.retire_cycles)
        self._pending.append(instruction.dst)
        yield self.hold(time.issue_cycles, "vector")
        self.log.end(Reason.EXECUTE, entry)

    def drain(self) -> Process:
        left = self._retire - int(self.env.now)
        if left > 0:
            last = self.current
            yield self.hold(left, "drain")
            self.log.end(Reason.EXECUTE, last, detail="drain")
        self._pending.clear()


def _overlap(a: Region, b: Region) -> bool:
    return any(x0 < y1 and y0 < x1 for x0, x1 in a.spans() for y0, y1 in b.spans())

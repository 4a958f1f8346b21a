"""The shared memory at work: all transfers in flight, served side by side at fair rates."""

from __future__ import annotations

from typing import Any

import simpy

from emulator.device.clock import Callback, Late
from emulator.device.memory import Capacity, Demand, rates

Kind = tuple[int, int, int, int]
"""What the rate of a flow depends on: weight, cap, share of HBM, store or not."""


class _Flow(Late):
    """A transfer, as the event of its beginning; ``done`` is that of its end."""

    def __init__(
        self, env: simpy.Environment, begin: Callback, delay: int, owner: object, demand: Demand, weight: int
    ) -> None:
        Late.__init__(self, env, begin, delay)
        self.done = simpy.Event(env)
        self.owner = owner
        self.kind = (weight, demand.cap, demand.hbm, demand.store)
        self.remaining = demand.grains
        self.rate = 0


class SharedMemory:
    """The server. A flow is admitted with :meth:`serve` and its event fires when it is through.

    Flows begin and end at the end of a cycle, so that the order of events within it cannot matter.
    """

    def __init__(self, env: simpy.Environment, capacity: Capacity) -> None:
        self._env = env
        self.capacity = capacity
        self._flows: list[_Flow] = []
        self._since = 0
        self._next_end: simpy.Event | None = None
        self._rates: dict[tuple[Kind, ...], list[int]] = {}

    def serve(self, owner: object, demand: Demand, weight: int, delay: int = 0) -> simpy.Event:
        """A flow of ``weight`` equal cores, ``delay`` cycles on; the event of its end."""
        return _Flow(self._env, self._begin, delay, owner, demand, weight).done

    def state(self) -> tuple[object, ...]:
        """Who is being served and how much is left: all that decides what comes next."""
        elapsed = int(self._env.now) - self._since
        return tuple(sorted((str(f.owner), f.remaining - elapsed * f.rate) for f in self._flows))

    def _begin(self, flow: Any) -> None:
        self._serve()
        self._flows.append(flow)
        self._share()

    def _end(self, event: simpy.Event) -> None:
        # Where rates have changed since this end was foreseen, another one has been.
        if event is self._next_end:
            self._serve()
            if self._flows:
                self._share()

    def _serve(self) -> None:
        """All flows go on to this cycle; those that are through end."""
        now = int(self._env.now)
        elapsed, self._since = now - self._since, now
        through = False
        for flow in self._flows:
            flow.remaining -= elapsed * flow.rate
            if flow.remaining <= 0:
                flow.done.succeed()
                through = True
        if through:
            self._flows = [flow for flow in self._flows if flow.remaining > 0]

    def _share(self) -> None:
        """Give all flows their rates, and foresee the next end."""
        flows = self._flows
        kinds = tuple([flow.kind for flow in flows])
        found = self._rates.get(kinds)
        if found is None:
            found = self._rates[kinds] = rates(list(kinds), self.capacity)
        cycles = []
        for flow, rate in zip(flows, found, strict=True):
            flow.rate = rate
            cycles.append(-(-flow.remaining // rate))
        self._next_end = Late(self._env, self._end, min(cycles))

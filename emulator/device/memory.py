"""What all cores share: L2 and HBM as one fluid server with max-min fair shares, in integers.

Bytes are counted in grains of 1/65536 byte, so that a rate per cycle is an integer and the same
request gives the same cycles on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass

import simpy

from emulator.device.clock import Late
from kernel.program import Launch
from socs.spec import Soc

GRAINS = 1 << 16
"""Grains of one byte."""

whole = 1 << 16
"""The whole of a share: shares of bytes are integers out of this."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one core asks of the memory: ``grains``, at most ``cap`` per cycle, ``hbm`` of them from
    HBM (out of :data:`whole`)."""

    grains: int
    cap: int
    hbm: int


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the shared memory delivers in a cycle, in grains."""

    l2_grains: int
    hbm_grains: int

    @classmethod
    def of(cls, soc: Soc, used: set[str]) -> Capacity:
        """Of a chip; ``used`` collects the keys of the numbers."""
        used |= {"memory.l2.bytes_per_s", "memory.hbm_bytes_per_s", "clock_hz"}
        return cls(
            int(soc.memory.l2.bytes_per_s / soc.clock_hz * GRAINS),
            int(soc.memory.hbm_bytes_per_s / soc.clock_hz * GRAINS),
        )


@dataclass(frozen=True, slots=True)
class Residency:
    """Which part of the loads comes from HBM, and of the stores goes there (out of ``whole``)."""

    load_hbm: int
    store_hbm: int


def residency(launch: Launch, soc: Soc, l2: str, used: set[str] | None = None) -> Residency:
    """Where the data are found.

    ``cold``: nothing of the inputs is in L2; the output stays there as far as it fits beside the
    inputs. ``hot``: the same launch ran before on the same buffers. Then everything hits if the
    working set fits. If not, a cache with random replacement that is swept cyclically keeps a share
    ``h = exp(-(1 - h) W / C)`` of a working set W in a capacity C; one with LRU keeps nothing.
    ``used`` collects the keys of the numbers that decided.
    """
    footprint = launch.bytes_read + launch.bytes_written
    capacity = soc.memory.l2.bytes
    if used is not None:
        used.add("memory.l2.bytes")
        if l2 == "hot" and footprint > capacity:
            used.add("memory.l2.replacement")
    if l2 == "hot":
        miss = 1.0 - _kept(footprint / capacity, soc.memory.l2.replacement)
        return Residency(round(miss * whole), round(miss * whole))
    spilled = max(0.0, 1.0 - capacity / footprint)
    return Residency(whole, round(spilled * whole))


def _kept(ratio: float, replacement: str) -> float:
    if ratio <= 1.0:
        return 1.0
    if replacement == "lru":
        return 0.0
    # The root below 1 / ratio; iterating the formula takes forever where the set barely does not fit.
    low, high = 0.0, 1.0 / ratio
    for _ in range(64):
        kept = (low + high) / 2
        if math.exp(-(1.0 - kept) * ratio) > kept:
            low = kept
        else:
            high = kept
    return low


def rates(demands: list[tuple[int, int, int]], l2_grains: int, hbm_grains: int) -> list[int]:
    """Max-min fair rates (grains per cycle and core) of flows (weight, cap, hbm share).

    All rates rise together; a flow stops at its cap, or when a memory it uses is full. ``weight``
    equal cores make one flow.
    """
    found = [0] * len(demands)
    open_flows = list(range(len(demands)))
    while open_flows:
        used_l2 = sum(demands[i][0] * found[i] for i in range(len(demands)) if i not in open_flows)
        used_hbm = sum(
            demands[i][0] * found[i] * demands[i][2] for i in range(len(demands)) if i not in open_flows
        )
        want_l2 = sum(demands[i][0] for i in open_flows)
        want_hbm = sum(demands[i][0] * demands[i][2] for i in open_flows)
        level_l2 = (l2_grains - used_l2) // want_l2
        level_hbm = (hbm_grains * whole - used_hbm) // want_hbm if want_hbm else None
        level_cap = min(demands[i][1] for i in open_flows)
        level = min(x for x in (level_l2, level_hbm, level_cap) if x is not None)
        if level == level_cap:
            closing = [i for i in open_flows if demands[i][1] == level_cap]
        elif level == level_hbm:
            closing = [i for i in open_flows if demands[i][2]]
        else:
            closing = list(open_flows)
        for i in closing:
            found[i] = max(1, level)
        open_flows = [i for i in open_flows if i not in closing]
    return found


class _Flow:
    __slots__ = ("cap", "done", "hbm", "owner", "rate", "remaining", "weight")

    def __init__(self, owner: object, demand: Demand, weight: int, done: simpy.Event) -> None:
        self.owner = owner
        self.remaining = demand.grains
        self.cap = demand.cap
        self.hbm = demand.hbm
        self.weight = weight
        self.rate = 0
        self.done = done


class SharedMemory:
    """The server. A flow is admitted with :meth:`serve` and its event fires when it is through."""

    def __init__(self, env: simpy.Environment, capacity: Capacity) -> None:
        self._env = env
        self.capacity = capacity
        self._flows: list[_Flow] = []
        self._since = 0
        self._dirty = False
        self._generation = 0

    def serve(self, owner: object, demand: Demand, weight: int) -> simpy.Event:
        """Start a flow of ``weight`` equal cores. ``owner`` identifies it in :meth:`state`."""
        self._advance()
        flow = _Flow(owner, demand, weight, self._env.event())
        self._flows.append(flow)
        self._settle_late()
        return flow.done

    def state(self) -> tuple[object, ...]:
        """Who is being served and how much is left: all that decides what comes next."""
        elapsed = int(self._env.now) - self._since
        return tuple(sorted((str(f.owner), f.remaining - elapsed * f.rate) for f in self._flows))

    def _advance(self) -> None:
        now = int(self._env.now)
        elapsed = now - self._since
        if elapsed:
            for flow in self._flows:
                flow.remaining -= elapsed * flow.rate
            self._since = now

    def _settle_late(self) -> None:
        # Rates change once per cycle, after everything of that cycle has happened: the order of
        # events within a cycle then cannot matter.
        if not self._dirty:
            self._dirty = True
            Late(self._env, self._settle)

    def _settle(self, _: simpy.Event) -> None:
        self._dirty = False
        self._advance()
        for flow in [f for f in self._flows if f.remaining <= 0]:
            self._flows.remove(flow)
            flow.done.succeed()
        shares = rates(
            [(f.weight, f.cap, f.hbm) for f in self._flows],
            self.capacity.l2_grains,
            self.capacity.hbm_grains,
        )
        for flow, rate in zip(self._flows, shares, strict=True):
            flow.rate = rate
        self._generation += 1
        if self._flows:
            first = min(-(-f.remaining // f.rate) for f in self._flows)
            self._env.process(self._wake(first, self._generation))

    def _wake(self, delay: int, generation: int) -> Generator[simpy.Event, None, None]:
        yield self._env.timeout(delay)
        if generation == self._generation:
            self._settle_late()

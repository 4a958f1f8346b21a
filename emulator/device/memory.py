"""What all cores share: L2 and HBM as one fluid server with max-min fair shares, in integers.

Bytes are counted in grains of 1/65536 byte, so that a rate per cycle is an integer and the same
request gives the same cycles on every machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kernel.plan import Sketch
from kernel.program import Launch
from socs.spec import Soc

GRAINS = 1 << 16
"""Grains of one byte."""

whole = 1 << 16
"""The whole of a share: shares of bytes are integers out of this."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one core asks of the memory: ``grains``, at most ``cap`` per cycle; each takes ``hbm`` (out of
    :data:`whole`) of HBM. ``store``: 1 where it goes into L2, 0 where it comes from there."""

    grains: int
    cap: int
    hbm: int
    store: int = 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the shared memory delivers in a cycle, in grains: loads and stores of L2, and HBM for both."""

    load_grains: int
    store_grains: int
    hbm_grains: int

    @classmethod
    def of(cls, soc: Soc, used: set[str]) -> Capacity:
        """Of a chip; ``used`` collects the keys of the numbers."""
        used |= {"memory.l2.bytes_per_s", "memory.hbm_bytes_per_s", "clock_hz"}
        loads = stores = soc.memory.l2.bytes_per_s
        if soc.memory.l2.store_bytes_per_s is not None:
            used.add("memory.l2.store_bytes_per_s")
            stores = soc.memory.l2.store_bytes_per_s
        each = (loads, stores, soc.memory.hbm_bytes_per_s)
        return cls(*(int(rate / soc.clock_hz * GRAINS) for rate in each))


@dataclass(frozen=True, slots=True)
class Residency:
    """Where the data are, in shares out of ``whole``.

    ``load_hbm``, ``store_hbm``: which part of the loads comes from HBM, and of the stores goes there.
    ``load_traffic``, ``store_traffic``: what a byte takes of HBM's rate, with what it drives out of L2.
    """

    load_hbm: int
    store_hbm: int
    load_traffic: int
    store_traffic: int


def residency(launch: Launch | Sketch, soc: Soc, l2: str, used: set[str] | None = None) -> Residency:
    """Where the data are found.

    ``cold``: L2 is full of other data, of which a share ``memory.l2.dirty_share`` was written and is not in
    HBM yet. Every line that is loaded or stored drives one out; a dirty one has to be written first.
    ``dirty``: the same, with all of them dirty, as after the other kernels of a training step. ``hot``: the
    same launch ran before on the same buffers. Then everything hits if the working set fits. If not, a
    cache with random replacement that is swept cyclically keeps a share ``h = exp(-(1 - h) W / C)`` of a
    working set W in a capacity C; one with LRU keeps nothing.

    A byte that is read takes ``memory.read_cost`` of HBM's rate, one that is written ``memory.write_cost``.
    ``used`` collects the keys of the numbers that decided.
    """
    memory, used = soc.memory, set() if used is None else used
    footprint = launch.bytes_read + launch.bytes_written
    used.add("memory.l2.bytes")
    reading, writing = (_cost(soc, name, used) for name in ("read_cost", "write_cost"))
    if l2 == "hot":
        if footprint > memory.l2.bytes:
            used.add("memory.l2.replacement")
        miss = 1.0 - _kept(footprint / memory.l2.bytes, memory.l2.replacement)
        return _residency(miss, miss, miss * reading, miss * writing)
    # What is brought in first drives out what was there; the rest drives out the launch's own lines.
    others = min(footprint, memory.l2.bytes)
    dirty = others * (1.0 if l2 == "dirty" else _cost(soc, "dirty_share", used))
    own = (footprint - others) * launch.bytes_written / footprint
    evicted = (dirty + own) / footprint
    spilled = 1.0 - others / footprint
    return _residency(1.0, spilled, reading + evicted * writing, evicted * writing)


def _residency(*shares: float) -> Residency:
    return Residency(*(round(share * whole) for share in shares))


def _cost(soc: Soc, name: str, used: set[str]) -> float:
    """A number that a chip may leave out: then reads and writes are alike, and lines of others clean."""
    where, key = (soc.memory.l2, "memory.l2") if name == "dirty_share" else (soc.memory, "memory")
    value: float | None = getattr(where, name)
    if value is None:
        return 0.0 if name == "dirty_share" else 1.0
    used.add(f"{key}.{name}")
    return value


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


def rates(demands: list[tuple[int, int, int, int]], capacity: Capacity) -> list[int]:
    """Max-min fair rates (grains per cycle and core) of flows (weight, cap, hbm share, store or not).

    All rates rise together; a flow stops at its cap, or when a memory it uses is full. ``weight``
    equal cores make one flow.
    """
    found = [0] * len(demands)
    open_flows = list(range(len(demands)))
    while open_flows:
        users = (
            (capacity.load_grains, [int(not d[3]) for d in demands]),
            (capacity.store_grains, [d[3] for d in demands]),
            (capacity.hbm_grains * whole, [d[2] for d in demands]),
        )
        level = level_cap = min(demands[i][1] for i in open_flows)
        closing = [i for i in open_flows if demands[i][1] == level_cap]
        for total, share in users:
            want = sum(demands[i][0] * share[i] for i in open_flows)
            if not want:
                continue
            # What is still open has no rate yet.
            taken = sum(d[0] * r * s for d, r, s in zip(demands, found, share, strict=True))
            full = (total - taken) // want
            if full < level:
                level, closing = full, [i for i in open_flows if share[i]]
        for i in closing:
            found[i] = max(1, level)
        open_flows = [i for i in open_flows if i not in closing]
    return found

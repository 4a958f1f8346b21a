"""What each instruction costs on a chip, from the chip's numbers and the instruction's operands.

Nothing here knows about time or about other instructions. Every number read is remembered, so that a
result can say which of them were assumed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from emulator.device.memory import GRAINS, Demand, Residency, whole
from kernel.layout import Layout
from kernel.program import Blocks, Instruction, Region, Window
from kernel.trace import gcd, larger, opaque, smaller
from socs.errors import UnknownCost
from socs.isa import BLOCK_BYTES, REPEAT_BYTES, Op, cost_key, repeats
from socs.spec import Banks, DmaDirection, DmaPath, RegisterLoop, Soc


@dataclass(frozen=True, slots=True)
class VectorTime:
    """``issue_cycles`` until the next independent instruction, ``retire_cycles`` until the result."""

    issue_cycles: int
    retire_cycles: int


@dataclass(frozen=True, slots=True)
class TransferTime:
    """A transfer that ends no sooner than ``unloaded_cycles`` after its start, nor than
    ``stream_latency_cycles`` after the shared memory has served ``demand``.

    ``alone_cycles`` is what it takes with the memory to itself. ``overlap_cycles`` before its end the next
    transfer of the pipe may begin.
    """

    unloaded_cycles: int
    stream_latency_cycles: int
    demand: Demand
    alone_cycles: int
    overlap_cycles: int = 0


class Costs:
    """Costs of one launch on one chip; ``used`` holds the dotted keys of the numbers read."""

    def __init__(
        self,
        soc: Soc,
        residency: Residency,
        used: set[str] | None = None,
        layouts: Mapping[str, Layout] | None = None,
    ) -> None:
        self._soc = soc
        self._residency = residency
        self.used = set() if used is None else used
        self._layouts = layouts or {}

    def issue(self) -> int:
        """Cycles of the scalar unit to hand one instruction to its pipe."""
        self.used.add("scalar.issue_cycles")
        return self._soc.scalar.issue_cycles

    def scalar(self, instruction: Instruction) -> int:
        """Cycles of an instruction of the scalar unit's own."""
        scalar = self._soc.scalar
        if instruction.op is Op.LOOP:
            self.used.add("scalar.loop_cycles")
            return scalar.loop_cycles
        name = "get_value" if instruction.op is Op.GET_VALUE else "set_value"
        self.used.add(f"scalar.{name}_cycles_per_element")
        each: int = getattr(scalar, f"{name}_cycles_per_element")
        return each * instruction.issued_count

    def set_flag(self) -> int:
        self.used.add("scalar.set_flag_cycles")
        return self._soc.scalar.set_flag_cycles

    def wait_flag(self) -> int:
        self.used.add("scalar.wait_flag_cycles")
        return self._soc.scalar.wait_flag_cycles

    def queue_depth(self) -> int:
        """Instructions that a pipe holds before the scalar unit has to wait."""
        self.used.add("dma.queue_depth")
        return self._soc.dma.queue_depth

    def vector(self, instruction: Instruction) -> VectorTime:
        """``head + interval * repeats``; bank conflicts raise the interval."""
        assert isinstance(instruction.dst, Region)
        if instruction.fused is not None and self._soc.vector.register_loop is not None:
            return self._register_loop(instruction, self._soc.vector.register_loop)
        sources = [s for s in instruction.srcs if isinstance(s, Region)]
        source = sources[0] if sources else instruction.dst
        key = cost_key(instruction.op, instruction.dst.dtype, source.dtype)
        cost = self._soc.vector.costs.get(instruction.op, {}).get(key)
        if cost is None:
            raise UnknownCost(
                f"{self._soc.name} has no cost for {instruction.op} {key} "
                f"({self._soc.origin}: vector.costs.{instruction.op}.{key}): no total is given"
            )
        self.used |= {f"vector.costs.{instruction.op}.{key}", "vector.issue_gap_cycles"}
        interval = larger(cost.interval_cycles, self.bank_cycles(instruction.dst, sources))
        if instruction.op is Op.BROADCAST and instruction.dst.rows > 1:
            # Each row is an instruction of its own, and none waits for another.
            each = math.ceil(interval * repeats(instruction.dst.count, instruction.dst.dtype))
            body = instruction.dst.rows * larger(self._soc.vector.issue_gap_cycles, each)
        else:
            count = repeats(instruction.issued_count, instruction.dst.dtype, *(s.dtype for s in sources))
            body = math.ceil(interval * count)
        gap = larger(self._soc.vector.issue_gap_cycles, body)
        return VectorTime(gap, cost.head_cycles + body)

    def _register_loop(self, instruction: Instruction, loop: RegisterLoop) -> VectorTime:
        """The first instruction of a fused loop carries the whole of it.

        All its inputs but the first's two are taken to be loaded once each; one result is stored.
        """
        assert instruction.fused is not None
        assert isinstance(instruction.dst, Region)
        self.used.add("vector.register_loop")
        place, members = instruction.fused
        if place:
            return VectorTime(0, 0)
        per_repeat = max(
            members / loop.loads_per_cycle, 1 / loop.stores_per_cycle, members / loop.computes_per_cycle
        )
        body = math.ceil(per_repeat * repeats(instruction.issued_count, instruction.dst.dtype))
        total = loop.start_cycles + body + loop.drain_cycles
        return VectorTime(body, total)

    def bank_cycles(self, dst: Region, sources: list[Region]) -> int:
        """Cycles per repeat that the UB banks allow, from the addresses.

        A block that is read again and again is in nobody's way. On chips whose decoding is not known the
        interval already holds what is known.
        """
        decode = self._soc.ub.banks.decode
        sources = [source for source in sources if not source.block]
        if decode == "unknown":
            return 1
        self.used.add("ub.banks")
        banks = self._soc.ub.banks
        cycles = _banks_2201 if decode == "group_low" else _banks_3510
        places = tuple([_place(source, banks) for source in sources])
        return cycles(banks.groups, banks.count, banks.reads_per_group, _place(dst, banks), places)

    def transfer(self, instruction: Instruction, blocks: Blocks) -> TransferTime:
        """A copy between GM and UB."""
        load = instruction.op is Op.COPY_IN
        window = instruction.srcs[0] if load else instruction.dst
        assert isinstance(window, Window)
        dma = self._soc.dma
        name = "load" if load else "store"
        direction: DmaDirection = dma.load if load else dma.store
        where = self._residency
        share, traffic = (
            (where.load_hbm, where.load_traffic) if load else (where.store_hbm, where.store_traffic)
        )
        path = self._mixed(direction, share, f"dma.{name}")
        count = instruction.issued_count
        layout = self._layouts.get(window.tensor)
        if layout is not None:
            count = smaller(count, layout.distinct_in_run(count))
        nbytes = count * window.dtype.itemsize
        self.used |= {"dma.line_bytes", "dma.misaligned_lines"}
        single = layout is not None and not any(layout.strides)
        granule = self._granule(window, blocks)
        extra = 0.0 if single else (dma.line_bytes - granule) * dma.misaligned_lines
        served = nbytes + extra
        unloaded = path.latency_cycles + math.ceil(nbytes / path.port_bytes_per_cycle)
        demand = Demand(
            grains=math.ceil(served * GRAINS),
            cap=larger(1, math.floor(path.stream_bytes_per_cycle * GRAINS)),
            hbm=traffic,
            store=int(not load),
        )
        # From the integers that the memory counts in: a cycle of rounding is no wait for others.
        alone = larger(unloaded, path.stream_latency_cycles + -(-demand.grains // demand.cap))
        overlap = _overlap(path.overlap_cycles or 0, granule, alone)
        return TransferTime(unloaded, path.stream_latency_cycles, demand, alone, overlap)

    def _mixed(self, direction: DmaDirection, hbm_share: int, key: str) -> DmaPath | _Path:
        """The path of a transfer of which ``hbm_share`` comes from HBM: times weighted by bytes."""
        if hbm_share:
            self.used.add(f"{key}.hbm")
        if hbm_share < whole:
            self.used.add(f"{key}.l2")
        far, near, part = direction.hbm, direction.l2, hbm_share / whole
        if hbm_share in (0, whole):
            return far if hbm_share else near

        def rate(a: float, b: float) -> float:
            return 1 / (part / a + (1 - part) / b)

        return _Path(
            latency_cycles=round(part * far.latency_cycles + (1 - part) * near.latency_cycles),
            port_bytes_per_cycle=rate(far.port_bytes_per_cycle, near.port_bytes_per_cycle),
            stream_latency_cycles=round(
                part * far.stream_latency_cycles + (1 - part) * near.stream_latency_cycles
            ),
            stream_bytes_per_cycle=rate(far.stream_bytes_per_cycle, near.stream_bytes_per_cycle),
            overlap_cycles=round(part * (far.overlap_cycles or 0) + (1 - part) * (near.overlap_cycles or 0)),
        )

    def _granule(self, window: Window, blocks: Blocks) -> int:
        """Bytes to which every start of this run is aligned, over all blocks and trips; at most a line."""
        size = window.dtype.itemsize
        step = blocks.step if blocks.count > 1 else 0
        return gcd(
            self._soc.dma.line_bytes,
            window.offset * size,
            window.stride * size,
            blocks.first_start * size,
            step * size,
        )


@dataclass(frozen=True, slots=True)
class _Path:
    """Numbers like those of a :class:`socs.spec.DmaPath`, of two paths together."""

    latency_cycles: int
    port_bytes_per_cycle: float
    stream_latency_cycles: int
    stream_bytes_per_cycle: float
    overlap_cycles: int


@opaque
def _overlap(cycles: int, granule: int, alone: int) -> int:
    """Whole blocks follow each other ``cycles`` early; a transfer is in its pipe for a cycle at least."""
    return min(cycles, alone - 1) if granule % BLOCK_BYTES == 0 else 0


def _place(region: Region, banks: Banks) -> tuple[int, int, int]:
    """Where a region begins: its 32 B block, as far as that matters, and its bank; and its elements' size."""
    block = region.address // BLOCK_BYTES % banks.count
    return block, region.address // (banks.groups * banks.bank_bytes), region.dtype.itemsize


_BLOCKS = REPEAT_BYTES // BLOCK_BYTES
_Place = tuple[int, int, int]


@opaque
@lru_cache(maxsize=1 << 14)
def _banks_2201(groups: int, count: int, per_group: int, dst: _Place, sources: tuple[_Place, ...]) -> int:
    """Each of the 16 groups gives one 32 B read and one write per cycle, so two sources in one group take
    two; a read and a write of one bank collide, the write coming one repeat late, so equal bases do not
    (asc-devkit, bank conflict guide)."""

    def group(block: int, behind: int = 0) -> set[int]:
        return {(block - behind * _BLOCKS + k) % groups for k in range(_BLOCKS)}

    reads = Counter(g for block, _, _ in sources for g in group(block))
    collides = any(
        (bank, size) == dst[1:] and group(block) & group(dst[0], behind=1) for block, bank, size in sources
    )
    return max(-(-max(reads.values(), default=0) // per_group), 2 if collides else 1)


@opaque
@lru_cache(maxsize=1 << 14)
def _banks_3510(groups: int, count: int, per_group: int, dst: _Place, sources: tuple[_Place, ...]) -> int:
    """Each of the 8 groups has two banks and gives two accesses per cycle, one of them a write at most;
    two reads of one bank collide (asc-devkit, bank conflict sample for arch 3510)."""
    accesses: Counter[int] = Counter()
    reads: Counter[tuple[int, int]] = Counter()
    for (block, _, _), is_read in (*((source, True) for source in sources), (dst, False)):
        for k in range(_BLOCKS):
            row, group = divmod(block + k, groups)
            accesses[group] += 1
            reads[group, row % (count // groups)] += is_read
    return max(-(-max(accesses.values()) // per_group), max(reads.values(), default=0))

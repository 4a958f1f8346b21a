"""What each instruction costs on a chip, from the chip's numbers and the instruction's operands.

Nothing here knows about time or about other instructions. Every number read is remembered, so that a
result can say which of them were assumed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from emulator.device.memory import GRAINS, Demand, Residency, whole
from kernel.layout import Layout
from kernel.program import Blocks, Instruction, Region, Window
from socs.errors import UnknownCost
from socs.isa import BLOCK_BYTES, REPEAT_BYTES, Op, cost_key, repeats
from socs.spec import DmaDirection, DmaPath, RegisterLoop, Soc


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
        self._vector: dict[Instruction, VectorTime] = {}
        self._transfer: dict[tuple[Instruction, int], TransferTime] = {}

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
        known = self._vector.get(instruction)
        if known is None:
            known = self._vector[instruction] = self._vector_time(instruction)
        return known

    def _vector_time(self, instruction: Instruction) -> VectorTime:
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
        interval = max(cost.interval_cycles, float(self.bank_cycles(instruction.dst, sources)))
        if instruction.op is Op.BROADCAST and instruction.dst.rows > 1:
            # Each row is an instruction of its own, and none waits for another.
            each = math.ceil(interval * repeats(instruction.dst.count, instruction.dst.dtype))
            body = instruction.dst.rows * max(self._soc.vector.issue_gap_cycles, each)
        else:
            count = repeats(instruction.issued_count, instruction.dst.dtype, *(s.dtype for s in sources))
            body = math.ceil(interval * count)
        gap = max(self._soc.vector.issue_gap_cycles, body)
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
        return self._banks_2201(dst, sources) if decode == "group_low" else self._banks_3510(dst, sources)

    def _banks_2201(self, dst: Region, sources: list[Region]) -> int:
        """Each of the 16 groups gives one 32 B read and one write per cycle, so two sources in one group take
        two; a read and a write of one bank collide, the write coming one repeat late, so equal bases do not
        (asc-devkit, bank conflict guide)."""
        banks = self._soc.ub.banks
        blocks = REPEAT_BYTES // BLOCK_BYTES

        def group(region: Region, behind: int = 0) -> set[int]:
            first = region.address // BLOCK_BYTES - behind * blocks
            return {(first + k) % banks.groups for k in range(blocks)}

        def bank(region: Region) -> int:
            return region.address // (banks.groups * banks.bank_bytes)

        reads: dict[int, int] = {}
        for source in sources:
            for g in group(source):
                reads[g] = reads.get(g, 0) + 1
        read_cycles = -(-max(reads.values(), default=0) // banks.reads_per_group)
        collides = any(
            source.dtype.itemsize == dst.dtype.itemsize
            and bank(source) == bank(dst)
            and group(source) & group(dst, behind=1)
            for source in sources
        )
        return max(read_cycles, 2 if collides else 1)

    def _banks_3510(self, dst: Region, sources: list[Region]) -> int:
        """Each of the 8 groups has two banks and gives two accesses per cycle, one of them a write at most;
        two reads of one bank collide (asc-devkit, bank conflict sample for arch 3510)."""
        banks = self._soc.ub.banks
        accesses: Counter[int] = Counter()
        reads: Counter[tuple[int, int]] = Counter()
        for region, is_read in (*((source, True) for source in sources), (dst, False)):
            for k in range(REPEAT_BYTES // BLOCK_BYTES):
                row, group = divmod(region.address // BLOCK_BYTES + k, banks.groups)
                accesses[group] += 1
                reads[group, row % (banks.count // banks.groups)] += is_read
        slots = banks.reads_per_group
        return max(-(-max(accesses.values()) // slots), max(reads.values(), default=0))

    def transfer(self, instruction: Instruction, blocks: Blocks) -> TransferTime:
        """A copy between GM and UB."""
        key = (instruction, id(blocks))
        known = self._transfer.get(key)
        if known is None:
            known = self._transfer[key] = self._transfer_time(instruction, blocks)
        return known

    def _transfer_time(self, instruction: Instruction, blocks: Blocks) -> TransferTime:
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
            count = min(count, layout.distinct_in_run(count))
        nbytes = count * window.dtype.itemsize
        self.used |= {"dma.line_bytes", "dma.misaligned_lines"}
        single = layout is not None and not any(layout.strides)
        extra = 0.0 if single else (dma.line_bytes - self._granule(window, blocks)) * dma.misaligned_lines
        served = nbytes + extra
        unloaded = path.latency_cycles + math.ceil(nbytes / path.port_bytes_per_cycle)
        demand = Demand(
            grains=math.ceil(served * GRAINS),
            cap=max(1, int(path.stream_bytes_per_cycle * GRAINS)),
            hbm=traffic,
            store=int(not load),
        )
        # From the integers that the memory counts in: a cycle of rounding is no wait for others.
        alone = max(unloaded, path.stream_latency_cycles + -(-demand.grains // demand.cap))
        overlap = 0
        if path.overlap_cycles and self._granule(window, blocks) % BLOCK_BYTES == 0:
            # A transfer is in its pipe for a cycle at least.
            overlap = min(path.overlap_cycles, alone - 1)
        return TransferTime(unloaded, path.stream_latency_cycles, demand, alone, overlap)

    def _mixed(self, direction: DmaDirection, hbm_share: int, key: str) -> DmaPath:
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

        return DmaPath(
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
        starts = blocks.starts
        step = starts.step if len(starts) > 1 else 0
        return math.gcd(
            self._soc.dma.line_bytes,
            window.offset * size,
            window.stride * size,
            starts[0] * size,
            step * size,
        )

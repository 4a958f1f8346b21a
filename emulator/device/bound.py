"""Closed-form limits of a launch, beside which the simulated time is read.

Lower: no pipe and no memory can be faster than its own work. Upper: everything one after another, each
transfer at the share it gets when all cores load and store at once. Simulated cycles lie between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from emulator.device.costs import Costs
from emulator.device.device import Device
from emulator.device.memory import rates, whole
from kernel.program import Blocks, Instruction, Launch, Loop, Region
from socs.isa import Op, Pipe


@dataclass(frozen=True, slots=True)
class Bounds:
    """Cycles from the start of the task if one thing alone were the limit, and their extremes."""

    limits: dict[str, int]
    lower: int
    serial: int

    @property
    def limiter(self) -> str:
        """What the lower bound comes from: a pipe, ``HBM`` or ``L2``."""
        return max(self.limits, key=lambda name: self.limits[name])


def bounds(launch: Launch, device: Device) -> Bounds:
    """Limits of ``launch`` on the chip that ``device`` was made for."""
    costs, start = device.costs, device.launch_cycles + device.entry_cycles
    slowest = _worst_rates(launch, device)
    limits: dict[str, int] = {}
    serial = 0
    l2_grains = hbm_grains = 0
    for index, blocks in enumerate(launch.blocks):
        work = _Work(costs, blocks, slowest[index])
        for count, stretch in _stretches(blocks):
            work.add(stretch, count)
        for pipe, cycles in work.cycles.items():
            limits[pipe] = max(limits.get(pipe, 0), start + cycles)
        serial = max(serial, start + work.serial)
        l2_grains += work.grains * blocks.count
        hbm_grains += work.hbm_grains * blocks.count // whole
    limits["L2"] = start + l2_grains // device.memory.l2_grains_per_cycle
    limits["HBM"] = start + hbm_grains // device.memory.hbm_grains_per_cycle
    return Bounds(limits, max(limits.values()), serial)


def _stretches(blocks: Blocks) -> Iterator[tuple[int, tuple[Instruction, ...]]]:
    """The program as stretches of instructions with the number of times each runs."""
    straight: list[Instruction] = []
    for item in blocks.program.items:
        if isinstance(item, Loop):
            yield 1, tuple(straight)
            straight = []
            yield item.trips, item.body
        else:
            straight.append(item)
    yield 1, tuple(straight)


class _Work:
    """Sums of one block's work."""

    def __init__(self, costs: Costs, blocks: Blocks, slowest: dict[Pipe, int]) -> None:
        self._costs = costs
        self._blocks = blocks
        self._slowest = slowest
        self.cycles: dict[str, int] = {pipe.value: 0 for pipe in Pipe}
        self.serial = 0
        self.grains = 0
        self.hbm_grains = 0

    def add(self, stretch: tuple[Instruction, ...], count: int) -> None:
        pending: Instruction | None = None
        for instruction in stretch:
            pending = self._one(instruction, count, pending)

    def _one(self, instruction: Instruction, count: int, pending: Instruction | None) -> Instruction | None:
        """Adds ``count`` times ``instruction``. ``pending``: the vector instruction still in the pipe."""
        costs, pipe = self._costs, instruction.pipe
        if pipe is not Pipe.S:
            self._both(Pipe.S, costs.issue() * count)
        if instruction.op is Op.WAIT_FLAG:
            self._both(pipe, costs.wait_flag() * count)
            # The pipe may drain while it waits, so a drain after a wait is not certain to cost.
            return None if pipe is Pipe.V else pending
        if instruction.op is Op.SET_FLAG:
            self._both(pipe, costs.set_flag() * count)
            if pipe is Pipe.V and pending is not None:
                self.cycles[pipe] += self._drain(pending) * count
                return None
            return pending
        if pipe is Pipe.S:
            self._both(pipe, costs.scalar(instruction) * count)
            return pending
        if pipe is Pipe.V:
            if pending is not None and _depends(instruction, pending):
                self.cycles[pipe] += self._drain(pending) * count
            time = costs.vector(instruction)
            self.cycles[pipe] += time.issue_cycles * count
            self.serial += max(time.issue_cycles, time.retire_cycles) * count
            return instruction
        transfer = costs.transfer(instruction, self._blocks)
        served = -(-transfer.demand.grains // self._slowest[pipe])
        worst = max(transfer.unloaded_cycles, transfer.stream_latency_cycles + served)
        self.cycles[pipe] += transfer.alone_cycles * count
        self.serial += max(worst, transfer.alone_cycles) * count
        self.grains += transfer.demand.grains * count
        self.hbm_grains += transfer.demand.grains * transfer.demand.hbm * count
        return pending

    def _drain(self, instruction: Instruction) -> int:
        time = self._costs.vector(instruction)
        return max(0, time.retire_cycles - time.issue_cycles)

    def _both(self, pipe: Pipe, cycles: int) -> None:
        self.cycles[pipe] += cycles
        self.serial += cycles


def _depends(later: Instruction, earlier: Instruction) -> bool:
    assert isinstance(earlier.dst, Region)
    written = list(earlier.dst.spans())
    return any(
        low < stop and start < high
        for region in later.operands()
        if isinstance(region, Region)
        for start, stop in region.spans()
        for low, high in written
    )


def _worst_rates(launch: Launch, device: Device) -> list[dict[Pipe, int]]:
    """Grains per cycle of a load and a store of each group when every core does both."""
    uncapped = 1 << 60
    shares = (device.residency.load_hbm, device.residency.store_hbm)
    flows = [(blocks.count, uncapped, hbm) for blocks in launch.blocks for hbm in shares]
    found = rates(flows, device.memory.l2_grains_per_cycle, device.memory.hbm_grains_per_cycle)
    return [{Pipe.MTE2: found[2 * i], Pipe.MTE3: found[2 * i + 1]} for i in range(len(launch.blocks))]

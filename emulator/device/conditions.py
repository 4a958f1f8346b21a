"""What a launch meets on a chip: all numbers that decide its time, whichever engine counts it."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.device.costs import Costs
from emulator.device.launch import entry_cycles, launch_cycles
from emulator.device.memory import Capacity, Residency, residency
from kernel.plan import Sketch
from kernel.program import Launch
from socs.spec import Soc


@dataclass(frozen=True, slots=True)
class Conditions:
    """Costs of the instructions, where the data lie, how fast the memory is, and when the blocks start."""

    costs: Costs
    residency: Residency
    capacity: Capacity
    launch_cycles: int
    entry_cycles: int

    @classmethod
    def of(cls, launch: Launch | Sketch, soc: Soc, l2: str) -> Conditions:
        """``l2``: ``cold`` or ``hot`` (see :func:`emulator.device.memory.residency`)."""
        used: set[str] = set()
        where = residency(launch, soc, l2, used)
        layouts = {t.name: t.layout for t in launch.tensors if t.layout is not None}
        return cls(
            Costs(soc, where, used, layouts),
            where,
            Capacity.of(soc, used),
            launch_cycles(soc, launch.block_dim, used),
            entry_cycles(soc, launch.block_dim, l2, used),
        )

    @property
    def used(self) -> set[str]:
        """Dotted keys of the chip's numbers that have been read."""
        return self.costs.used

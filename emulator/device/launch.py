"""From the start of the task to the first instruction of a block."""

from __future__ import annotations

from socs.spec import Soc


def launch_cycles(soc: Soc, block_dim: int, used: set[str]) -> int:
    """Core cycles before the blocks start: a part per task and a part per block.

    All blocks are taken to start together, once the last one has been handed out: what is measured
    (facts: timing, section 4) is the sum, not its distribution.
    """
    used |= {"launch.task_s", "launch.block_s"}
    seconds = soc.launch.task_s + soc.launch.block_s * block_dim
    return round(seconds * soc.clock_hz)


def entry_cycles(soc: Soc, block_dim: int, l2: str, used: set[str]) -> int:
    """Core cycles of a block's scalar unit before the kernel's first instruction.

    Where the data are cold the code is taken to be: another kernel ran before this one.
    """
    used.add("launch.entry_s")
    seconds = soc.launch.entry_s
    if l2 != "hot":
        for name, times in (("cold_code_s", 1), ("cold_code_block_s", block_dim)):
            extra: float | None = getattr(soc.launch, name)
            if extra is not None:
                used.add(f"launch.{name}")
                seconds += extra * times
    return round(seconds * soc.clock_hz)

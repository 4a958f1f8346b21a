"""The baseline to beat: bytes over bandwidth, and a fixed launch. No kernel, no cache, no pipes."""

from __future__ import annotations

from socs.spec import Soc

TEXT = (
    "bytes of the tensors / memory.hbm_bytes_per_s (sustained by all cores) + launch.task_s + launch.entry_s "
    "+ launch.block_s for every vector core"
)


def launch_us(soc: Soc) -> float:
    """The fixed launch: of a task that uses all cores, since a baseline knows no tiling."""
    launch = soc.launch
    return (launch.task_s + launch.entry_s + launch.block_s * soc.vector_cores) * 1e6


def naive_us(soc: Soc, nbytes: int) -> float:
    """What the baseline predicts for tensors of ``nbytes`` together.

    The bandwidth is the one that all cores together sustain, which on chips where it is known is below the
    data sheet's: a harder baseline than the nominal peak.
    """
    return launch_us(soc) + nbytes / soc.memory.hbm_bytes_per_s * 1e6

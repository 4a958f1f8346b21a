"""Every mechanism of the timing model can be switched off, and then is worth what it says."""

from __future__ import annotations

from itertools import pairwise

import pytest
from handmade import spans

import emulator
import socs
from emulator.device.device import simulate
from emulator.device.engines import time_launch
from emulator.device.mechanisms import MECHANISMS, idealised, levelled
from kernel.mse_loss_backward import Reduction, plan
from kernel.program import Launch
from socs.errors import AtlasError
from socs.isa import DType, Pipe

SOC = socs.load(
    "Ascend910B3",
    {"memory.l2.dirty_share": 0.25, "memory.read_cost": 1.1, "memory.write_cost": 1.2}
    | {"launch.cold_code_s": 4e-7, "launch.cold_code_block_s": 2e-8, "memory.l2.store_bytes_per_s": 2e12},
)
"""With a number for every mechanism."""

CASES = {
    "small, hot": ((64, 64), DType.FLOAT32, "hot"),
    "middle, hot": ((1024, 1024), DType.FLOAT16, "hot"),
    "odd, cold": ((1001, 779), DType.FLOAT16, "cold"),
    "large, cold": ((4096, 4096), DType.BFLOAT16, "cold"),
    "large, dirty": ((8192, 4096), DType.FLOAT32, "dirty"),
}

IDEAL = [name for name in MECHANISMS if name not in ("overlap", "imbalance", "residency")]
"""Those whose absence makes something faster. Without L2 or overlap all is slower; blocks of the mean
length can be either."""


def launch_for(case: str) -> tuple[Launch, str]:
    shape, dtype, l2 = CASES[case]
    made = plan(SOC, shape=shape, dtype=dtype, reduction=Reduction.MEAN).launch
    assert made is not None
    return made, l2


def cycles(case: str, *without: str, engine: str = "fast") -> int:
    launch, l2 = launch_for(case)
    return time_launch(launch, SOC, l2=l2, engine=engine, without=frozenset(without)).timeline.cycles


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", IDEAL)
def test_without_a_mechanism_a_launch_takes_no_longer(name: str, case: str) -> None:
    # Earlier arrivals can meet other transfers on the memory: a thousandth is no more than that.
    assert cycles(case, name) <= cycles(case) * 1.001


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_is_worth_something_somewhere(name: str) -> None:
    # The scalar unit issues far ahead of the other pipes, so no queue of theirs is ever full.
    worth = {case: cycles(case, name) - cycles(case) for case in CASES}
    assert any(worth.values()) or name in ("queue_depth", "issue_gap")


@pytest.mark.parametrize("name", ["residency", "overlap"])
@pytest.mark.parametrize("case", [case for case in CASES if "dirty" not in case])
def test_without_l2_or_overlap_a_launch_is_never_faster(name: str, case: str) -> None:
    assert cycles(case, name) >= cycles(case)


@pytest.mark.parametrize("name", MECHANISMS)
def test_both_engines_leave_the_same_mechanism_out(name: str) -> None:
    for case in ("middle, hot", "odd, cold"):
        assert cycles(case, name) == cycles(case, name, engine="simpy")


def test_without_l2_there_are_no_dirty_lines_of_others_to_write_back() -> None:
    assert cycles("large, dirty", "residency") < cycles("large, dirty")


def test_without_any_mechanism_nothing_but_the_vector_unit_is_left() -> None:
    everything = [name for name in MECHANISMS if name not in ("overlap", "residency", "imbalance")]
    launch, l2 = launch_for("middle, hot")
    timed = time_launch(launch, SOC, l2=l2, engine="fast", without=frozenset(everything))
    assert timed.bounds.limiter == Pipe.V
    assert timed.timeline.cycles < cycles("middle, hot") / 3


def test_without_overlap_no_core_loads_and_stores_at_the_same_time() -> None:
    launch, soc = idealised(launch_for("odd, cold")[0], SOC, frozenset({"overlap"}))
    timeline, _ = simulate(launch, soc, l2="cold", skip=False)
    assert not [span for span in timeline.spans if span.pipe is Pipe.MTE3 and span.label == "copy_out"]
    for core in range(len(launch.blocks)):
        moves = sorted(
            (span.start, span.end)
            for span in spans(timeline, core, Pipe.MTE2)
            if span.label in ("copy_in", "copy_out")
        )
        assert all(end <= start for (_, end), (start, _) in pairwise(moves))


def test_levelled_blocks_do_together_what_the_others_did() -> None:
    launch, _ = launch_for("odd, cold")
    level = levelled(launch)
    assert level.block_dim == launch.block_dim
    assert len(level.blocks) == 1 < len(launch.blocks)

    def moved(of: Launch) -> int:
        return sum(
            blocks.count * instruction.issued_count
            for blocks in of.blocks
            for instruction, _ in blocks.program.walk()
            if instruction.pipe is Pipe.MTE2 and instruction.flag is None
        )

    # Counts are rounded up, one for each copy of each block.
    assert 0 <= moved(level) - moved(launch) <= 3 * 64 * level.block_dim


def test_a_result_says_what_was_left_out() -> None:
    whole = emulator.predict("mse_loss_backward", shape=(512, 512), dtype="float16")
    part = emulator.predict("mse_loss_backward", shape=(512, 512), dtype="float16", without=["launch_task"])
    assert part.without == ("launch_task",)
    assert part.to_json()["without"] == ["launch_task"]
    assert whole.to_json()["without"] == []
    saved = round(whole.soc.launch.task_s * whole.soc.clock_hz)
    assert abs(whole.cycles - part.cycles - saved) <= 1


def test_an_unknown_mechanism_is_refused_with_those_known() -> None:
    with pytest.raises(AtlasError, match="unknown mechanism 'magic': there are heads, issue_gap"):
        emulator.predict("mse_loss_backward", shape=(8,), dtype="float32", without=["magic"])

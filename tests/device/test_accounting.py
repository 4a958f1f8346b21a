"""Every cycle of every pipe is accounted for, once."""

from __future__ import annotations

from collections import Counter

import pytest
from handmade import (
    F32,
    SAME_EVERY_TIME,
    at,
    bare,
    cut,
    gm,
    grid,
    launch_of,
    mixed_launches,
    program,
    real_launches,
)
from hypothesis import given, settings

import socs
from emulator.device.device import simulate
from emulator.device.timeline import REASON_TEXT, Reason, Timeline
from kernel.core import Core
from kernel.program import Launch
from socs.isa import DType, Pipe
from socs.spec import Soc

SIZES = ((), (1,), (31,), (64, 64), (70_001,), (1 << 20,), (1 << 30,))


def check_totals(timeline: Timeline) -> None:
    assert max(core.end for core in timeline.cores) == timeline.cycles
    for core in timeline.cores:
        assert set(core.pipes) == set(Pipe)
        for sums in core.pipes.values():
            assert sums.total == timeline.cycles
            assert sum(sums.of(reason) for reason in Reason) == timeline.cycles
            assert all(cycles >= 0 for cycles in sums.cycles.values())
            assert sums.of(Reason.LAUNCH) == timeline.launch_cycles
            assert sums.of(Reason.DONE) >= timeline.cycles - core.end


@pytest.mark.parametrize(("name", "dtype"), list(grid()))
@pytest.mark.parametrize("l2", ["hot", "cold"])
def test_the_reasons_of_every_pipe_add_up_to_the_total(name: str, dtype: DType, l2: str) -> None:
    for shape in SIZES:
        timeline, _ = simulate(cut(name, dtype, shape), socs.load(name), l2=l2)
        assert timeline.cycles > timeline.launch_cycles
        check_totals(timeline)


def check_spans(timeline: Timeline) -> None:
    """Spans of a pipe follow each other without hole or overlap and sum to its totals."""
    assert not timeline.truncated
    for core in timeline.cores:
        for pipe, sums in core.pipes.items():
            own = sorted(
                (s for s in timeline.spans if s.core == core.index and s.pipe is pipe), key=lambda s: s.start
            )
            assert all(span.start < span.end for span in own)
            edges = [0, *(span.end for span in own)]
            assert [span.start for span in own] == edges[:-1]
            assert edges[-1] == timeline.cycles
            added: Counter[tuple[Reason, str]] = Counter()
            for span in own:
                added[span.reason, span.detail] += span.end - span.start
            assert added == +sums.cycles


@settings(SAME_EVERY_TIME, max_examples=50)
@given(case=real_launches(most=3_000))
def test_the_spans_of_a_pipe_tile_its_time_and_sum_to_its_totals(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    timeline, _ = simulate(launch, soc, l2=l2, skip=False)
    check_totals(timeline)
    check_spans(timeline)


@settings(SAME_EVERY_TIME, max_examples=30)
@given(case=mixed_launches(trips=15))
def test_so_do_those_of_several_groups(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    timeline, _ = simulate(launch, soc, l2=l2, skip=False)
    check_totals(timeline)
    check_spans(timeline)
    assert {core.first_block for core in timeline.cores} == {blocks.first_block for blocks in launch.blocks}


def test_a_wait_is_told_with_the_flag_it_waits_for() -> None:
    timeline, _ = simulate(cut("Ascend910B3", F32, (1 << 20,)), socs.load("Ascend910B3"), l2="cold")
    for span in timeline.spans:
        if span.reason is Reason.FLAG:
            source, target = span.detail.split("#")[0].split("->")
            assert target == span.pipe
            assert source in set(Pipe)
        elif span.reason is Reason.QUEUE:
            assert (span.pipe, span.detail) in {(Pipe.S, pipe) for pipe in Pipe}
        elif span.reason is not Reason.EXECUTE:
            assert span.detail == ""


def test_memory_is_waited_for_only_where_it_is_shared() -> None:
    """40 cold loads of 32 KB take 1553 cycles each, 718 of them their own (timing.md 0)."""
    item = program(lambda core: core.copy_in(at(0, 8192), gm(8192)))
    for cores, own, waited in ((1, 718, 0), (40, 718, 1553 - 718)):
        timeline, _ = simulate(launch_of(item, counts=(cores,)), bare("Ascend910B3"), l2="cold")
        sums = timeline.cores[0].pipes[Pipe.MTE2]
        assert (sums.of(Reason.EXECUTE), sums.of(Reason.MEMORY)) == (own, waited)


def test_a_pipe_with_nothing_to_do_waits_for_issue_and_is_then_done() -> None:
    def write(core: Core) -> None:
        core.copy_in(at(0, 1024), gm(1024))

    timeline, _ = simulate(launch_of(program(write)), bare("Ascend910B3"), l2="cold")
    sums = timeline.cores[0].pipes[Pipe.V]
    assert dict(sums.cycles) == {(Reason.ISSUE, ""): 1, (Reason.DONE, ""): 286}
    assert sums.instructions == 0


def test_every_reason_has_words() -> None:
    assert set(REASON_TEXT) == set(Reason)

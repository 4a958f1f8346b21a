"""Flags, queues and pipes: programs that were worked out on paper, cycle by cycle."""

from __future__ import annotations

import itertools
import re

import pytest
from handmade import F32, at, bare, cut, gm, launch_of, program, run, spans

import socs
from emulator.device.device import Device, simulate
from emulator.device.timeline import Reason, Span, Timeline
from kernel.core import Core, GlobalTensor, Tiles
from kernel.program import Flag
from socs.isa import Pipe

SOC = bare("Ascend910B3")


def copy_through(core: Core, length: int, tile: int, depth: int) -> None:
    """out = x * k, tile by tile."""
    x, out = GlobalTensor("x", F32), GlobalTensor("out", F32)
    inputs = core.queue("VECIN", tile * 4, depth)
    outputs = core.queue("VECOUT", tile * 4, depth)
    for part in core.loop(Tiles(length, tile)):
        buffer = inputs.alloc(F32)
        core.copy_in(buffer, x[part])
        inputs.enque(buffer)
        source, result = inputs.deque(F32), outputs.alloc(F32)
        core.muls(result[: part.count], source[: part.count], "k")
        outputs.enque(result)
        inputs.free(source)
        core.copy_out(out[part], outputs.deque(F32))
        outputs.free(result)


# Worked out by hand: issue 1, loop 26, set and wait 1; a load of 4 KB 241 + 45, a store 136 + 47; muls of 16
# repeats 16 to the next, 39 to the result.
PAPER = {
    Pipe.MTE2: """
        0 27 issue | 27 313 copy_in | 313 314 set_flag | 314 356 flag V->MTE2#0 | 356 357 wait_flag
        357 643 copy_in | 643 644 set_flag | 644 687 flag V->MTE2#0 | 687 688 wait_flag | 688 872 done""",
    Pipe.V: """
        0 29 issue | 29 314 flag MTE2->V#0 | 314 315 wait_flag | 315 331 muls | 331 354 drain
        354 355 set_flag | 355 356 set_flag | 356 644 flag MTE2->V#0 | 644 645 wait_flag | 645 646 wait_flag
        646 662 muls | 662 685 drain | 685 686 set_flag | 686 687 set_flag | 687 871 flag MTE3->V#0
        871 872 wait_flag""",
    Pipe.MTE3: """
        0 33 issue | 33 355 flag V->MTE3#0 | 355 356 wait_flag | 356 539 copy_out | 539 540 set_flag
        540 686 flag V->MTE3#0 | 686 687 wait_flag | 687 870 copy_out | 870 871 set_flag | 871 872 done""",
    Pipe.S: """
        0 26 loop | 26 27 copy_in | 27 28 set_flag | 28 29 wait_flag | 29 30 muls | 30 31 set_flag
        31 32 set_flag | 32 33 wait_flag | 33 34 copy_out | 34 35 set_flag | 35 61 loop | 61 62 wait_flag
        62 63 copy_in | 63 64 set_flag | 64 65 wait_flag | 65 66 wait_flag | 66 67 muls | 67 68 set_flag
        68 69 set_flag | 69 70 wait_flag | 70 71 copy_out | 71 72 set_flag | 72 73 wait_flag | 73 74 wait_flag
        74 872 done""",
}


def as_written(span: Span) -> str:
    if span.reason is Reason.EXECUTE:
        return f"{span.start} {span.end} {span.detail or span.label}"
    return f"{span.start} {span.end} {span.reason} {span.detail}".strip()


@pytest.mark.parametrize("pipe", list(Pipe))
def test_two_tiles_in_one_buffer_take_the_cycles_worked_out_on_paper(pipe: Pipe) -> None:
    timeline, _ = run(SOC, lambda core: copy_through(core, 2048, 1024, 1))
    assert timeline.cycles == 872
    expected = [" ".join(item.split()) for item in re.split(r"[|\n]", PAPER[pipe]) if item.strip()]
    assert [as_written(span) for span in spans(timeline, pipe)] == expected


def overlap(timeline: Timeline) -> int:
    """Cycles in which MTE2 copies and V computes."""
    loads, computes = spans(timeline, Pipe.MTE2, "copy_in"), spans(timeline, Pipe.V, "muls")
    return sum(max(0, min(a.end, b.end) - max(a.start, b.start)) for a in loads for b in computes)


def test_the_next_load_overlaps_the_vector_only_with_a_second_buffer() -> None:
    one, _ = run(SOC, lambda core: copy_through(core, 8 * 8192, 8192, 1), skip=False)
    two, _ = run(SOC, lambda core: copy_through(core, 8 * 8192, 8192, 2), skip=False)
    assert overlap(one) == 0
    assert overlap(two) == 7 * 128  # every computation but the last, 8192 elements in 128 repeats
    assert two.cycles < one.cycles


def test_with_two_buffers_the_loads_never_stop() -> None:
    timeline, _ = run(SOC, lambda core: copy_through(core, 8 * 8192, 8192, 2), skip=False)
    found = spans(timeline, Pipe.MTE2, "copy_in")
    # Between two loads: the flag of the first and, once the buffers are used again, a wait.
    assert [b.start - a.end for a, b in itertools.pairwise(found)] == [1] + [2] * 6


def test_the_kernel_itself_overlaps_its_loads_with_its_vector_part() -> None:
    for buffers, overlaps in ((1, False), (2, True)):
        launch = cut("Ascend910B3", F32, (40 * 32768,), tile_length=4096, buffer_num=buffers)
        timeline, _ = simulate(launch, socs.load("Ascend910B3"), l2="cold", skip=False)
        loads, work = spans(timeline, Pipe.MTE2, "copy_in"), spans(timeline, Pipe.V, "sub")
        assert any(a.start < b.end and b.start < a.end for a in loads for b in work) is overlaps


# ---- deadlock -----------------------------------------------------------------------------------


def test_a_wait_for_a_flag_that_nobody_raises_is_told_with_cycle_pipe_and_flag() -> None:
    with pytest.raises(socs.AtlasError) as error:
        run(SOC, lambda core: core.wait_flag(core.event(Pipe.MTE2, Pipe.V)))
    assert str(error.value) == "deadlock at cycle 1, core group 0: pipe V waits for flag MTE2->V#0"


def test_two_pipes_that_wait_for_each_other_are_told_and_not_waited_for() -> None:
    def write(core: Core) -> None:
        ahead, back = core.event(Pipe.MTE2, Pipe.V), core.event(Pipe.V, Pipe.MTE2)
        core.copy_in(at(0, 1024), gm(1024))  # cycles 1 to 287
        core.wait_flag(back)
        core.set_flag(ahead)
        core.wait_flag(ahead)
        core.set_flag(back)

    with pytest.raises(
        socs.AtlasError, match=r"^deadlock at cycle 287, .* pipe MTE2 waits for flag V->MTE2#0$"
    ):
        run(SOC, write)


def test_the_scalar_unit_can_deadlock_too() -> None:
    with pytest.raises(socs.AtlasError, match="pipe S waits for flag V->S#0"):
        run(SOC, lambda core: core.wait_flag(core.event(Pipe.V, Pipe.S)))


def test_a_full_queue_behind_a_lost_flag_names_the_flag() -> None:
    def write(core: Core) -> None:
        core.wait_flag(core.event(Pipe.MTE2, Pipe.V))
        for _ in range(100):
            core.muls(at(0, 64), at(0, 64), "k")

    with pytest.raises(socs.AtlasError, match="pipe V waits for flag MTE2->V#0"):
        run(SOC, write)


def test_a_deadlock_is_told_in_the_group_in_which_it_is() -> None:
    stuck = program(lambda core: core.wait_flag(core.event(Pipe.MTE2, Pipe.V)))
    fine = program(lambda core: core.copy_in(at(0, 1024), gm(1024)))
    with pytest.raises(socs.AtlasError, match=r"^deadlock at cycle 287, core group 1: pipe V"):
        simulate(launch_of(fine, stuck), SOC, l2="cold")


def lost_after_a_loop(core: Core) -> None:
    copy_through(core, 400 * 1024, 1024, 1)
    core.wait_flag(Flag(Pipe.MTE2, Pipe.V, 7))


def raised_twice_after_a_loop(core: Core) -> None:
    copy_through(core, 400 * 1024, 1024, 1)
    for _ in range(2):
        core.set_flag(Flag(Pipe.MTE2, Pipe.V, 7))


@pytest.mark.parametrize("write", [lost_after_a_loop, raised_twice_after_a_loop])
def test_the_cycle_of_a_mistake_counts_what_was_skipped_before_it(write: object) -> None:
    messages = []
    for skip in (True, False):
        with pytest.raises(socs.AtlasError, match="cycle") as error:
            run(SOC, write, skip=skip)  # type: ignore[arg-type]
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    assert int(re.search(r"cycle (\d+)", messages[0])[1]) > 400 * 286  # type: ignore[index]


def test_a_flag_raised_twice_before_a_wait_is_told() -> None:
    def write(core: Core) -> None:
        flag = core.event(Pipe.MTE2, Pipe.V)
        core.set_flag(flag)
        core.set_flag(flag)

    with pytest.raises(socs.AtlasError, match=r"flag MTE2->V#0 is raised twice before a wait \(cycle 3\)"):
        run(SOC, write)


# ---- queues -------------------------------------------------------------------------------------


def test_a_full_queue_makes_the_scalar_unit_wait() -> None:
    """One runs, two wait: the fourth of five loads of 286 cycles finds no room before the first ends."""

    def write(core: Core) -> None:
        for slot in range(5):
            core.copy_in(at(slot * 4096, 1024), gm(1024))

    timeline, _ = run(bare("Ascend910B3", dma__queue_depth=2), write)
    waits = [(s.start, s.end, s.detail) for s in spans(timeline, Pipe.S) if s.reason is Reason.QUEUE]
    assert waits == [(4, 287, "MTE2"), (288, 573, "MTE2")]
    assert timeline.cores[0].pipes[Pipe.S].of(Reason.QUEUE) == 283 + 285
    assert timeline.cycles == 1 + 5 * 286


def test_a_queue_that_never_fills_makes_nobody_wait() -> None:
    def write(core: Core) -> None:
        for slot in range(5):
            core.copy_in(at(slot * 4096, 1024), gm(1024))

    timeline, _ = run(bare("Ascend910B3", dma__queue_depth=4), write)
    assert timeline.cores[0].pipes[Pipe.S].of(Reason.QUEUE) == 0


def test_a_full_queue_of_one_pipe_holds_up_the_others() -> None:
    """The scalar unit issues in order: the store waits behind the third load that finds no room."""

    def write(core: Core) -> None:
        for slot in range(3):
            core.copy_in(at(slot * 4096, 1024), gm(1024))
        core.copy_out(gm(1024, name="out"), at(0x8000, 1024))

    timeline, _ = run(bare("Ascend910B3", dma__queue_depth=1), write)
    assert spans(timeline, Pipe.MTE3, "copy_out")[0].start == 1 + 286 + 1


def test_deeper_queues_never_slow_a_launch_down() -> None:
    launch = cut("Ascend910B3", F32, (1 << 18,), tile_length=512)
    chips = [socs.load("Ascend910B3", {"dma.queue_depth": depth}) for depth in (1, 2, 3, 4, 8, 16, 32)]
    cycles = [simulate(launch, soc, l2="hot")[0].cycles for soc in chips]
    assert cycles == sorted(cycles, reverse=True)
    assert cycles[0] > cycles[-1]


def test_element_stores_run_on_the_scalar_unit_at_34_cycles_each() -> None:
    timeline, _ = run(SOC, lambda core: core.set_value(gm(7, name="out"), at(0, 7)))
    assert timeline.cycles == 7 * 34


def test_blocks_start_after_launch_and_entry() -> None:
    warm = {"launch.cold_code_s": 0, "launch.cold_code_block_s": 0}
    times = {"launch.task_s": 1e-6, "launch.block_s": 1e-8, "launch.entry_s": 5e-7}
    soc = socs.load("Ascend910B3", times | warm)
    item = program(lambda core: core.copy_in(at(0, 1024), gm(1024)))
    for cores in (1, 5, 40):
        launch = launch_of(item, counts=(cores,))
        timeline, device = simulate(launch, soc, l2="cold")
        launched = 1800 + 18 * cores
        assert (device.launch_cycles, device.entry_cycles) == (launched, 900)
        (load,) = spans(timeline, Pipe.MTE2, "copy_in")
        assert load.start == launched + 900 + 1
        assert timeline.cores[0].pipes[Pipe.V].of(Reason.LAUNCH) == launched


def test_code_that_is_not_there_lengthens_the_entry_unless_the_launch_is_hot() -> None:
    soc = socs.load("Ascend910B3", {"launch.cold_code_s": 1e-6, "launch.cold_code_block_s": 1e-7})
    item = program(lambda core: core.copy_in(at(0, 64), gm(64)))
    warm = round(soc.launch.entry_s * soc.clock_hz)
    for cores in (1, 40):
        launch = launch_of(item, counts=(cores,))
        entries = {l2: simulate(launch, soc, l2=l2)[1].entry_cycles for l2 in ("hot", "cold", "dirty")}
        assert entries == {"hot": warm, "cold": warm + 1800 + 180 * cores, "dirty": warm + 1800 + 180 * cores}


def test_launch_cycles_never_fall_with_more_blocks() -> None:
    item = program(lambda core: core.copy_in(at(0, 64), gm(64)))
    for soc in socs.all_socs():
        launches = [launch_of(item, counts=(count,)) for count in range(1, soc.vector_cores + 1)]
        cycles = [Device(launch, soc, l2="hot").launch_cycles for launch in launches]
        assert cycles == sorted(cycles)
        assert cycles[0] > 0

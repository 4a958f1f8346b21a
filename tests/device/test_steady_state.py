"""Skipping whole periods changes nothing but the time that the emulator takes."""

from __future__ import annotations

from collections import Counter

import pytest
from handmade import (
    F16,
    F32,
    GENERATIONS,
    SAME_EVERY_TIME,
    at,
    bare,
    cut,
    everything,
    gm,
    grid,
    instructions,
    launch_of,
    mixed_launches,
    program,
    real_launches,
    totals,
)
from hypothesis import given, settings

import socs
from emulator.device import steady, timeline
from emulator.device.device import simulate
from kernel.core import Core, Tiles
from kernel.program import Blocks, Launch, TensorArg
from socs.isa import DType, Pipe
from socs.spec import Soc


@settings(SAME_EVERY_TIME, max_examples=80)
@given(case=real_launches())
def test_skipping_changes_no_cycle_no_total_no_count_and_no_span(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    fast, _ = simulate(launch, soc, l2=l2, skip=True)
    slow, _ = simulate(launch, soc, l2=l2, skip=False)
    assert not slow.repeats
    assert everything(fast) == everything(slow)


@settings(SAME_EVERY_TIME, max_examples=40)
@given(case=mixed_launches())
def test_skipping_is_exact_with_groups_that_loop_at_different_paces(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    fast, _ = simulate(launch, soc, l2=l2, skip=True)
    slow, _ = simulate(launch, soc, l2=l2, skip=False)
    assert everything(fast) == everything(slow)


@pytest.mark.parametrize("buffer_num", [1, 2, 3, 4])
@pytest.mark.parametrize("l2", ["hot", "cold"])
def test_long_loops_are_skipped_exactly_and_not_at_all_by_accident(buffer_num: int, l2: str) -> None:
    for name, dtype in (("Ascend910B4-1", F16), ("Ascend910B4-1", F32), ("Ascend310P3", F16)):
        launch = cut(name, dtype, (1 << 17,), tile_length=512, buffer_num=buffer_num, block_dim=4)
        fast, _ = simulate(launch, socs.load(name), l2=l2, skip=True)
        slow, _ = simulate(launch, socs.load(name), l2=l2, skip=False)
        assert everything(fast) == everything(slow)
        assert fast.repeats
        assert fast.skipped_cycles > slow.cycles // 2
        assert fast.simulated_instructions < slow.simulated_instructions // 2
        assert slow.simulated_instructions == instructions(launch)


def test_the_instructions_counted_are_those_of_the_program() -> None:
    launch = cut("Ascend910B4-1", F16, (1 << 40,))
    fast, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot")
    for core, blocks in zip(fast.cores, launch.blocks, strict=True):
        counted = sum(sums.instructions for sums in core.pipes.values())
        assert counted == blocks.program.instruction_count


MOST_SIMULATED = {"mse_loss_grad_v2": 500, "mse_loss_grad": 1_000, "mse_loss_grad_v2_950": 650}


@pytest.mark.parametrize(("name", "dtype"), list(grid()))
@pytest.mark.parametrize("l2", ["hot", "cold"])
def test_the_work_does_not_grow_with_the_tensor(name: str, dtype: DType, l2: str) -> None:
    for rest in (0, 12_345):
        found = []
        for exponent in (26, 40):
            launch = cut(name, dtype, ((1 << exponent) + rest,))
            fast, _ = simulate(launch, socs.load(name), l2=l2)
            assert fast.simulated_instructions < MOST_SIMULATED[launch.kernel]
            assert len(fast.spans) < 3 * MOST_SIMULATED[launch.kernel]
            found.append(fast.simulated_instructions)
        assert found[1] <= found[0] * 1.25


@pytest.mark.parametrize("buffer_num", [1, 2, 3, 4])
def test_the_work_does_not_grow_with_the_tensor_in_tiles_of_a_users_choice(buffer_num: int) -> None:
    for tile in (96, 1000, 2048):
        for exponent in (26, 40):
            launch = cut("Ascend910B4-1", F16, (1 << exponent,), tile_length=tile, buffer_num=buffer_num)
            fast, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="cold")
            assert fast.simulated_instructions < 3_000


def test_the_largest_tensor_is_counted_without_overflow_in_proportion_to_its_size() -> None:
    soc = socs.load("Ascend310B4")
    cycles = {}
    for exponent in (44, 48):
        found, _ = simulate(cut("Ascend310B4", F32, (1 << exponent,)), soc, l2="cold")
        assert type(found.cycles) is int
        assert all(sums.total == found.cycles for core in found.cores for sums in core.pipes.values())
        cycles[exponent] = found.cycles
    # 16 bytes an element through 8 B/cycle: more than 2^48 cycles, which float32 and int32 could not hold.
    assert cycles[48] > 1 << 48
    assert cycles[48] / cycles[44] == pytest.approx(16, rel=1e-6)


def test_a_program_with_two_loops_is_skipped_in_both() -> None:
    def write(core: Core) -> None:
        for tile in (64, 128):
            for _ in core.loop(Tiles(tile * 500, tile)):
                core.copy_in(at(0, tile), gm(tile))
                core.muls(at(0, tile), at(0, tile), "k")

    launch = launch_of(program(write))
    fast, _ = simulate(launch, bare("Ascend910B3"), l2="cold", skip=True)
    slow, _ = simulate(launch, bare("Ascend910B3"), l2="cold", skip=False)
    assert everything(fast) == everything(slow)
    assert len(fast.repeats) >= 2
    assert fast.simulated_instructions < slow.simulated_instructions // 5


@pytest.mark.parametrize("kind", ["load", "store", "vector", "scalar"])
def test_a_loop_that_leaves_pipes_idle_is_skipped_too(kind: str) -> None:
    def write(core: Core) -> None:
        emit = {
            "load": lambda: core.copy_in(at(0, 256), gm(256)),
            "store": lambda: core.copy_out(gm(256, name="out"), at(0, 256)),
            "vector": lambda: core.muls(at(0, 256), at(0, 256), "k"),
            "scalar": lambda: core.set_value(gm(2, name="out"), at(0, 2)),
        }[kind]
        for _ in core.loop(Tiles(256 * 1000, 256)):
            emit()

    launch = launch_of(program(write))
    fast, _ = simulate(launch, bare("Ascend910B3"), l2="cold", skip=True)
    slow, _ = simulate(launch, bare("Ascend910B3"), l2="cold", skip=False)
    assert everything(fast) == everything(slow)
    assert fast.simulated_instructions < 500


def test_a_loop_that_never_repeats_within_memory_is_simulated_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = cut("Ascend910B4-1", F16, (1 << 18,), tile_length=512, buffer_num=2, block_dim=4)
    whole, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot", skip=False)
    monkeypatch.setattr(steady, "MEMORY", 0)
    found, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot", skip=True)
    assert not found.repeats
    assert everything(found) == everything(whole)


def test_totals_go_on_when_no_more_spans_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = cut("Ascend910B4-1", F16, (1 << 18,), tile_length=512, buffer_num=2, block_dim=4)
    kept, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot", skip=False)
    monkeypatch.setattr(timeline, "SPAN_LIMIT", 100)
    for skip in (True, False):
        few, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot", skip=skip)
        assert len(few.spans) == 100
        assert few.truncated
        assert (few.cycles, totals(few)) == (kept.cycles, totals(kept))
    assert not kept.truncated


def test_a_repetition_beyond_the_limit_is_not_expanded() -> None:
    launch = cut("Ascend910B4-1", F16, (1 << 40,))
    found, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot")
    assert list(found.expanded(100_000)) == found.spans


def test_expanded_tiles_are_counted_on_and_spans_without_a_tile_stay_without() -> None:
    launch = cut("Ascend910B4-1", F16, (1 << 18,), tile_length=512, buffer_num=2, block_dim=4)
    fast, _ = simulate(launch, socs.load("Ascend910B4-1"), l2="hot")
    loads = Counter(
        span.tile for span in fast.expanded(1 << 30) if span.label == "copy_in" and span.pipe == "MTE2"
    )
    assert set(loads) == set(range(128))
    assert {span.tile for span in fast.expanded(1 << 30) if span.label == "issue"} == {-1}


@pytest.mark.parametrize("name", GENERATIONS)
@pytest.mark.parametrize("buffer_num", [1, 2])
def test_as_many_tiles_more_take_as_many_cycles_more(name: str, buffer_num: int) -> None:
    # A boundless L2: what does not fit into it would change with the size.
    soc = socs.load(name, {"memory.l2.bytes": 1 << 50})
    cores = min(4, soc.vector_cores)

    def cycles(trips: int) -> int:
        total = trips * 1024 * cores
        launch = cut(name, F32, (total,), tile_length=1024, buffer_num=buffer_num, block_dim=cores)
        return simulate(launch, soc, l2="cold")[0].cycles

    period = cycles(100_200) - cycles(100_000)
    assert cycles(100_600) - cycles(100_200) == pytest.approx(2 * period, abs=8)
    assert cycles(1 << 30) == pytest.approx((1 << 30) * period / 200, rel=1e-4)


def test_identical_groups_at_different_places_of_their_loops_are_still_exact() -> None:
    """The same tile at two lengths: one group leaves its loop while the other goes on."""

    def write(length: int) -> Blocks:
        def emit(core: Core) -> None:
            flag, back = core.event(Pipe.MTE2, Pipe.MTE3), core.event(Pipe.MTE3, Pipe.MTE2)
            for _ in core.loop(Tiles(length, 256)):
                core.copy_in(at(0, 256), gm(256))
                core.set_flag(flag)
                core.wait_flag(flag)
                core.copy_out(gm(256, name="out"), at(0, 256))
                core.set_flag(back)
                core.wait_flag(back)

        return Blocks(program(emit, length), range(1), 0)

    tensors = (TensorArg("x", F32, 1 << 20), TensorArg("out", F32, 1 << 20, written=True))
    launch = Launch("k", (write(256 * 300), write(256 * 77)), tensors)
    fast, _ = simulate(launch, bare("Ascend910B3"), l2="cold", skip=True)
    slow, _ = simulate(launch, bare("Ascend910B3"), l2="cold", skip=False)
    assert everything(fast) == everything(slow)
    assert len(fast.repeats) >= 2

"""Transfers of one core against the formulas and tables that were published."""

from __future__ import annotations

import math

import pytest
from handmade import SAME_EVERY_TIME, at, bare, gm, run, spans
from hypothesis import given, settings
from hypothesis import strategies as st

import emulator
from emulator.device.timeline import Reason, Timeline
from kernel.core import Core
from socs.isa import Pipe
from socs.spec import Soc

KB = 1024


def copy_in(core: Core, nbytes: int, address: int = 0, offset: int = 0) -> None:
    core.copy_in(at(address, nbytes // 4), gm(nbytes // 4, offset))


def copy_out(core: Core, nbytes: int, address: int = 0, offset: int = 0) -> None:
    core.copy_out(gm(nbytes // 4, offset, name="out"), at(address, nbytes // 4))


def until_there(timeline: Timeline, pipe: Pipe, label: str) -> int:
    """Cycles from the start of a pipe's only transfer until its data are there."""
    (span,) = spans(timeline, pipe, label)
    return max(s.end for s in spans(timeline, pipe) if s.reason is Reason.EXECUTE) - span.start


def load_cycles(soc: Soc, nbytes: int, l2: str, offset: int = 0) -> int:
    timeline, _ = run(soc, lambda core: copy_in(core, nbytes, 0, offset), l2=l2)
    return until_there(timeline, Pipe.MTE2, "copy_in")


def store_cycles(soc: Soc, nbytes: int, l2: str = "cold") -> int:
    return until_there(run(soc, lambda core: copy_out(core, nbytes), l2=l2)[0], Pipe.MTE3, "copy_out")


def off(model: int, silicon: int) -> float:
    return abs(model / silicon - 1)


@pytest.mark.parametrize(
    ("kilobytes", "model", "silicon"),
    [
        (1, 253, 235),
        (4, 286, 291),
        (8, 331, 321),
        (16, 421, 404),
        (32, 718, 712),
        (64, 1415, 1426),
        (128, 2809, 2799),
        (192, 4204, 4202),
    ],
)
def test_a_load_from_hbm_is_the_published_fit(kilobytes: int, model: int, silicon: int) -> None:
    nbytes = kilobytes * KB
    assert model == max(241 + math.ceil(nbytes / 91.5), 20 + math.ceil(nbytes / 47))
    assert load_cycles(bare("Ascend910B1"), nbytes, "cold") == model
    assert off(model, silicon) < 0.08


@pytest.mark.parametrize(
    ("kilobytes", "model", "silicon"),
    [
        (1, 209, 216),
        (4, 233, 238),
        (8, 265, 239),
        (16, 330, 300),
        (32, 459, 485),
        (64, 717, 747),
        (128, 1233, 1229),
        (192, 1749, 1765),
    ],
)
def test_a_load_from_l2_is_the_published_fit_without_its_floor(
    kilobytes: int, model: int, silicon: int
) -> None:
    """The fit is max(216, 200 + B/127); the floor, which matters below 2 KB, is left out."""
    nbytes = kilobytes * KB
    assert load_cycles(bare("Ascend910B3"), nbytes, "hot") == model
    assert model == 200 + math.ceil(nbytes / 127)
    assert off(model, silicon) < 0.12


@pytest.mark.parametrize(
    ("kilobytes", "model", "silicon"),
    [(1, 148, 151), (4, 183, 181), (8, 229, 237), (16, 321, 316), (32, 506, 507), (64, 996, 993)],
)
def test_a_store_is_the_published_fit(kilobytes: int, model: int, silicon: int) -> None:
    nbytes = kilobytes * KB
    assert model == max(136 + math.ceil(nbytes / 88.7), 14 + math.ceil(nbytes / 66.8))
    assert store_cycles(bare("Ascend910B1"), nbytes) == model
    assert off(model, silicon) < 0.07


@pytest.mark.parametrize(
    ("kilobytes", "load", "load_silicon", "store", "store_silicon"),
    [
        (1, 209, 217, 280, 278),
        (4, 219, 218, 294, 298),
        (8, 233, 219, 312, 319),
        (16, 270, 269, 348, 346),
        (32, 539, 538, 690, 691),
    ],
)
def test_the_950s_transfers_are_near_its_table(
    kilobytes: int, load: int, load_silicon: int, store: int, store_silicon: int
) -> None:
    soc = bare("Ascend950PR_9579")
    assert load_cycles(soc, kilobytes * KB, "cold") == load
    assert store_cycles(soc, kilobytes * KB) == store
    assert off(load, load_silicon) < 0.07
    assert off(store, store_silicon) < 0.03


def test_loads_of_one_core_are_one_after_another() -> None:
    timeline, _ = run(bare("Ascend910B3"), lambda core: [copy_in(core, 8 * KB, i * 8 * KB) for i in range(4)])
    found = [(s.start, s.end) for s in spans(timeline, Pipe.MTE2, "copy_in")]
    assert found == [(1 + i * 331, 1 + (i + 1) * 331) for i in range(4)]


def test_a_pair_of_cold_8_kb_loads_is_within_six_percent_of_silicon() -> None:
    timeline, _ = run(bare("Ascend910B1"), lambda core: [copy_in(core, 8 * KB, i * 8 * KB) for i in range(2)])
    (first, second) = spans(timeline, Pipe.MTE2, "copy_in")
    assert second.end - first.start == 662
    assert off(662, 701) < 0.06  # timing.md 3.1: 701 cycles per pair


def test_a_load_and_a_store_run_at_the_same_time_at_their_own_paces() -> None:
    def write(core: Core) -> None:
        copy_in(core, 8 * KB, 0)
        copy_out(core, 8 * KB, 8 * KB)

    timeline, _ = run(bare("Ascend910B3"), write)
    (load,), (store,) = spans(timeline, Pipe.MTE2, "copy_in"), spans(timeline, Pipe.MTE3, "copy_out")
    assert (load.start, load.end) == (1, 1 + 331)
    assert (store.start, store.end) == (2, 2 + 229)


def test_overlapping_streams_of_one_core_have_the_measured_rates() -> None:
    """vTriton on a 910B3, 64 KB chunks: load 48.4 B/cycle, store 67.5 B per busy cycle, MTE3 busy 71 %."""

    def write(core: Core) -> None:
        flags = core.event(Pipe.MTE2, Pipe.MTE3)
        for _ in range(8):
            copy_in(core, 64 * KB, 0)
            core.set_flag(flags)
            core.wait_flag(flags)
            copy_out(core, 64 * KB, 64 * KB)

    timeline, _ = run(bare("Ascend910B3"), write)
    loads, stores = spans(timeline, Pipe.MTE2, "copy_in"), spans(timeline, Pipe.MTE3, "copy_out")
    load, store = (sum(s.end - s.start for s in found) for found in (loads, stores))
    assert off(8 * 64 * KB / load, 48.4) < 0.05
    assert off(8 * 64 * KB / store, 67.5) < 0.03
    assert abs(store / (stores[-1].end - loads[0].end) - 0.71) < 0.03


@settings(SAME_EVERY_TIME)
@given(nbytes=st.integers(1, 49_152).map(lambda n: 4 * n), l2=st.sampled_from(("hot", "cold")))
def test_an_isolated_transfer_never_waits_for_others(nbytes: int, l2: str) -> None:
    def write(core: Core) -> None:
        copy_in(core, nbytes, 0)

    def write_out(core: Core) -> None:
        copy_out(core, nbytes, 0)

    for emit, pipe in ((write, Pipe.MTE2), (write_out, Pipe.MTE3)):
        timeline, _ = run(bare("Ascend910B3"), emit, l2=l2)
        assert timeline.cores[0].pipes[pipe].of(Reason.MEMORY) == 0


@pytest.mark.parametrize("nbytes", [33_400, 66_800])
def test_a_store_whose_time_is_a_whole_number_of_cycles_is_not_called_contended(nbytes: int) -> None:
    timeline, _ = run(bare("Ascend910B3"), lambda core: copy_out(core, nbytes))
    assert timeline.cores[0].pipes[Pipe.MTE3].of(Reason.MEMORY) == 0


def test_a_transfer_moves_what_is_issued_and_not_what_is_useful() -> None:
    def write(core: Core) -> None:
        core.copy_in(at(0, 1024), gm(10), issued=1024)
        core.copy_out(gm(10, name="out"), at(0, 1024), issued=1024)

    timeline, _ = run(bare("Ascend910B3"), write)
    (load,), (store,) = spans(timeline, Pipe.MTE2, "copy_in"), spans(timeline, Pipe.MTE3, "copy_out")
    assert (load.end - load.start, store.end - store.start) == (286, 183)  # those of 4 KB


def test_a_longer_transfer_never_takes_less() -> None:
    soc = bare("Ascend910B3")
    for l2 in ("hot", "cold"):
        cycles = [load_cycles(soc, nbytes, l2) for nbytes in range(32, 40_000, 1248)]
        assert cycles == sorted(cycles)


def test_a_run_that_starts_off_a_line_moves_more_of_the_shared_memory() -> None:
    """32 KB from HBM at 47 B/cycle: 3.2 lines less their aligned part, and only off the 512 B line."""
    soc = bare("Ascend910B3")

    def cycles(granule: int) -> int:
        return 20 + math.ceil((32 * KB + 3.2 * (512 - granule)) / 47)

    for offset_bytes, granule in ((0, 512), (512, 512), (256, 256), (32, 32), (96, 32), (4, 4)):
        assert load_cycles(soc, 32 * KB, "cold", offset_bytes // 4) == cycles(granule)


# ---- transfers that follow each other closely -----------------------------------------------------

PIPELINED = {"dma__load__l2__overlap_cycles": 150, "dma__store__l2__overlap_cycles": 90}


def two_loads(soc: Soc, address: int, offset: int = 0) -> list[tuple[int, int]]:
    def write(core: Core) -> None:
        copy_in(core, 8 * KB, 0, offset)
        copy_in(core, 8 * KB, address, offset)

    return [(s.start, s.end) for s in spans(run(soc, write, l2="hot")[0], Pipe.MTE2, "copy_in")]


def test_a_load_from_l2_begins_before_the_data_of_the_last_are_there() -> None:
    alone = 200 + math.ceil(8 * KB / 127)
    first, second = two_loads(bare("Ascend910B3", **PIPELINED), 8 * KB)
    assert first == (1, 1 + alone - 150)
    assert second[0] == first[1]
    assert two_loads(bare("Ascend910B3"), 8 * KB)[1][0] == 1 + alone


def test_a_run_off_a_block_of_32_bytes_lets_no_other_begin() -> None:
    soc = bare("Ascend910B3", **PIPELINED)
    aligned, odd = (two_loads(soc, 8 * KB, offset)[1][0] for offset in (8, 7))
    assert odd - aligned >= 150


def test_a_flag_after_a_load_is_raised_when_its_data_are_there_and_the_pipe_goes_on() -> None:
    def write(core: Core) -> None:
        event = core.event(Pipe.MTE2, Pipe.V)
        copy_in(core, 8 * KB, 0)
        core.set_flag(event)
        copy_in(core, 8 * KB, 8 * KB)
        core.wait_flag(event)
        core.muls(at(16 * KB, 64), at(0, 64), "s")

    soc = bare("Ascend910B3", **PIPELINED)
    timeline, _ = run(soc, write, l2="hot")
    alone = 200 + math.ceil(8 * KB / 127)
    (first, second), (flag,) = (spans(timeline, Pipe.MTE2, label) for label in ("copy_in", "set_flag"))
    assert flag.start == first.end == 1 + alone - 150
    assert second.start == flag.end
    (taken,) = spans(timeline, Pipe.V, "wait_flag")
    assert taken.start == first.start + alone + 1  # what raising it takes


def test_a_store_does_not_end_the_launch_before_its_data_are_written() -> None:
    soc = bare("Ascend910B3", **PIPELINED)
    timeline, _ = run(soc, lambda core: copy_out(core, 8 * KB), l2="hot")
    assert timeline.cycles == 1 + store_cycles(bare("Ascend910B3"), 8 * KB, "hot")
    (span,) = spans(timeline, Pipe.MTE3, "copy_out")
    assert span.end == timeline.cycles - 90


def test_tiles_that_begin_on_a_line_hide_the_latency_that_others_pay() -> None:
    """Silicon: 64 x 3 x 4 x 256 x 32 float16 in L2, 8.9 us (Mul, aligned tiles) on the Ascend910B4-1."""

    shape = (64, 3, 4, 256, 32)
    for engine in ("simpy", "fast"):
        found = emulator.predict(
            "mul", soc="Ascend910B4-1", shape=shape, dtype="float16", l2="hot", engine=engine
        )
        assert off(round(found.time_us * 1000), 8901) < 0.05
    slow = {"dma.load.l2.overlap_cycles": 0, "dma.store.l2.overlap_cycles": 0}
    serial = emulator.predict(
        "mul", soc="Ascend910B4-1", shape=shape, dtype="float16", l2="hot", overrides=slow
    )
    assert serial.time_us > 10.4

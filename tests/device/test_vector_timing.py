"""Vector instructions: heads, intervals and bank conflicts against what was measured on silicon."""

from __future__ import annotations

import itertools

import pytest
from handmade import F16, F32, SAME_EVERY_TIME, at, bare, launch_of, program, run, spans
from hypothesis import given, settings
from hypothesis import strategies as st

import socs
from emulator.device.bound import bounds
from emulator.device.costs import Costs
from emulator.device.device import Device, simulate
from emulator.device.memory import Residency
from kernel.core import Core, LocalTensor
from kernel.program import Region
from socs.isa import DType, Op, Pipe, RoundMode
from socs.spec import Soc

REPEATS = 64
COUNT = REPEATS * 64
BANK = 0x10000
SOC = bare("Ascend910B3")


def until_flag(*emit: tuple[str, tuple[object, ...]], soc: Soc = SOC) -> int:
    """Cycles from the start of the first vector instruction to the set_flag that follows the last."""

    def write(core: Core) -> None:
        for name, operands in emit:
            getattr(core, name)(*operands)
        core.set_flag(core.event(Pipe.V, Pipe.MTE3))

    timeline, _ = run(soc, write)
    (first, *_) = spans(timeline, Pipe.V, emit[0][0])
    (flag,) = spans(timeline, Pipe.V, "set_flag")
    return flag.start - first.start


def sub(dst: int, a: int, b: int) -> int:
    return until_flag(("sub", (at(dst, COUNT), at(a, COUNT), at(b, COUNT))))


def test_sources_in_different_bank_groups_take_one_cycle_per_repeat() -> None:
    assert sub(2 * BANK, 0, BANK + 0x100) == 86  # silicon: 86


def test_sources_in_one_bank_take_two_cycles_per_repeat() -> None:
    assert sub(2 * BANK, 0, 0x8000) == 150  # silicon: 150


def test_sources_in_one_group_collide_in_different_banks_too() -> None:
    assert sub(2 * BANK, 0, BANK) == 150  # silicon: 150


def test_a_destination_in_its_sources_bank_is_free_when_their_bases_align() -> None:
    assert sub(0x8000, 0, BANK + 0x100) == 86  # silicon: 86


def test_in_place_is_free() -> None:
    assert sub(0, 0, BANK + 0x100) == 86  # silicon: 86
    assert sub(BANK + 0x100, 0, BANK + 0x100) == 86


def test_a_destination_shifted_by_a_block_costs_a_full_conflict_where_silicon_had_135() -> None:
    assert sub(0x8020, 0, BANK + 0x100) == 150  # silicon: 135; the model knows one or two cycles, no 1.77


BASE = st.builds(lambda bank, block: bank * BANK + block * 32, st.integers(0, 2), st.integers(0, 1535))


def brute_force_cycles(dst: int, sources: list[int]) -> int:
    """Cycles of a repeat in the middle of a long instruction, by the address bits of timing.md 2.3."""

    def blocks(base: int, repeat: int) -> list[tuple[int, int]]:
        starts = range(base + repeat * 256, base + repeat * 256 + 256, 32)
        return [(address >> 16 & 3, address >> 5 & 15) for address in starts]

    worst = 1
    for repeat in (1, 2, 3, 4):
        reads = [block for source in sources for block in blocks(source, repeat)]
        groups = [group for _, group in reads]
        worst = max(worst, max(groups.count(group) for group in groups))
        if set(blocks(dst, repeat - 1)) & set(reads):
            worst = max(worst, 2)
    return worst


@settings(SAME_EVERY_TIME)
@given(dst=BASE, sources=st.lists(BASE, min_size=1, max_size=2))
def test_conflicts_are_those_of_the_documented_address_bits(dst: int, sources: list[int]) -> None:
    costs = Costs(SOC, Residency(0, 0, 0, 0))
    found = costs.bank_cycles(Region(dst, F32, COUNT), [Region(s, F32, COUNT) for s in sources])
    assert found == brute_force_cycles(dst, sources)


@pytest.mark.parametrize("name", ["Ascend310P3", "Ascend910A", "Ascend310B4"])
def test_no_conflict_is_invented_where_the_decoding_is_unknown(name: str) -> None:
    region = Region(0, F32, COUNT)
    assert Costs(socs.load(name), Residency(0, 0, 0, 0)).bank_cycles(region, [region, region]) == 1


@pytest.mark.parametrize(
    ("dst", "sources", "cycles"),
    [
        (0x20000, [0], 1),  # one read and one write of a group
        (0, [0], 1),  # in place
        (0x20000, [0, 0x10100], 2),  # sources in both banks; the write needs a cycle of its own
        (0x20000, [0, 0x10000], 2),  # sources in one bank: a read in each cycle, the write beside one
        (0x20000, [0x20, 0x40], 2),  # bases off a repeat: blocks wrap into the other bank
    ],
)
def test_the_950_gives_two_accesses_of_a_group_per_cycle_and_one_of_them_may_write(
    dst: int, sources: list[int], cycles: int
) -> None:
    costs = Costs(socs.load("Ascend950PR_9599"), Residency(0, 0, 0, 0))
    found = costs.bank_cycles(Region(dst, F32, COUNT), [Region(s, F32, COUNT) for s in sources])
    assert found == cycles


@pytest.mark.parametrize("repeats", [1, 2, 3, 4, 16, 64])
def test_dependent_instructions_pay_the_head_each(repeats: int) -> None:
    x = at(0, 64 * repeats)
    assert until_flag(*[("muls", (x, x, "k"))] * 5) == 5 * (23 + repeats)


@pytest.mark.parametrize(("repeats", "spacing"), [(1, 3), (2, 3), (3, 3), (4, 4), (16, 16), (64, 64)])
def test_independent_instructions_follow_each_other_without_a_head(repeats: int, spacing: int) -> None:
    def write(core: Core) -> None:
        for slot in range(5):
            core.muls(at(slot * 0x4000, 64 * repeats), at(BANK + slot * 0x4000 % BANK, 64 * repeats), "k")

    timeline, _ = run(SOC, write)
    starts = [span.start for span in spans(timeline, Pipe.V, "muls")]
    assert [b - a for a, b in itertools.pairwise(starts)] == [spacing] * 4


@pytest.mark.parametrize(("repeats", "spacing"), [(1, 3), (2, 4), (16, 32)])
def test_a_conflict_stretches_the_spacing_too(repeats: int, spacing: int) -> None:
    def write(core: Core) -> None:
        for slot in range(3):
            core.sub(at(2 * BANK + slot * 0x4000, 64 * repeats), at(0, 64 * repeats), at(BANK, 64 * repeats))

    starts = [span.start for span in spans(run(SOC, write)[0], Pipe.V, "sub")]
    assert [b - a for a, b in itertools.pairwise(starts)] == [spacing] * 2


def test_writing_what_a_running_instruction_writes_is_a_dependency() -> None:
    one, other = at(0, COUNT), at(BANK, COUNT)
    assert until_flag(("muls", (one, other, "k")), ("muls", (one, other, "k"))) == 2 * (23 + 64)


def test_vtritons_dependent_chains_come_out_to_the_cycle() -> None:
    """10,000 dependent calls on 256 halfs, x at 0 and y at 512: 26.0 (add), 27.0 (mul) cycles a call."""
    x, y = at(0, 256, F16), at(512, 256, F16)
    z = at(0x8000, 256, F16)
    for op, cycles in (("sub", 26), ("mul", 27)):
        assert until_flag(*[(op, (z, x, y))] * 10) == 10 * cycles


def test_the_flag_of_a_vector_result_is_raised_after_the_drain() -> None:
    def write(core: Core) -> None:
        done = core.event(Pipe.V, Pipe.MTE3)
        core.muls(at(0, COUNT), at(BANK, COUNT), "k")
        core.set_flag(done)
        core.wait_flag(done)

    timeline, _ = run(SOC, write)
    (start,) = (span.start for span in spans(timeline, Pipe.V, "muls"))
    waited = [span for span in spans(timeline, Pipe.MTE3) if span.detail == "V->MTE3#0"]
    assert [span.end for span in waited] == [start + 23 + 64 + 1]


@pytest.mark.parametrize(
    ("src", "dst", "elements", "repeats"),
    [
        (F16, F32, 256, 4),
        (F32, F16, 256, 4),
        (F16, F32, 257, 5),
        (F32, F16, 64, 1),
        (DType.BFLOAT16, F32, 65, 2),
    ],
)
def test_a_cast_takes_a_repeat_for_64_elements(src: DType, dst: DType, elements: int, repeats: int) -> None:
    emit = ("cast", (at(BANK, elements, dst), at(0, elements, src), RoundMode.NONE))
    assert until_flag(emit) == 20 + repeats


def test_a_float16_instruction_takes_a_repeat_for_128_elements() -> None:
    emit = ("sub", (at(2 * BANK, 256, F16), at(0, 256, F16), at(BANK + 0x100, 256, F16)))
    assert until_flag(emit) == 22 + 2


def test_what_the_hardware_runs_over_counts_and_not_what_is_useful() -> None:
    def cycles(issued: int) -> int:
        def write(core: Core) -> None:
            core.cast(at(BANK, 100, F16), at(0, 100), RoundMode.RINT, issued=issued)
            core.set_flag(core.event(Pipe.V, Pipe.MTE3))

        timeline, _ = run(SOC, write)
        return spans(timeline, Pipe.V, "set_flag")[0].start - spans(timeline, Pipe.V, "cast")[0].start

    assert cycles(0) == 20 + 2
    assert cycles(300) == 20 + 5


def test_the_950s_add_is_the_line_that_was_measured() -> None:
    """36 + 2 r at 1.65 GHz: 99.7 cycles at 32 repeats, 376 at 170."""
    soc = bare("Ascend950PR_9579")
    for repeats, cycles in ((32, 100), (170, 376)):
        count = repeats * 64
        emit = ("sub", (at(0x20000, count), at(0, count), at(0x10000, count)))
        assert until_flag(emit, soc=soc) == cycles


def without(soc: Soc, op: Op, key: str) -> Soc:
    costs = {name: dict(table) for name, table in soc.vector.costs.items()}
    del costs[op][key]
    return soc.model_copy(update={"vector": soc.vector.model_copy(update={"costs": costs})})


@pytest.mark.parametrize(
    ("op", "key", "operands"),
    [
        (Op.MUL, "float32", (at(0, 64), at(BANK, 64), at(2 * BANK, 64))),
        (Op.CAST, "float32_to_float16", (at(0, 64, F16), at(BANK, 64), RoundMode.RINT)),
    ],
)
def test_an_instruction_without_a_cost_is_named_and_no_total_is_given(
    op: Op, key: str, operands: tuple[LocalTensor, ...]
) -> None:
    soc = without(SOC, op, key)
    launch = launch_of(program(lambda core: getattr(core, op)(*operands)))
    for ask in (
        lambda: simulate(launch, soc, l2="cold"),
        lambda: bounds(launch, Device(launch, soc, l2="cold")),
    ):
        with pytest.raises(socs.UnknownCost) as error:
            ask()
        for part in ("Ascend910B3", f"{op} {key}", f"ascend910b.toml: vector.costs.{op}.{key}", "no total"):
            assert part in str(error.value)


def test_a_cost_that_is_not_needed_is_not_missed() -> None:
    soc = without(SOC, Op.MUL, "float16")
    launch = launch_of(program(lambda core: core.mul(at(0, 64), at(BANK, 64), at(2 * BANK, 64))))
    assert simulate(launch, soc, l2="cold")[0].cycles == simulate(launch, SOC, l2="cold")[0].cycles

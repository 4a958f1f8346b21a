"""Both engines on programs that no kernel would write: any order of instructions, flags, loops and chips.

Most flags of such programs are never raised, or raised too often. Then the engines must say so alike.
"""

from __future__ import annotations

from typing import Any

import pytest
from handmade import F16, GENERATIONS, SAME_EVERY_TIME, at, gm, totals
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import socs
from emulator.device.bound import bounds
from emulator.device.device import Device
from emulator.device.fast.run import NotForThisEngine
from emulator.device.fast.run import simulate as compiled
from kernel.core import Core
from kernel.program import Blocks, Flag, Instruction, Launch, Loop, Program, TensorArg
from socs.errors import AtlasError
from socs.isa import DType, Op, Pipe, RoundMode
from socs.spec import Soc

Step = tuple[str, int, tuple[Pipe, Pipe], int]
"""Kind, a number that chooses sizes and addresses, a pair of pipes and an event id."""

PAIRS = [(a, b) for a in Pipe for b in Pipe if a is not b]
WORK = ("load", "store", "mul", "cast", "value", "loop")

NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "scalar.issue_cycles": st.integers(0, 4),
    "scalar.loop_cycles": st.integers(0, 40),
    "scalar.set_flag_cycles": st.integers(0, 3),
    "scalar.wait_flag_cycles": st.integers(0, 3),
    "dma.queue_depth": st.integers(1, 6),
    "dma.load.hbm.latency_cycles": st.integers(0, 900),
    "dma.load.hbm.stream_latency_cycles": st.integers(0, 900),
    "dma.load.hbm.stream_bytes_per_cycle": st.floats(0.5, 300),
    "dma.store.l2.port_bytes_per_cycle": st.floats(0.5, 300),
    "memory.hbm_bytes_per_s": st.floats(1e9, 1e13),
    "memory.l2.bytes_per_s": st.floats(1e9, 1e13),
    "launch.task_s": st.sampled_from([0, 1e-6]),
    "launch.entry_s": st.sampled_from([0, 1e-7]),
}


@st.composite
def chips(draw: st.DrawFn) -> Soc:
    changed = sorted(draw(st.sets(st.sampled_from(sorted(NUMBERS)), max_size=6)))
    return socs.load(draw(st.sampled_from(GENERATIONS)), {key: draw(NUMBERS[key]) for key in changed})


def recorded(steps: list[Step]) -> list[Instruction | Loop]:
    core = Core(1 << 20)
    for kind, number, pair, event in steps:
        size = 32 * (1 + number % 40)
        here, there = 8192 * (number % 3), 8192 * (number // 3 % 3) + 32 * (number % 5)
        match kind:
            case "load":
                core.copy_in(at(here, size), gm(size, 32 * number))
            case "store":
                core.copy_out(gm(size, number, name="out"), at(here, size))
            case "mul":
                core.mul(at(here, size), at(there, size), at(here, size))
            case "cast":
                core.cast(at(there, size, F16), at(here, size), RoundMode.RINT)
            case "value":
                core.set_value(gm(1 + number % 3, name="out"), at(0, 4))
            case "loop":
                core._items.append(Instruction(Op.LOOP, Pipe.S))
            case _:
                if kind in ("set", "pair"):
                    core.set_flag(Flag(*pair, event))
                if kind in ("wait", "pair"):
                    core.wait_flag(Flag(*pair, event))
    return list(core.finish().items)


@st.composite
def launches(draw: st.DrawFn, flags: tuple[str, ...]) -> Launch:
    """One to three groups of blocks, each with stretches and loops of any instructions."""
    step = st.tuples(
        st.sampled_from((*WORK, *flags)), st.integers(0, 200), st.sampled_from(PAIRS), st.integers(0, 1)
    )
    groups, first = [], 0
    for _ in range(draw(st.integers(1, 3))):
        items: list[Instruction | Loop] = []
        for _ in range(draw(st.integers(1, 3))):
            part = recorded(draw(st.lists(step, min_size=1, max_size=9)))
            body = tuple(item for item in part if isinstance(item, Instruction))
            trips = draw(st.integers(1, 40))
            items += [Loop(body, trips, 1)] if trips > 2 else part
        count = draw(st.integers(1, 30))
        starts = range(first << 20, (first + count) << 20, 1 << 20)
        groups.append(Blocks(Program(tuple(items), (), 1 << 20), starts, first))
        first += count
    tensors = (TensorArg("x", DType.FLOAT32, 1 << 26), TensorArg("out", DType.FLOAT32, 1 << 26, written=True))
    return Launch("synthetic", tuple(groups), tensors)


def told(soc: Soc, launch: Launch, l2: str, engine: str, *, skip: bool) -> object:
    """What an engine says: cycles, sums and bounds, or why there are none."""
    try:
        if engine == "simpy":
            device = Device(launch, soc, l2=l2, skip=skip)
            timeline = device.run()
            return timeline.cycles, totals(timeline), timeline.rows(), bounds(launch, device)
        outcome, _ = compiled(launch, soc, l2=l2, skip=skip)
        timeline = outcome.timeline()
        assert outcome.rows() == timeline.rows()
        return outcome.cycles, totals(timeline), outcome.rows(), outcome.bounds
    except NotForThisEngine:
        return None
    except AtlasError as error:
        return str(error)


def agree(soc: Soc, launch: Launch, l2: str) -> object:
    expected = told(soc, launch, l2, "simpy", skip=False)
    assert told(soc, launch, l2, "simpy", skip=True) == expected
    for skip in (False, True):
        found = told(soc, launch, l2, "fast", skip=skip)
        assert found is None or found == expected
    return expected


MANY = settings(SAME_EVERY_TIME, suppress_health_check=list(HealthCheck))


@settings(MANY, max_examples=150)
@given(soc=chips(), launch=launches(("pair",)), l2=st.sampled_from(("hot", "cold", "dirty")))
def test_they_agree_on_programs_whose_flags_come_in_pairs(soc: Soc, launch: Launch, l2: str) -> None:
    found = agree(soc, launch, l2)
    if isinstance(found, tuple):
        cycles, _, rows, limits = found
        assert limits.lower <= cycles <= limits.serial
        for row in rows:
            assert row.busy_cycles + sum(row.waiting_cycles.values()) + row.done_cycles == cycles


@settings(MANY, max_examples=150)
@given(soc=chips(), launch=launches(("set", "wait", "pair", "pair")), l2=st.sampled_from(("hot", "cold")))
def test_they_agree_on_programs_that_may_go_wrong(soc: Soc, launch: Launch, l2: str) -> None:
    agree(soc, launch, l2)


def hand(*steps: Step, trips: int = 1) -> Launch:
    items = tuple(recorded(list(steps)))
    body = tuple(item for item in items if isinstance(item, Instruction))
    program = Program((Loop(body, trips, 1),) if trips > 1 else items, (), 1 << 20)
    tensors = (TensorArg("x", DType.FLOAT32, 1 << 20), TensorArg("out", DType.FLOAT32, 1 << 20, written=True))
    return Launch("hand", (Blocks(program, range(1), 0),), tensors)


TO_V, TO_MTE2 = (Pipe.MTE2, Pipe.V), (Pipe.V, Pipe.MTE2)
SOC = socs.load("Ascend910B3")


@pytest.mark.parametrize("trips", [1, 50])
@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((("wait", 0, TO_V, 0),), "pipe V waits for flag MTE2->V#0"),
        ((("load", 3, TO_V, 0), ("wait", 0, TO_MTE2, 1)), "pipe MTE2 waits for flag V->MTE2#1"),
        ((("set", 0, TO_V, 1), ("mul", 7, TO_V, 0), ("set", 0, TO_V, 1)), "MTE2->V#1 is raised twice"),
    ],
)
def test_what_goes_wrong_is_told_with_its_cycle_pipe_and_flag(
    steps: tuple[Step, ...], message: str, trips: int
) -> None:
    found = agree(SOC, hand(*steps, trips=trips), "cold")
    assert isinstance(found, str)
    assert message in found
    assert "cycle" in found


def test_a_flag_that_is_raised_in_the_cycle_in_which_it_was_taken_is_not_raised_twice() -> None:
    # Issue and flags cost nothing: all of it happens in one cycle, in whatever order it is worked off.
    soc = socs.load(
        "Ascend910B3",
        {f"scalar.{name}_cycles": 0 for name in ("issue", "loop", "set_flag", "wait_flag")},
    )
    steps: tuple[Step, ...] = (("pair", 0, TO_V, 0),)
    assert isinstance(agree(soc, hand(*steps, trips=30), "cold"), tuple)


def test_a_flag_of_one_copy_that_is_raised_for_every_trip_is_left_to_the_reference() -> None:
    # The copy's data come after MTE2 has worked off all three sets: three raises are known at once.
    x = Pipe.MTE2, Pipe.V
    launch = hand(("load", 0, x, 0), ("pair", 0, x, 0), ("pair", 0, x, 0), ("pair", 0, x, 0))
    soc = socs.load("Ascend910B4-1")
    assert "raised twice" in str(agree(soc, launch, "hot"))
    assert told(soc, launch, "hot", "fast", skip=True) is None


def test_a_pipe_ahead_of_the_scalar_unit_leaves_the_loop_whose_last_trips_are_skipped() -> None:
    """MTE3 has done its part of a trip while S still waits for room in MTE2's queue."""
    short, long, store = ("load", 0, TO_V, 0), ("load", 57, TO_V, 0), ("store", 0, TO_V, 0)

    def loop(trips: int, *steps: Step) -> Loop:
        return Loop(tuple(i for i in recorded(list(steps)) if isinstance(i, Instruction)), trips, 1)

    soc = socs.load(
        "Ascend910A",
        {
            "dma.queue_depth": 1,
            "memory.hbm_bytes_per_s": 187612838746.0,
            "dma.store.l2.port_bytes_per_cycle": 1.0,
            **{f"scalar.{name}_cycles": 0 for name in ("issue", "loop", "set_flag")},
        },
    )
    groups, first = [], 0
    for count, items in (
        (1, recorded([short])),
        (21, [*recorded([short, short]), loop(12, short, short, long)]),
        (3, [loop(8, short, short, short, store, short, short), *recorded([short, short])]),
    ):
        starts = range(first << 20, (first + count) << 20, 1 << 20)
        groups.append(Blocks(Program(tuple(items), (), 1 << 20), starts, first))
        first += count
    tensors = (TensorArg("x", DType.FLOAT32, 1 << 26), TensorArg("out", DType.FLOAT32, 1 << 26, written=True))
    assert isinstance(agree(soc, Launch("ahead", tuple(groups), tensors), "hot"), tuple)


def test_a_loop_that_takes_no_time_ends() -> None:
    soc = socs.load("Ascend910B3", {"scalar.loop_cycles": 0, "scalar.issue_cycles": 0})
    found = told(soc, hand(("loop", 0, TO_V, 0), trips=1 << 40), "cold", "fast", skip=True)
    assert isinstance(found, tuple)
    assert found == told(soc, hand(("loop", 0, TO_V, 0), trips=1 << 40), "cold", "simpy", skip=True)


def test_a_vector_pipe_whose_waits_repeat_every_other_trip_is_no_trouble() -> None:
    """Three instructions, each of which reads what the next one writes: two of three wait, turn by turn."""

    def rotating(core: Core) -> None:
        a, b, c = (at(8192 * place, 64) for place in range(3))
        for _ in range(1):
            core.muls(a, b, "k")
            core.muls(b, c, "k")
            core.muls(c, a, "k")

    core = Core(1 << 20)
    rotating(core)
    body = tuple(item for item in core.finish().items if isinstance(item, Instruction))
    for trips in (1, 2, 3, 7, 40, 41, 1001):
        program = Program((Loop(body, trips, 1),), (), 1 << 20)
        launch = Launch("rotating", (Blocks(program, range(1), 0),), hand().tensors)
        assert isinstance(agree(SOC, launch, "cold"), tuple)
        assert told(SOC, launch, "cold", "fast", skip=True) is not None


def test_numbers_too_large_for_64_bits_are_left_to_the_reference() -> None:
    soc = socs.load("Ascend910B3", {"memory.hbm_bytes_per_s": 1e25, "memory.l2.bytes_per_s": 1e25})
    launch = hand(("load", 3, TO_V, 0))
    assert told(soc, launch, "cold", "fast", skip=True) is None
    assert isinstance(told(soc, launch, "cold", "simpy", skip=True), tuple)

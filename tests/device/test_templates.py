"""A template gives for a launch the table that recording, verifying and looking it up gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handmade import GENERATIONS, SAME_EVERY_TIME
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

import emulator
import socs
from emulator.device.bound import moved_by
from emulator.device.conditions import Conditions
from emulator.device.engines import time_launch, time_plan
from emulator.device.fast.run import cells, flags_of
from emulator.device.fast.template import REPAID_BY, Templates
from emulator.device.lower import lower
from kernel.operators import OPERATORS, Request, find
from kernel.plan import Plan
from kernel.tiling import TilingOptions
from kernel.verify import verify
from socs.errors import AtlasError, UnknownCost
from socs.spec import Soc

STATES = ("hot", "cold", "dirty")


def decided(soc: Soc, operator: str, shape: tuple[int, ...], dtype: str = "float16", **more: Any) -> Plan:
    chosen = find(operator)
    names = chosen.arguments()
    shapes = {name: more.get("shapes", {}).get(name, shape) for name in names}
    rest = {key: value for key, value in more.items() if key != "shapes"}
    return chosen.decide(soc, Request(shapes, dict.fromkeys(names, dtype), **rest))


def check(templates: Templates, soc: Soc, plan: Plan, l2: str) -> bool:
    """That template and recording agree; whether there is a table."""
    assert plan.sketch is not None
    conditions = Conditions.of(plan.sketch, soc, l2)
    launch = plan.sketch.launch(soc)
    findings = verify(launch, soc)
    found = templates.sheet(plan.sketch, soc, conditions.residency, make=True)
    assert found is not None
    assert (found.table is None) == bool(findings)
    if found.table is None:
        return False
    expected = Conditions.of(launch, soc, l2)
    lowered = lower(launch, expected.costs)
    for given_, made in zip(
        cells(lowered), (found.table.rows, found.table.segments, found.table.groups), strict=True
    ):
        assert np.array_equal(np.array(given_, dtype=object), made)
    assert found.table.moved == moved_by(lowered)
    assert found.table.flags == flags_of(lowered)
    assert found.table.first_blocks == [blocks.first_block for blocks in launch.blocks]
    assert found.used | conditions.used == expected.used
    return True


def refusal(plan: Plan, soc: Soc, l2: str) -> AtlasError | None:
    """Why the launch cannot be recorded, or one that is in order not be looked up."""
    assert plan.sketch is not None
    try:
        launch = plan.sketch.launch(soc)
        if not verify(launch, soc):
            lower(launch, Conditions.of(launch, soc, l2).costs)
    except AtlasError as error:
        return error
    return None


@st.composite
def plans(draw: st.DrawFn) -> tuple[Soc, Plan, str]:
    soc = socs.load(draw(st.sampled_from(socs.names())))
    operator = OPERATORS[draw(st.sampled_from(sorted(OPERATORS)))]
    side = st.integers(1, 64) | st.integers(1, 5000)
    shape = draw(st.tuples(side, side) | st.tuples(st.integers(1, 1 << 34)))
    names = operator.arguments()
    shapes = dict.fromkeys(names, shape)
    if len(names) > 1 and draw(st.booleans()):
        one = draw(st.sampled_from(names))
        shapes[one] = draw(st.sampled_from([(), shape[-1:], (shape[0],) + (1,) * (len(shape) - 1)]))
    options = TilingOptions(
        draw(st.none() | st.integers(8, 9000)),
        draw(st.none() | st.integers(1, 4)),
        draw(st.none() | st.integers(1, soc.vector_cores)),
    )
    try:
        plan = operator.decide(
            soc,
            Request(
                shapes,
                dict.fromkeys(names, draw(st.sampled_from(("float32", "float16", "bfloat16")))),
                to=draw(st.sampled_from(("float32", "float16"))) if operator.casts else None,
                kernel=draw(st.none() | st.sampled_from(operator.kernels)),
                options=options,
                release=draw(st.sampled_from(("newer", "older"))),
            ),
        )
    except AtlasError:
        reject()  # a dtype that is not taken, shapes that the kernel does not broadcast
    assume(plan.sketch is not None)
    return soc, plan, draw(st.sampled_from(STATES))


SHARED = Templates()
"""One for all examples, so that templates meet launches that they were not made from."""


@settings(SAME_EVERY_TIME, max_examples=120, suppress_health_check=list(HealthCheck))
@given(case=plans())
def test_a_template_is_what_recording_gives(case: tuple[Soc, Plan, str]) -> None:
    soc, plan, l2 = case
    assert plan.sketch is not None
    refused = refusal(plan, soc, l2)
    if refused is None:
        check(SHARED, soc, plan, l2)
        return
    # In the same words: too many events, or an instruction without a cost.
    with pytest.raises(type(refused)) as error:
        SHARED.sheet(plan.sketch, soc, Conditions.of(plan.sketch, soc, l2).residency, make=True)
    assert str(error.value) == str(refused)


@pytest.mark.parametrize("l2", STATES)
@pytest.mark.parametrize("name", GENERATIONS)
def test_templates_serve_neighbouring_shapes_of_every_generation(name: str, l2: str) -> None:
    soc, templates = socs.load(name), Templates()
    for step in range(60):
        shape = (1024 + step * 7 % 61, 4096 - step * 13 % 97)
        assert check(templates, soc, decided(soc, "mse_loss_backward", shape), l2)
    assert templates.made <= 30


def test_distinct_shapes_around_4096_by_4096_need_a_handful_of_templates() -> None:
    soc, templates = socs.load("Ascend910B3"), Templates()
    for step in range(400):
        sketch = decided(soc, "mse_loss_backward", (4096 + step % 211, 4096 - step * 3 % 97)).sketch
        assert sketch is not None
        where = Conditions.of(sketch, soc, "cold").residency
        assert templates.sheet(sketch, soc, where, make=True) is not None
    assert templates.made <= 10


NUMBERS = (
    "memory.hbm_bytes_per_s",
    "dma.load.hbm.latency_cycles",
    "dma.load.l2.port_bytes_per_cycle",
    "dma.store.hbm.stream_bytes_per_cycle",
    "dma.misaligned_lines",
    "vector.costs.mul.float32.interval_cycles",
    "vector.costs.cast.float16_to_float32.head_cycles",
    "scalar.loop_cycles",
    "launch.entry_s",
)


@settings(SAME_EVERY_TIME, max_examples=60)
@given(data=st.data())
def test_a_template_serves_chips_with_other_numbers(data: st.DataObject) -> None:
    base = socs.load("Ascend910B3")
    changed: dict[str, object] = {}
    for key in data.draw(st.sets(st.sampled_from(NUMBERS), min_size=1)):
        held: Any = base
        for part in key.split("."):
            held = held[part] if isinstance(held, dict) else getattr(held, part)
        factor = data.draw(st.floats(0.2, 5))
        changed[key] = round(held * factor) if isinstance(held, int) else held * factor
    soc = socs.load("Ascend910B3", changed)
    for shape in ((4096, 4096), (4099, 4001)):
        assert check(SHARED, soc, decided(base, "mse_loss_backward", shape), "cold")


def test_the_same_template_serves_all_chips_that_do_the_same() -> None:
    templates = Templates()
    for name in ("Ascend910B1", "Ascend910B2", "Ascend910B3"):
        soc = socs.load(name)
        plan = decided(soc, "mse_loss_backward", (4096, 40 * 97))
        assert check(templates, soc, plan, "cold")
    assert templates.made <= 2


@pytest.mark.parametrize("elements", [1 << 24, (1 << 24) + 1])
def test_a_template_is_made_where_it_pays(elements: int) -> None:
    soc, templates = socs.load("Ascend910B3"), Templates()
    sketch = decided(soc, "mse_loss_backward", (elements,)).sketch
    assert sketch is not None
    where = Conditions.of(sketch, soc, "cold").residency
    found = [templates.sheet(sketch, soc, where) is not None for _ in range(4 * REPAID_BY)]
    first = found.index(True)
    assert REPAID_BY - 1 <= first <= 2 * REPAID_BY
    assert all(found[first:])
    assert templates.made == len(sketch.groups)


@pytest.mark.parametrize("l2", STATES)
def test_predictions_by_templates_are_those_of_the_reference(l2: str) -> None:
    for step in range(24):
        request: dict[str, Any] = {"shape": (2048 + step * 5, 2000 + step), "dtype": "float16", "l2": l2}
        fast = emulator.predict("mse_loss_backward", engine="fast", **request)
        assert fast == emulator.predict("mse_loss_backward", engine="simpy", **request)
    plan = decided(socs.load("Ascend910B3"), "mse_loss_backward", (2047, 2001))
    assert time_plan(plan, l2=l2, engine="fast").clean
    assert "launch" not in vars(plan)  # never recorded


def test_a_launch_that_is_not_in_order_is_refused_in_the_same_words_as_ever() -> None:
    for engine in ("simpy", "fast"):
        for _ in range(2 * REPAID_BY):
            with pytest.raises(
                AtlasError, match=r"^the tile needs 3,200,000 B of UB, Ascend910B3 has 196,608 B"
            ):
                emulator.predict(
                    "mse_loss_backward",
                    shape=(1 << 22,),
                    dtype="float16",
                    engine=engine,
                    tiling={"tile_length": 100_000},
                )


def test_a_missing_cost_is_told_in_the_same_words_as_ever() -> None:
    messages = set()
    for engine in ("simpy", "fast"):
        for step in range(2 * REPAID_BY):
            with pytest.raises(UnknownCost) as error:
                emulator.predict("div", shape=(4096, 4096 + step), dtype="int16", engine=engine)
            messages.add(str(error.value))
    assert len(messages) == 1


@pytest.mark.parametrize("without", ["bank_conflicts", "hbm", "overlap", "imbalance", "dma_latency"])
def test_mechanisms_are_switched_off_alike_with_and_without_templates(without: str) -> None:
    soc = socs.load("Ascend910B4-1")
    for step in range(2 * REPAID_BY):
        plan = decided(soc, "mse_loss_backward", (3000 + step, 1024))
        assert plan.launch is not None
        fast = time_plan(plan, l2="cold", engine="fast", without={without})
        slow = time_launch(plan.launch, soc, l2="cold", engine="simpy", without={without})
        assert (fast.counted.rows(), fast.bounds, fast.used) == (
            slow.counted.rows(),
            slow.bounds,
            slow.used,
        )

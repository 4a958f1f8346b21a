"""Simulated cycles lie between limits that are computed without simulating."""

from __future__ import annotations

import pytest
from handmade import (
    F16,
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
from emulator.device.bound import bounds
from emulator.device.device import simulate
from kernel.core import Core
from kernel.program import Launch
from socs.isa import DType, Pipe
from socs.spec import Soc


@settings(SAME_EVERY_TIME, max_examples=100)
@given(case=real_launches(most=1 << 60))
def test_cycles_lie_between_the_bounds(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    timeline, device = simulate(launch, soc, l2=l2)
    found = bounds(launch, device)
    assert found.lower <= timeline.cycles <= found.serial
    assert found.lower == max(found.limits.values()) == found.limits[found.limiter]


@settings(SAME_EVERY_TIME, max_examples=40)
@given(case=mixed_launches())
def test_cycles_of_several_groups_lie_between_the_bounds(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    timeline, device = simulate(launch, soc, l2=l2)
    found = bounds(launch, device)
    assert found.lower <= timeline.cycles <= found.serial


@pytest.mark.parametrize(("name", "dtype"), list(grid()))
def test_no_pipe_of_any_core_is_busy_for_less_than_its_limit(name: str, dtype: DType) -> None:
    for shape in ((1,), (64, 64), (1 << 20,), (1 << 26,)):
        launch = cut(name, dtype, shape)
        for l2 in ("hot", "cold"):
            timeline, device = simulate(launch, socs.load(name), l2=l2)
            found = bounds(launch, device)
            assert {"S", "V", "MTE2", "MTE3", "L2", "HBM"} == set(found.limits)
            assert all(limit <= timeline.cycles for limit in found.limits.values())


@pytest.mark.parametrize(
    ("name", "limiter"),
    [
        ("Ascend910B4-1", "HBM"),
        ("Ascend910B1", "HBM"),
        ("Ascend310P3", "MTE2"),
    ],  # 8 cores ask for 136 of 193 B
)
def test_a_large_cold_launch_comes_close_to_what_limits_it(name: str, limiter: str) -> None:
    launch = cut(name, F32, (1 << 30,))
    timeline, device = simulate(launch, socs.load(name), l2="cold")
    found = bounds(launch, device)
    assert found.limiter == limiter
    assert timeline.cycles < 1.15 * found.lower


def test_the_limits_of_one_hand_made_program_are_sums_on_paper() -> None:
    def write(core: Core) -> None:
        flag = core.event(Pipe.MTE2, Pipe.V)
        core.copy_in(at(0, 1024), gm(1024))  # 286
        core.set_flag(flag)  # 1
        core.wait_flag(flag)  # 1
        core.muls(at(0, 1024), at(0, 1024), "k")  # 16, to the result 39
        core.muls(at(0, 1024), at(0, 1024), "k")

    launch = launch_of(program(write))
    timeline, device = simulate(launch, bare("Ascend910B3"), l2="cold")
    found = bounds(launch, device)
    assert {pipe: found.limits[pipe] for pipe in Pipe} == {"S": 5, "MTE2": 287, "V": 1 + 39 + 16, "MTE3": 0}
    assert found.limits["HBM"] == 4  # 4096 B at 855.56 B/cycle, rounded down
    assert found.limits["L2"] == 1
    assert (found.lower, found.limiter) == (287, "MTE2")
    assert found.serial == 5 + 286 + 1 + 1 + 2 * 39
    assert timeline.cycles == 1 + 286 + 1 + 1 + 2 * 39  # all of it in a row but four issues


def test_float16_of_the_real_kernel_has_more_vector_work_than_float32() -> None:
    found = {}
    for dtype in (F32, F16):
        launch = cut("Ascend910B4-1", dtype, (1 << 26,))
        _, device = simulate(launch, socs.load("Ascend910B4-1"), l2="hot")
        found[dtype] = bounds(launch, device).limits["V"]
    assert found[F16] > 2 * found[F32]  # three casts, the last over three times the tile

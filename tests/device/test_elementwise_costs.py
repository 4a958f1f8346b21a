"""What the instructions of the elementwise kernels cost, from the chip's numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

import socs
from emulator.device.costs import Costs
from emulator.device.device import Device
from kernel.core import Core, LocalTensor
from kernel.operators import Request, find
from kernel.program import Blocks, Instruction, Launch
from socs.isa import DType, Op

A2 = socs.load("Ascend910B3")
F32, F16 = DType.FLOAT32, DType.FLOAT16


def costs_of(soc: Any = A2) -> Costs:
    """Costs as a launch meets them."""
    core = Core(8)
    core.reserve("x", 32)
    launch = Launch("none", (Blocks(core.finish(), range(0, 8, 8), 0),), ())
    return Device(launch, soc, l2="hot").costs


def recorded(emit: Any) -> Instruction:
    core = Core(8)
    emit(core)
    (instruction,) = core.finish().items
    assert isinstance(instruction, Instruction)
    return instruction


def at(address: int, count: int, dtype: DType = F32) -> LocalTensor:
    return LocalTensor(address, dtype, count)


@pytest.mark.parametrize("dtype", [F32, F16])
def test_a_fill_has_no_source_and_is_paid_by_what_it_writes(dtype: DType) -> None:
    costs = costs_of()
    time = costs.vector(recorded(lambda c: c.duplicate(at(0, 12800, dtype), "scalar")))
    number = A2.vector.costs["duplicate"][str(dtype)]
    repeats = 12800 * dtype.itemsize // 256
    assert time.issue_cycles == math.ceil(number.interval_cycles * repeats)
    assert time.retire_cycles == number.head_cycles + time.issue_cycles
    assert f"vector.costs.duplicate.{dtype}" in costs.used


def test_rows_of_a_broadcast_are_issued_one_after_another() -> None:
    whole = recorded(lambda c: c.broadcast(at(0, 64 * 77), at(0, 64 * 77)))
    by_rows = recorded(
        lambda c: c.broadcast(at(0, 64 * 77).every(64, 64, 77), at(0, 64 * 77).every(64, 64, 77))
    )
    costs = costs_of()
    assert costs.vector(whole).issue_cycles == 77
    assert costs.vector(by_rows).issue_cycles == 77 * A2.vector.issue_gap_cycles
    long = recorded(
        lambda c: c.broadcast(at(0, 640 * 7).every(640, 640, 7), at(0, 640 * 7).every(640, 640, 7))
    )
    assert costs.vector(long).issue_cycles == 70


def test_a_scalar_read_is_paid_by_the_element_on_the_scalar_unit() -> None:
    costs = costs_of()
    instruction = recorded(lambda c: c.get_value(at(0, 77)))
    assert costs.scalar(instruction) == 77 * A2.scalar.get_value_cycles_per_element
    assert "scalar.get_value_cycles_per_element" in costs.used


def test_a_division_takes_four_cycles_per_repeat_and_a_conflict_cannot_hide_behind_it() -> None:
    costs = costs_of()
    apart = recorded(lambda c: c.div(at(0, 6400), at(65536, 6400), at(131072, 6400)))
    together = recorded(lambda c: c.div(at(0, 6400), at(65536, 6400), at(131072 + 256, 6400)))
    assert costs.vector(apart).issue_cycles == costs.vector(together).issue_cycles == 400
    add = recorded(lambda c: c.add(at(0, 6400), at(65536, 6400), at(131072, 6400)))
    beside = recorded(lambda c: c.add(at(0, 6400), at(65536, 6400), at(131072 + 256, 6400)))
    assert costs.vector(add).issue_cycles == 2 * costs.vector(beside).issue_cycles == 200


@pytest.mark.parametrize("op", [Op.ADD, Op.DIV, Op.MAX, Op.MIN, Op.RELU, Op.DUPLICATE])
def test_every_chip_has_the_instructions_in_float32_and_float16_with_a_source(op: Op) -> None:
    for soc in socs.all_socs():
        for dtype in (F32, F16):
            assert soc.vector.costs[op][dtype].interval_cycles > 0
            assert soc.source(f"vector.costs.{op}.{dtype}").ref
    assert socs.load("Ascend910B3").source(f"vector.costs.{op}.float32").tier != "assumed"
    assert socs.load("Ascend310P3").source(f"vector.costs.{op}.float32").tier == "assumed"


def test_a_single_element_is_read_without_a_bank_conflict() -> None:
    def vector(shape: tuple[int, ...]) -> int:
        plan = find("mul").plan(
            A2, Request({"x": (40 * 6400,), "y": shape}, {"x": "float32", "y": "float32"})
        )
        assert plan.launch is not None
        (mul,) = [i for i, _ in plan.launch.blocks[0].program.walk() if i.op is Op.MUL]
        return Device(plan.launch, A2, l2="hot").costs.vector(mul).issue_cycles

    assert vector(()) == vector((1, 1)) == 100
    assert vector((40 * 6400,)) == 200

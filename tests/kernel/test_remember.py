"""What equal calls share, and that nothing else is shared."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
import socs
from kernel.mse_loss_backward import Reduction, plan
from kernel.remember import remembered
from socs.errors import AtlasError
from socs.isa import DType


def test_an_equal_call_is_planned_once() -> None:
    soc = socs.load("Ascend910B3")
    first, second = (
        plan(soc, shape=(64, 64), dtype=DType.FLOAT16, reduction=Reduction.MEAN) for _ in range(2)
    )
    assert first is second


def test_a_chip_of_the_same_name_with_another_number_is_planned_anew() -> None:
    chips = emulator.soc("Ascend910B3"), emulator.soc("Ascend910B3", {"vector_cores": 8})
    whole, narrow = (
        plan(soc, shape=(4096, 4096), dtype=DType.FLOAT16, reduction=Reduction.MEAN).tiling for soc in chips
    )
    assert whole is not None
    assert narrow is not None
    assert narrow.block_dim <= 8 < whole.block_dim


def test_the_reduction_of_an_equal_shape_is_not_shared() -> None:
    one = np.ones((2, 3), np.float32)
    results = [
        emulator.mse_loss_backward(one, 3 * one, one, reduction=reduction) for reduction in ("mean", "sum")
    ]
    np.testing.assert_array_equal(results[0], np.full((2, 3), np.float32(4) * np.float32(1 / 6)))
    np.testing.assert_array_equal(results[1], np.full((2, 3), np.float32(4)))


def test_the_oldest_result_goes_first_and_a_failure_is_not_kept() -> None:
    calls: list[object] = []

    @remembered(2)
    def double(value: object) -> object:
        calls.append(value)
        if value == 13:
            raise AtlasError("unlucky")
        return [value, value]

    for value in (1, 2, 1, 3, 1, 2):
        double(value)
    assert calls == [1, 2, 3, 2]
    for _ in range(2):
        with pytest.raises(AtlasError):
            double(13)
    assert calls[-2:] == [13, 13]


def test_equal_numbers_of_other_types_are_other_arguments() -> None:
    @remembered(8)
    def kind(value: object) -> str:
        return type(value).__name__

    assert [kind(v) for v in (1, True, 1.0, [1])] == ["int", "bool", "float", "list"]

"""The C libraries give the bits, workspaces, statuses and texts of :mod:`emulator.aclnn`."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernel.registry import KERNELS

Compared = Callable[[str, str], Any]

CHIPS = {
    "Ascend910B3": 900,
    "Ascend310P3": 900,
    "Ascend910A": 900,
    "Ascend310B1": 900,
    "Ascend950PR_9589": 450,
    "Ascend910_9391": 900,
}
"""Calls per chip; twice as many where streams may be created in saturation mode."""


@pytest.mark.slow
@pytest.mark.parametrize("soc", CHIPS)
def test_c_and_python_agree_on_every_call(compared: Compared, soc: str) -> None:
    found = compared("c_library.py", soc)
    assert found["differ"] == []
    assert found["made"] == CHIPS[soc]
    assert found["succeeded"] > found["made"] // 3


@pytest.mark.parametrize(
    "kernel", ["mse_loss_grad_v2", "mse_loss_grad", "mse_loss_grad_v2_950", "mse_loss_grad_950"]
)
def test_the_factor_of_the_mean_is_pythons_also_beyond_exact_counts(root: Path, kernel: str) -> None:
    library = ctypes.CDLL(str(root / "lib64/libopapi_nn.so"))
    rule = getattr(library, f"atlas_mean_{kernel}")
    rule.argtypes = [ctypes.POINTER(ctypes.c_float), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    rule.argtypes += [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    chance = random.Random(5)
    shapes: list[tuple[int, ...]] = [(), (1,), (16777217,), (4097, 4099), (109, 112, 187)]
    while len(shapes) < 3000:
        shape = tuple(chance.randrange(1, 1 << chance.randrange(1, 24)) for _ in range(chance.randrange(9)))
        if math.prod(shape) < 1 << 60:
            shapes.append(shape)
    for shape in shapes:
        dims = np.array(shape, np.int64)
        found, error = ctypes.c_float(), ctypes.c_void_p()
        status = rule(
            ctypes.byref(found), ctypes.byref(error), None, None, dims.size, 8, dims.ctypes.data, dims.size, 8
        )
        assert status == 0
        assert np.float32(found.value) == KERNELS[kernel].mean(shape), shape

"""Unmodified ``torch_npu`` on the emulated NPU; ``ATLAS_EMU_TEST_TORCH`` names a Python that has it."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from c_operators import Oracle, Scalar
from numpy.typing import NDArray

import emulator

SCRIPT = """
import sys
import numpy as np
import torch, torch_npu
import torch.nn.functional as F

torch.manual_seed(0)
found = {}
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    for reduction in ("none", "mean", "sum"):
        x, y = torch.randn(2, 41, 30).to(dtype)
        a = x.npu().requires_grad_()
        loss = F.mse_loss(a, y.npu(), reduction=reduction)
        loss.backward(torch.ones_like(loss))
        name = f"{str(dtype)[6:]} {reduction}"
        for key, value in (("x", x), ("y", y), ("grad", a.grad.cpu())):
            found[f"{name} {key}"] = value.float().numpy()

for dtype in (torch.float32, torch.float16, torch.bfloat16):
    x, y = torch.randn(41, 300).to(dtype), torch.randn(300).to(dtype)
    a, b = x.npu(), y.npu()
    copied = torch.empty(300, 41, dtype=dtype, device="npu").t()
    copied.copy_(a)
    made = {
        "times a number": a * 0.3,
        "times": a.t()[::2] * a.t()[1::2],
        "plus": a + b,
        "minus": a - b,
        "shifted": a + 0.3,
        "in place": a.clone().mul_(b).add_(1).sub_(b),
        "sum": a.sum(),
        "sum of rows": a.sum(1),
        "sum of columns": a.sum(0, keepdim=True),
        "copied": copied,
        "contiguous": a.t().contiguous(),
        "float32": a.to(torch.float32),
        "float16": a.to(torch.float16),
        "bfloat16": a.to(torch.bfloat16),
        "ones": torch.ones_like(a),
    }
    given = {"x": x, "y": y, **{key: value.cpu() for key, value in made.items()}}
    for key, value in given.items():
        found[f"{str(dtype)[6:]} made {key}"] = value.float().numpy()
np.savez(sys.argv[1], **found)

layer = torch.nn.Linear(5, 1)
optimiser = torch.optim.SGD(layer.parameters(), lr=0.1)
x = torch.randn(64, 5)
y = x @ torch.tensor([[1.0], [2.0], [3.0], [-1.0], [0.5]]) + 0.3
losses = []
for _ in range(100):
    optimiser.zero_grad()
    loss = F.mse_loss(layer(x).npu(), y.npu())
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(losses[-1] < 1e-4 * losses[0])

x, y = x.npu(), y[:, 0].npu()
weight = torch.nn.Parameter(torch.zeros(5, device="npu"))
bias = torch.nn.Parameter(torch.zeros((), device="npu"))
optimiser = torch.optim.SGD([weight, bias], lr=0.1, foreach=False)
losses = []
for _ in range(100):
    optimiser.zero_grad()
    loss = F.mse_loss((x * weight).sum(1) + bias, y)
    loss.backward()
    optimiser.step()
    losses.append(loss.item())
print(losses[-1] < 1e-4 * losses[0])
nothing = torch.empty(0, 4, device="npu")
empty = {name: F.mse_loss(nothing, nothing, reduction=name).cpu() for name in ("none", "mean", "sum")}
print(empty["none"].shape == (0, 4) and bool(empty["mean"].isnan()) and empty["sum"].item() == 0)
try:
    torch.zeros(3, 3, device="npu") / 2
    torch.npu.synchronize()
    print("silent")
except RuntimeError as error:
    print("is not emulated" in str(error))
"""
LACKING = """
import torch, torch_npu

a = torch.ones(3, 5).npu()
calls = {
    "IsFinite": lambda: str(a),
    "Equal": lambda: a == a,
    "TensorEqual": lambda: torch.equal(a, a),
    "ReduceMean": lambda: a.mean(),
    "Neg": lambda: -a,
    "Square": lambda: a**2,
    "RealDiv": lambda: a / 2,
    "StatelessRandomNormalV2": lambda: torch.randn(3, device="npu"),
    "StatelessRandomUniformV2": lambda: torch.rand(3, device="npu"),
    "MatMul": lambda: torch.nn.Linear(5, 1).npu()(a),
}
for name, call in calls.items():
    try:
        call()
        print(name, "silent")
    except RuntimeError as error:
        print(name, f" {name}," in str(error))
"""
Array = NDArray[Any]

DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _check_operators(found: dict[str, Array], dtype: np.dtype[Any], oracle: Oracle) -> None:
    x, y = (found.pop(key).astype(dtype) for key in ("x", "y"))
    wanted = {
        "times a number": oracle.scaled(x, Scalar(0.3)),
        "times": oracle.pair("mul", x.T[::2], x.T[1::2]),
        "plus": oracle.pair("add", x, y),
        "minus": oracle.pair("sub", x, y),
        "shifted": oracle.shifted("add", x, Scalar(0.3), 1),
        "sum": oracle.sum(x, (), dtype),
        "sum of rows": oracle.sum(x, (1,), dtype),
        "sum of columns": oracle.sum(x, (0,), dtype)[None],
        "copied": x,
        "contiguous": x.T,
        "ones": np.ones_like(x),
    }
    products = oracle.pair("mul", x, y)
    wanted["in place"] = oracle.pair("sub", oracle.shifted("add", products, Scalar(1), 1), y)
    wanted |= {name: oracle.cast(x, np.dtype(kind)) for name, kind in DTYPES.items()}
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        assert np.array_equal(value.astype(np.float32), found[name]), (name, dtype)


def _python_or_skip() -> str:
    python = os.environ.get("ATLAS_EMU_TEST_TORCH")
    if python is None:
        if importlib.util.find_spec("torch_npu") is None:
            pytest.skip("no torch_npu here, and ATLAS_EMU_TEST_TORCH names no Python that has it")
        python = sys.executable
    return python


@pytest.mark.slow
def test_everyday_calls_that_are_not_emulated_raise_the_operator_that_the_page_names(root: Path) -> None:
    line = [sys.executable, "-m", "emulator.cli", "exec", "--root", str(root), "--quiet", "--"]
    done = subprocess.run(
        [*line, _python_or_skip(), "-c", LACKING],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "TASK_QUEUE_ENABLE": "0"},
    )
    assert done.returncode == 0, done.stderr
    page = (Path(__file__).parents[2] / "docs" / "cann.md").read_text()
    told = [text.split() for text in done.stdout.splitlines()]
    assert len(told) == 10
    for name, raised in told:
        assert raised == "True", name
        assert re.search(rf"\b{name}\b", page), name


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend910B2", "Ascend910B3"])
def test_torch_npu_trains_with_the_bits_of_the_emulator(root: Path, tmp_path: Path, soc: str) -> None:
    python = _python_or_skip()
    path = tmp_path / "found.npz"
    line = [sys.executable, "-m", "emulator.cli", "exec", "--soc", soc, "--root", str(root), "--quiet", "--"]
    done = subprocess.run(
        [*line, python, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True", "True", "True"]
    with np.load(path) as found:
        for dtype in DTYPES:
            made = {
                key.split(" made ")[1]: value
                for key, value in found.items()
                if key.startswith(f"{dtype} made")
            }
            _check_operators(made, np.dtype(DTYPES[dtype]), Oracle(soc, "inf_nan"))
        for name in {key.rsplit(" ", 1)[0] for key in found if " made " not in key}:
            dtype, reduction = name.split()
            x, y, grad = (found[f"{name} {key}"] for key in ("x", "y", "grad"))
            x, y = x.astype(DTYPES[dtype]), y.astype(DTYPES[dtype])
            ones = np.ones(x.shape if reduction == "none" else (), x.dtype)
            wanted = emulator.mse_loss_backward(ones, x, y, reduction=reduction, soc=soc)
            assert np.array_equal(wanted.view(np.uint8), grad.astype(DTYPES[dtype]).view(np.uint8)), name

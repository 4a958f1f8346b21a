"""Unmodified ``torch_npu`` on the emulated NPU; ``ATLAS_EMU_TEST_TORCH`` names a Python that has it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

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
try:
    torch.zeros(3, 3, device="npu") + 1
    torch.npu.synchronize()
    print("silent")
except RuntimeError as error:
    print("is not emulated" in str(error))
"""
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend910B2", "Ascend910B3"])
def test_torch_npu_trains_with_the_bits_of_the_emulator(root: Path, tmp_path: Path, soc: str) -> None:
    python = os.environ.get("ATLAS_EMU_TEST_TORCH")
    if python is None:
        if importlib.util.find_spec("torch_npu") is None:
            pytest.skip("no torch_npu here, and ATLAS_EMU_TEST_TORCH names no Python that has it")
        python = sys.executable
    path = tmp_path / "found.npz"
    line = [sys.executable, "-m", "emulator.cli", "exec", "--soc", soc, "--root", str(root), "--quiet", "--"]
    done = subprocess.run(
        [*line, python, "-c", SCRIPT, str(path)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True"]
    with np.load(path) as found:
        for name in {key.rsplit(" ", 1)[0] for key in found}:
            dtype, reduction = name.split()
            x, y, grad = (found[f"{name} {key}"] for key in ("x", "y", "grad"))
            x, y = x.astype(DTYPES[dtype]), y.astype(DTYPES[dtype])
            ones = np.ones(x.shape if reduction == "none" else (), x.dtype)
            wanted = emulator.mse_loss_backward(ones, x, y, reduction=reduction, soc=soc)
            assert np.array_equal(wanted.view(np.uint8), grad.astype(DTYPES[dtype]).view(np.uint8)), name

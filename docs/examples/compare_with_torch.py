"""The same backward call by the emulated chip and by torch on the CPU: how many results differ, and why.

Needs torch; the emulator does not. Usage: python compare_with_torch.py
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import torch

import emulator

DTYPES = {
    "float32": (np.dtype(np.float32), np.int32),
    "float16": (np.dtype(np.float16), np.int16),
    "bfloat16": (np.dtype(ml_dtypes.bfloat16), np.int16),
}


def by_torch(dtype: str, tensors: list[np.ndarray]) -> np.ndarray:
    """``mse_loss_backward`` of torch on the CPU; its reduction 1 is mean."""
    kind, bits = DTYPES[dtype]
    g, x, y = (torch.from_numpy(t.view(bits)).view(getattr(torch, dtype)) for t in tensors)
    found: Any = torch.ops.aten.mse_loss_backward(g, x, y, 1)
    return found.view(getattr(torch, np.dtype(bits).name)).numpy().view(kind)


def places(array: np.ndarray) -> np.ndarray:
    """The place of each number in its format, so that neighbours differ by 1 (both zeros are 0)."""
    bits = array.view(DTYPES[array.dtype.name][1]).astype(np.int64)
    return np.where(bits < 0, -(bits & (2 ** (8 * array.itemsize - 1) - 1)), bits)


def compare(dtype: str, shape: tuple[int, ...], scale: float) -> None:
    random = np.random.default_rng(2024)
    kind = DTYPES[dtype][0]
    tensors = [(random.standard_normal(shape, np.float32) * s).astype(kind) for s in (scale, 1, 1)]
    chip, cpu = emulator.mse_loss_backward(*tensors, reduction="mean"), by_torch(dtype, tensors)
    apart = np.abs(places(chip) - places(cpu))
    count = np.count_nonzero
    print(f"{dtype} {list(shape)}, grad_output normal, times {scale:g}:")
    print(f"  2/N in {dtype}: {float(np.array(2 / chip.size, kind)):g}, exactly {2 / chip.size:g}")
    print(f"  differ: {count(apart):,} of {apart.size:,} ({count(apart) / apart.size:.2%})")
    print(f"  places apart: 1: {count(apart == 1):,}, 2: {count(apart == 2):,}, ", end="")
    print(f"more: {count(apart > 2):,}, at most {apart.max():,}")
    print(f"  zeros: chip {count(chip == 0):,}, torch {count(cpu == 0):,}")
    some = None if chip.size <= 10_000 else [int(apart.argmax())]
    errors = emulator.rounding_error(*tensors, reduction="mean", index=some)
    if some is None:
        wrong = [
            abs((Fraction(float(cpu[e.index])) - e.exact) / e.ulp)
            for e in errors.elements
            if e.exact is not None and e.ulp is not None
        ]
        print(f"  error against the exact result in ULP: chip at most {errors.max_ulp:.3f}, ", end="")
        print(f"mean {errors.mean_ulp:.3f}; ", end="")
        print(f"torch at most {float(max(wrong)):.3f}, mean {float(sum(wrong) / len(wrong)):.3f}")
    if apart.any():
        worst = tuple(map(int, np.unravel_index(apart.argmax(), shape)))
        print(f"  torch has {float(cpu[worst]):.9g} at {worst}, where the chip:\n")
        print(next(e for e in errors.elements if e.index == worst))
    print()


if __name__ == "__main__":
    print(f"torch {torch.__version__}, numpy {np.__version__}, chip {emulator.soc('Ascend910B3').name}\n")
    compare("float32", (60, 70), 1)
    compare("float32", (4099, 4111), 1)
    compare("float16", (60, 70), 1024)
    compare("bfloat16", (60, 70), 1)
    compare("float16", (8192, 8192), 8192)

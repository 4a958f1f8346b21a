"""Bytes per second of compiled kernels beside a triad loop, measured in the same run.

``python tests/bench/bench_kernel.py`` prints the table. Only ratios mean anything: machines differ, and
differ from minute to minute. Bytes are those of the distinct elements that are read and written.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from triad import interleaved_seconds, triad_pass

import socs
from emulator.arrays import bfloat16
from emulator.backend import Call
from emulator.backends.emulated import Emulated
from kernel.compile import available_threads
from kernel.mse_loss_backward import Reduction, plan
from socs.isa import DType

ELEMENTS = 32 << 20
ROWS, COLUMNS = 8192, 4096

Arrays = dict[str, NDArray[np.generic]]


def filled(shape: tuple[int, ...], dtype: DType) -> NDArray[np.generic]:
    """Ordinary values: the upper half of a float32 is a bfloat16, and some float16."""
    values = np.random.default_rng(0).standard_normal(shape, np.float32)
    if dtype is DType.FLOAT32:
        return values
    kind = bfloat16() if dtype is DType.BFLOAT16 else np.dtype(np.float16)
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(kind)


def case(name: str) -> tuple[DType, Arrays]:
    """The arrays of a named case."""
    dtype = DType(name.split()[0])
    same = {tensor: filled((ROWS, COLUMNS), dtype) for tensor in ("grad_output", "self", "target")}
    if "scalar" in name:
        same["grad_output"] = filled((), dtype)
    if "row" in name:
        same["target"] = filled((COLUMNS,), dtype)
    if "column" in name:
        same["target"] = filled((ROWS, 1), dtype)
    if "transposed" in name:
        same["self"] = filled((COLUMNS, ROWS), dtype).T
    return dtype, same


CASES = (
    *("float32", "float16", "bfloat16"),
    *("float32 scalar grad_output", "float16 scalar grad_output", "bfloat16 scalar grad_output"),
    *("float32 row target", "float16 row target", "float32 column target", "float16 column target"),
    *("float32 transposed self", "float16 transposed self"),
)


def kernel_pass(name: str) -> tuple[Callable[[ThreadPoolExecutor], None], int]:
    """One call of the compiled kernel, and the bytes it moves."""
    soc = socs.load("Ascend910B3")
    dtype, arrays = case(name)
    shapes = {tensor: array.shape for tensor, array in arrays.items()}
    made = plan(
        soc,
        shape=shapes["self"],
        dtype=dtype,
        reduction=Reduction.MEAN,
        grad_shape=shapes["grad_output"],
        target_shape=shapes["target"],
    )
    out = np.zeros(made.shape, arrays["self"].dtype)
    call = Call(made, shapes, arrays, out, "cold", "inf_nan", timed=False, bits="compiled")
    backend = Emulated()

    def run(_: ThreadPoolExecutor) -> None:
        backend.run(call)

    return run, out.nbytes + sum(array.nbytes for array in arrays.values())


def ratios(names: tuple[str, ...] = CASES, repeats: int = 7) -> dict[str, tuple[float, float]]:
    """Per case: (GB/s, ratio to the triad's bytes per second), medians of interleaved repeats."""
    threads = available_threads()
    found = {}
    for name in names:
        run, nbytes = kernel_pass(name)
        seconds = interleaved_seconds({"triad": triad_pass(threads, ELEMENTS), name: run}, threads, repeats)
        triad = 12 * ELEMENTS / median(seconds["triad"])
        rate = nbytes / median(seconds[name])
        found[name] = (rate / 1e9, rate / triad)
    return found


if __name__ == "__main__":
    print(
        f"{available_threads()} threads, {ROWS} x {COLUMNS} elements: GB/s, ratio to a triad in the same run"
    )
    for name, (rate, ratio) in ratios().items():
        print(f"{name:28} {rate:6.1f} GB/s  {ratio:5.2f}")

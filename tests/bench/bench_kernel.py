"""Bytes per second of the compiled kernel beside a triad loop, measured in the same run.

``python tests/bench/bench_kernel.py`` prints the table; under pytest-benchmark each row is a benchmark.
Only ratios mean anything: machines differ, and differ from minute to minute.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from triad import interleaved_seconds, triad_pass

import socs
from kernel.compile import available_threads, execute
from kernel.interpret import CARRIERS
from kernel.mse_loss_backward import Reduction, plan
from socs.isa import DType

ELEMENTS = 32 << 20
DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)


def kernel_pass(dtype: DType, threads: int) -> Callable[[ThreadPoolExecutor], None]:
    """One call of the compiled kernel on 32 Mi elements."""
    soc = socs.load("Ascend910B3")
    launch = plan(soc, shape=(ELEMENTS,), dtype=dtype, reduction=Reduction.MEAN).launch
    assert launch is not None
    rng = np.random.default_rng(0)
    values = rng.standard_normal(ELEMENTS, np.float32)
    if dtype is not DType.FLOAT32:
        # The upper half of a float32 is a bfloat16, and some float16.
        values = (values.view(np.uint32) >> 16).astype(np.uint16)
    tensors = {name: values.copy() for name in ("grad_output", "self", "target")}
    tensors["out"] = np.zeros(ELEMENTS, CARRIERS[dtype])

    def run(_: ThreadPoolExecutor) -> None:
        execute(launch, soc, tensors, threads=threads)

    return run


def ratios(threads: int | None = None, repeats: int = 9) -> dict[str, tuple[float, float]]:
    """Per dtype: (GB/s, ratio to the triad's bytes per second), medians of interleaved repeats."""
    threads = threads or available_threads()
    passes = {"triad": triad_pass(threads, ELEMENTS)}
    passes |= {str(dtype): kernel_pass(dtype, threads) for dtype in DTYPES}
    seconds = interleaved_seconds(passes, threads, repeats)
    triad = 12 * ELEMENTS / median(seconds["triad"])
    found = {"triad": (triad / 1e9, 1.0)}
    for dtype in DTYPES:
        rate = 4 * dtype.itemsize * ELEMENTS / median(seconds[str(dtype)])
        found[str(dtype)] = (rate / 1e9, rate / triad)
    return found


if __name__ == "__main__":
    print(f"{available_threads()} threads, {ELEMENTS >> 20} Mi elements")
    for name, (rate, ratio) in ratios().items():
        print(f"{name:9} {rate:6.1f} GB/s  {ratio:5.2f} of the triad")

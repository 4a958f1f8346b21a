"""The same call by this emulator, by NumPy and by torch on the CPU, timed in turns in one run.

``python tests/bench/bench_peers.py`` prints a table in Markdown, without torch where it is not installed.
Only ratios mean anything, see ``triad.py``. The emulator's time is that of ``emulator.mse_loss_backward``
with its checks, into an array that is there already; NumPy's expression and torch allocate their results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))

from triad import interleaved_seconds, triad, triad_pass

import emulator
from emulator.arrays import bfloat16
from kernel.compile import available_threads

SIZES = {"2^10": 1 << 10, "2^20": 1 << 20, "32 Mi": 32 << 20}
DTYPES = ("float32", "float16", "bfloat16")
TRIAD = "triad"
BATCH_SECONDS = 2e-3
"""Calls are repeated in a batch at least this long, so that the clock is not what is measured."""

SPLIT = 1 << 18
"""Elements below which threads cost the triad more than they save."""

Array = NDArray[Any]
Call = Callable[[], object]


def torch_or_none() -> Any:
    """torch where it is installed."""
    try:
        return import_module("torch")
    except ImportError:
        return None


def tensors(dtype: str, count: int, scalar: bool) -> tuple[Array, Array, Array]:
    """``grad_output``, ``self`` and ``target``: ordinary numbers."""
    random = np.random.default_rng(0)
    kind = bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
    g, x, y = (
        random.standard_normal(size, np.float32).astype(kind)
        for size in (() if scalar else count, count, count)
    )
    return np.asarray(g), x, y


def numpy_call(g: Array, x: Array, y: Array) -> Call:
    """The expression that a NumPy user would write for the chip's result: float32 inside."""
    factor = np.float32(2 / x.size)
    if x.dtype == np.float32:
        return lambda: (x - y) * factor * g
    wide = np.float32
    return lambda: ((x.astype(wide) - y.astype(wide)) * factor * g.astype(wide)).astype(x.dtype)


def torch_call(torch: Any, dtype: str, arrays: tuple[Array, Array, Array]) -> Call:
    """``mse_loss_backward`` of torch in the tensors' own dtype; its reduction 1 is mean."""
    bits = np.int32 if dtype == "float32" else np.int16
    g, x, y = (torch.from_numpy(array.view(bits)).view(getattr(torch, dtype)) for array in arrays)
    backward = torch.ops.aten.mse_loss_backward
    return lambda: backward(g, x, y, 1)


def triad_call(count: int) -> Call:
    """The triad over ``count`` elements in this thread, or in all where that is worth it."""
    if count < SPLIT:
        a, b, c = (np.full(count, value, np.float32) for value in (0.0, 1.0, 2.0))
        return lambda: triad(a, b, c, np.float32(3.0))
    threads = available_threads()
    run, pool = triad_pass(threads, count), ThreadPoolExecutor(threads)
    return lambda: run(pool)


def batched(call: Call, times: int) -> Callable[[ThreadPoolExecutor], None]:
    def run(_: ThreadPoolExecutor) -> None:
        for _ in range(times):
            call()

    return run


def measure(dtype: str, count: int, scalar: bool, repeats: int) -> dict[str, float]:
    """Median seconds of one call per peer, and of the triad over as many elements."""
    arrays = tensors(dtype, count, scalar)
    g, x, y = arrays
    out = np.empty_like(x)
    calls: dict[str, Call] = {
        "emulator": lambda: emulator.mse_loss_backward(g, x, y, reduction="mean", out=out),
        "NumPy": numpy_call(g, x, y),
    }
    torch = torch_or_none()
    if torch is not None:
        calls["torch"] = torch_call(torch, dtype, arrays)
    calls[TRIAD] = triad_call(count)
    threads = available_threads()
    first = interleaved_seconds({name: batched(call, 1) for name, call in calls.items()}, threads, 3)
    times = {name: max(1, round(BATCH_SECONDS / median(seconds))) for name, seconds in first.items()}
    passes = {name: batched(call, times[name]) for name, call in calls.items()}
    seconds = interleaved_seconds(passes, threads, repeats)
    return {name: median(seconds[name]) / times[name] for name in calls}


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    if seconds < 999.5e-6:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def table(repeats: int = 7) -> str:
    peers = ("emulator", "NumPy", *(("torch",) if torch_or_none() is not None else ()))
    head = ["dtype", "elements", "grad_output", TRIAD, *peers, *(f"{p} / {TRIAD}" for p in peers)]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|" + "---:|" * (len(head) - 3)]
    for dtype in DTYPES:
        for label, count in SIZES.items():
            for scalar in (False, True):
                found = measure(dtype, count, scalar, repeats)
                row = [dtype, label, "scalar" if scalar else "full", duration(found[TRIAD])]
                row += [duration(found[peer]) for peer in peers]
                row += [f"{found[peer] / found[TRIAD]:.2f}" for peer in peers]
                lines.append(f"| {' | '.join(row)} |")
                print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def main() -> None:
    torch = torch_or_none()
    names = ["numpy", "numba", *(["torch"] if torch is not None else [])]
    threads = f"{available_threads()} threads" + (f", torch {torch.get_num_threads()}" if torch else "")
    print(
        f"{date.today()}, {os.cpu_count()} cores ({threads}), load before {os.getloadavg()[0]:.1f}, ", end=""
    )
    print(f"Python {python_version()}, {', '.join(f'{name} {version(name)}' for name in names)}\n")
    print(table())
    print(f"\nload after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()

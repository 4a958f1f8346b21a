"""The machine's memory bandwidth as a yardstick, and timing of other loops beside it.

Seconds differ between machines and, on a shared one, between minutes: a loop is only ever
compared with the triad timed in the same run, repeat by repeat in turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Chunked = Callable[..., Any]
"""A compiled loop without the GIL; its arrays are cut into chunks, other arguments go to all."""


@numba.njit(nogil=True)
def triad(a: NDArray[np.float32], b: NDArray[np.float32], c: NDArray[np.float32], s: np.float32) -> None:
    """``a = b + s * c`` over 1-d float32 arrays of one length (STREAM's triad)."""
    for i in range(a.size):
        a[i] = b[i] + s * c[i]


def in_threads(loop: Chunked, threads: int, *arguments: Any) -> Callable[[ThreadPoolExecutor], None]:
    """One pass of ``loop`` over all arrays, each thread taking an equal chunk of every array."""
    size = next(a.size for a in arguments if isinstance(a, np.ndarray))
    edges = [size * k // threads for k in range(threads + 1)]
    chunks = [
        tuple(a[low:high] if isinstance(a, np.ndarray) else a for a in arguments)
        for low, high in pairwise(edges)
    ]

    def run(pool: ThreadPoolExecutor) -> None:
        for future in [pool.submit(loop, *chunk) for chunk in chunks]:
            future.result()

    return run


def interleaved_seconds(
    passes: Mapping[str, Callable[[ThreadPoolExecutor], None]], threads: int, repeats: int = 7
) -> dict[str, list[float]]:
    """Seconds of every repeat of every pass: one of each, in turns, after a warm-up.

    In turns, so that what disturbs the machine disturbs all of them.
    """
    seconds: dict[str, list[float]] = {name: [] for name in passes}
    with ThreadPoolExecutor(threads) as pool:
        for run in passes.values():
            run(pool)
        for _ in range(repeats):
            for name, run in passes.items():
                start = time.perf_counter()
                run(pool)
                seconds[name].append(time.perf_counter() - start)
    return seconds


def median_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> float:
    """Median over the repeats of the ratio of two passes timed next to each other."""
    return statistics.median(n / d for n, d in zip(numerator, denominator, strict=True))


def best_of(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least seconds of ``repeats`` calls, after one that is not counted."""
    call()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def triad_pass(threads: int, n: int = 32 * 2**20) -> Callable[[ThreadPoolExecutor], None]:
    """The triad over ``n`` elements, for :func:`interleaved_seconds`; it moves 12 bytes per element."""
    a, b, c = (np.full(n, value, np.float32) for value in (0.0, 1.0, 2.0))
    return in_threads(triad, threads, a, b, c, np.float32(3.0))


def triad_bytes_per_s(threads: int, n: int = 32 * 2**20, repeats: int = 7) -> float:
    """Bytes per second of the float32 triad: 12 bytes per element, median of ``repeats``."""
    seconds = interleaved_seconds({"triad": triad_pass(threads, n)}, threads, repeats)
    return 12 * n / statistics.median(seconds["triad"])

"""How fast the two engines are: ``python tests/bench/bench_engines.py`` prints medians of five.

SimPy: instructions per second (flags not counted) with every trip of every loop simulated, and as it is used,
with periods skipped. Compiled: predictions per second for requests that all differ, around 4096 x 4096
float16, planning and result included.
"""

from __future__ import annotations

import itertools
import resource
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import emulator
import socs
from emulator.device.device import simulate
from kernel.mse_loss_backward import Reduction, plan
from socs.isa import DType

SOC = "Ascend910B3"
REQUESTS = 400


def seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """Processor seconds, the median of ``repeats``: other load counts less than by the clock."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return median(found)


def main() -> None:
    """Print the figures."""
    soc = socs.load(SOC)
    for dtype in (DType.FLOAT32, DType.FLOAT16):
        made = plan(soc, shape=(1 << 28,), dtype=dtype, reduction=Reduction.MEAN).launch
        assert made is not None
        count = sum(1 for b in made.blocks for i, _ in b.program.walk() if i.flag is None)
        for skip, how in ((False, "every trip"), (True, "periods skipped")):
            rate = count / seconds(partial(simulate, made, soc, skip=skip))
            print(f"simpy, {how}, {dtype}: {count:,} instructions, {rate:,.0f} per second")

    rows = itertools.count(3000)

    def predictions() -> None:
        for _ in range(REQUESTS):
            emulator.predict(
                "mse_loss_backward", soc=SOC, shape=(next(rows), 4096), dtype="float16", engine="fast"
            )

    predictions()
    print(f"fast, distinct requests: {REQUESTS / seconds(predictions):,.0f} predictions per second")
    for power in (26, 30, 40):
        sizes = itertools.count(1 << power)
        emulator.predict("mse_loss_backward", soc=SOC, shape=(next(sizes),), dtype="float16", engine="fast")
        each = seconds(
            lambda sizes=sizes: emulator.predict(
                "mse_loss_backward", soc=SOC, shape=(next(sizes),), dtype="float16", engine="fast"
            )
        )
        print(f"fast, about 2^{power} elements: {each * 1e3:.2f} ms")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()

"""Seconds from nothing to an answer, each beside an empty interpreter timed in the same run.

``python tests/bench/bench_startup.py`` prints the table. Compiled kernels are cached: the first run warms.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

REPEATS = 7
COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "import numpy": ["-c", "import numpy"],
    "import emulator": ["-c", "import emulator"],
    "from emulator import run": ["-c", "from emulator import run"],
    "atlas-emu --help": ["-m", "emulator.cli", "--help"],
    "atlas-emu socs": ["-m", "emulator.cli", "socs"],
    "atlas-emu run": ["-m", "emulator.cli", "run"],
    "predict 2^26 float16": [
        *("-m", "emulator.cli", "predict", "--soc", "Ascend910B4-1", "--shape", "1024,65536"),
        *("--dtype", "float16", "--l2", "hot"),
    ],
    "predict 2^30 float16": [
        *("-m", "emulator.cli", "predict", "--soc", "Ascend910B4-1", "--shape", "16384,65536"),
        *("--dtype", "float16", "--l2", "hot"),
    ],
}


def main() -> None:
    """Medians over interleaved repeats, after one that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for repeat in range(REPEATS + 1):
        for name, arguments in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    empty = median(seconds["python -c pass"])
    for name, times in seconds.items():
        print(f"{name:26} {median(times):6.2f} s  {median(times) / empty:6.1f} x an empty interpreter")


if __name__ == "__main__":
    main()

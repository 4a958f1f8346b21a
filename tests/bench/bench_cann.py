"""A C client's start and calls. ``python tests/bench/bench_cann.py [ROOT]`` prints the figures.

Start: the median of 15 runs of a program that makes three small calls, beside ``true``. Calls: both phases
and the synchronisation. The 32 Mi elements are computed by the same loops from Python in the same run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from emulator import aclnn
from emulator.cann import toolchain
from emulator.cann.execute import default_root, environment
from socs import load

CLIENTS = Path(__file__).parents[1] / "cann/clients"
SOC = "Ascend910B3"
LARGE = 32 << 20


def main() -> None:
    """See the module."""
    chip = load(SOC)
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else default_root(chip, lambda text: None)
    variables = environment(root, chip)
    with tempfile.TemporaryDirectory() as folder:
        programs = {}
        for name in ("mean", "bench", "threads"):
            programs[name] = f"{folder}/{name}"
            line = [
                *toolchain.find(),
                "-O2",
                str(CLIENTS / f"{name}.c"),
                f"-I{root}/include",
                "-o",
                programs[name],
            ]
            subprocess.run(
                [*line, f"-L{root}/lib64", "-lopapi_nn", "-lascendcl", "-lnnopbase", "-pthread"], check=True
            )

        def run(*command: str) -> tuple[float, str]:
            start = time.perf_counter()
            done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
            return time.perf_counter() - start, done.stdout.strip()

        for what, command in (("true", ["true"]), ("start, three calls, end", [programs["mean"]])):
            print(f"{what:26} {median(run(*command)[0] for _ in range(15)) * 1e3:6.1f} ms")
        print(run(programs["bench"], "16", "20000")[1])
        print(run(programs["bench"], str(LARGE), "9")[1])
        print(f"from Python: best {_from_python():.2f} us")
        seconds, said = run(programs["threads"], "8", "10000")
        print(f"{said}, {seconds:.2f} s")


def _from_python() -> float:
    values = (np.arange(LARGE) % 1000).astype(np.float32)
    tensors = [aclnn.AclTensor.from_array(values.copy()) for _ in range(4)]
    times = []
    for _ in range(9):
        start = time.perf_counter()
        _, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(*tensors[:3], 1, tensors[3], soc=SOC)
        assert aclnn.aclnnMseLossBackward(0x1000, size, executor) == 0
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


if __name__ == "__main__":
    main()

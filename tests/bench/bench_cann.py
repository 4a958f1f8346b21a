"""A C client's start and calls. ``python tests/bench/bench_cann.py [ROOT]`` prints the figures.

Start: the median of 15 runs of a program that makes three small calls, beside ``true``. Calls: both phases
and the synchronisation. The 32 Mi elements are computed by the C library and by the same loops from Python in
turn, in one process, so that what else the machine does bears on both: the median of the ratios counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
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
        large = [sys.executable, __file__, "--in-turn", str(root)]
        print(run(*large)[1])
        seconds, said = run(programs["threads"], "8", "10000")
        print(f"{said}, {seconds:.2f} s")


def in_turn(root: Path) -> None:
    """Pairs of calls on 32 Mi float32 elements, from Python and through the C library."""
    sys.path.insert(0, str(CLIENTS.parent))
    from c_library import Library

    library = Library(root)
    values = (np.arange(LARGE) % 1000).astype(np.float32)
    tensors = [aclnn.AclTensor.from_array(values.copy()) for _ in range(4)]
    handles = [library.on_device(tensor) for tensor in tensors]

    def from_python() -> None:
        _, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(*tensors[:3], 1, tensors[3], soc=SOC)
        assert aclnn.aclnnMseLossBackward(0x1000, size, executor) == 0

    def from_c() -> None:
        assert library.run(handles, 1) == 0

    def milliseconds(call: Callable[[], None]) -> float:
        start = time.perf_counter()
        call()
        return (time.perf_counter() - start) * 1e3

    for call in (from_c, from_python) * 3:
        call()
    pairs = [(milliseconds(from_python), milliseconds(from_c)) for _ in range(31)]
    python, c = (median(pair[i] for pair in pairs) for i in range(2))
    ratio = median(one / other for one, other in pairs)
    print(f"{LARGE} elements: {c:.1f} ms, from Python {python:.1f} ms: {ratio:.2f} of its speed")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--in-turn"]:
        in_turn(Path(sys.argv[2]))
    else:
        main()

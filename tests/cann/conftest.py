"""One root for all tests here, and one whose functions fail on demand (ATLAS_EMU_TEST_ROOT and
ATLAS_EMU_TEST_FAULTY_ROOT name roots that were built before); skipped without a C compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from c_clients import CLIENTS, STRICT, compiler_or_skip

from emulator.cann import toolchain
from emulator.cann.root import lay_out
from socs import load

Built = Callable[..., Path]
Ran = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler_or_skip()
    if given := os.environ.get("ATLAS_EMU_TEST_ROOT"):
        return Path(given)
    return lay_out(tmp_path_factory.mktemp("cann") / "root", load("Ascend910B3"), flags=STRICT).path


@pytest.fixture(scope="session")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler_or_skip()
    if given := os.environ.get("ATLAS_EMU_TEST_FAULTY_ROOT"):
        return Path(given)
    folder = tmp_path_factory.mktemp("faults") / "root"
    return lay_out(folder, load("Ascend910B3"), flags=STRICT, with_faults=True).path


@pytest.fixture(scope="session")
def build(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Compile a client by one of the link lines in use; gives the program."""
    folder = tmp_path_factory.mktemp("clients")

    def compiled(
        name: str,
        libraries: tuple[str, ...] = ("-lopapi_nn", "-lopapi_math", "-lascendcl", "-lnnopbase"),
        flags: tuple[str, ...] = (),
    ) -> Path:
        source = CLIENTS / name
        command = [toolchain.find()[0], "-std=c11"]
        if source.suffix == ".cpp":
            found = shutil.which("g++") or shutil.which("clang++")
            if found is None:
                pytest.skip("no C++ compiler: neither g++ nor clang++")
            command = [found, "-std=c++11"]
        program = folder / f"{source.stem}_{len(list(folder.iterdir()))}"
        line = [*command, *STRICT, *flags, f"-I{root}/include", f"-I{root}/include/aclnn", str(source)]
        line += [
            "-o",
            str(program),
            f"-L{root}/lib64",
            *(part.format(root=root) for part in libraries),
            "-pthread",
        ]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return program

    return compiled


@pytest.fixture(scope="session")
def compared(root: Path) -> Callable[[str, str], Any]:
    """What a script of this folder finds on a chip, printed as JSON."""

    def found(script: str, soc: str) -> Any:
        done = subprocess.run(
            [sys.executable, str(Path(__file__).with_name(script)), str(root), soc],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ATLAS_EMU_SOC": soc},
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return found


@pytest.fixture(scope="session")
def run(root: Path) -> Ran:
    """Run a program as set_env.sh sets it up; ``variables`` on top of that."""

    def ran(program: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        script = 'source "$0/set_env.sh" && exec "$@"'
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ATLAS_EMU")}
        return subprocess.run(
            ["bash", "-c", script, str(root), str(program), *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**clean, **variables},
        )

    return ran

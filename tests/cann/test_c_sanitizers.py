"""The clients under the compiler's sanitizers, with the libraries built alike, and under valgrind."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from c_clients import CLIENTS, STRICT, compiler_or_skip

from emulator.cann.root import lay_out
from socs import load

# What a client is started with; {root} stands for the root.
PROGRAMS = {
    "mean.c": (),
    "mean.cpp": (),
    "loss.c": (),
    "operators.c": (),
    "contexts.c": (),
    "threads.c": ("8", "200"),
    "events.c": (),
    "elapsed.c": (),
    "dynamic.c": ("{root}/lib64",),
    "errors.c": (),
    "early.c": (),
    "early_free.c": (),
    "stale.c": (),
    "streams.c": (),
    "late.c": ("2",),
    "tangle.c": ("8", "50"),
    "memory.c": ("100",),
}

STATUS = {"elapsed.c": 3}
"""Of the clients that do not end with 0."""

LEAKS = "--errors-for-leak-kinds=definite,indirect,possible"


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_clients_and_libraries_are_clean_under(sanitizer: str, root: Path, tmp_path: Path) -> None:
    compiler = compiler_or_skip()
    flags = (f"-fsanitize={sanitizer}", "-fno-sanitize-recover=undefined", "-O1", "-g")
    (tmp_path / "none.c").write_text("int main(void) { return 0; }\n")
    probe = [compiler, *flags, str(tmp_path / "none.c"), "-o", str(tmp_path / "none")]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{compiler} has no -fsanitize={sanitizer}")
    built = lay_out(tmp_path / "root", load("Ascend910B3"), flags=(*STRICT, *flags)).path
    compilers = {".c": compiler, ".cpp": shutil.which("g++") or shutil.which("clang++")}
    for name, arguments in PROGRAMS.items():
        program = tmp_path / name.replace(".", "_")
        chosen = compilers[Path(name).suffix]
        if chosen is None:
            continue
        line = [chosen, *STRICT, *flags, f"-I{built}/include", str(CLIENTS / name), "-o", str(program)]
        line += [f"-L{built}/lib64", "-lopapi_nn", "-lascendcl", "-lnnopbase", f"-Wl,-rpath,{built}/lib64"]
        subprocess.run([*line, "-pthread"], check=True)
        for debug in ("", "1"):
            done = subprocess.run(
                [program, *(part.format(root=built) for part in arguments)],
                capture_output=True,
                text=True,
                check=False,
                env={**os.environ, "ATLAS_EMU_DEBUG": debug, "ATLAS_EMU_DEVICES": "2"},
            )
            told = [text for text in done.stderr.splitlines() if not text.startswith("atlas-emu: ")]
            assert (done.returncode, told) == (STATUS.get(name, 0), []), (name, debug)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_valgrind_finds_no_error_and_no_leak_in(name: str, build: Callable[..., Path], root: Path) -> None:
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        pytest.skip("no valgrind")
    # Without the symbols of the C library's loader it does not start.
    if subprocess.run([valgrind, "-q", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("valgrind does not start here; Debian's needs libc6-dbg")
    program = build(name)
    arguments = ("8", "20") if name == "threads.c" else PROGRAMS[name]
    arguments = tuple(part.format(root=root) for part in arguments)
    for debug in ("", "1"):
        done = subprocess.run(
            [valgrind, "-q", "--error-exitcode=99", "--leak-check=full", LEAKS, program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                "ATLAS_EMU_DEBUG": debug,
                "ATLAS_EMU_DEVICES": "2",
                "LD_LIBRARY_PATH": f"{root}/lib64",
            },
        )
        told = [line for line in done.stderr.splitlines() if not line.startswith("atlas-emu: ")]
        assert (done.returncode, told) == (STATUS.get(name, 0), []), debug

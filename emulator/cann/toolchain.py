"""The C compiler that builds the libraries: the user's own, or that of the package ``ziglang``."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence

from socs.errors import AtlasError

COMPILERS = ("gcc", "clang", "cc")
"""Looked for in this order where the environment's ``CC`` names none."""


def find(name: str | None = None) -> list[str]:
    """The command of the C compiler: ``name``, else ``CC``, else gcc, clang, cc, else zig's.

    Raises ``AtlasError`` where there is none.
    """
    wanted = name or os.environ.get("CC")
    if wanted:
        command = shlex.split(wanted)
        if not command or shutil.which(command[0]) is None:
            raise AtlasError(f"the C compiler {wanted!r} ({'--cc' if name else 'CC'}) was not found")
        return command
    for candidate in COMPILERS:
        if found := shutil.which(candidate):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    raise AtlasError(
        "no C compiler: install gcc or clang (Debian: apt-get install gcc), name one with --cc or CC, or "
        "pip install 'atlas-emulator[cann]', which brings zig's"
    )


def run(command: Sequence[str], what: str) -> None:
    """Run the compiler. Raises ``AtlasError`` with its first error."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        first = next((line for line in lines if "error" in line), lines[0] if lines else "no reason given")
        raise AtlasError(f"{command[0]} cannot build {what}: {first.strip()}")

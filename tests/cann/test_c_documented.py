"""The client and the commands at the head of docs/cann.md, as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def test_the_documented_commands_build_and_run_the_documented_client(root: Path, tmp_path: Path) -> None:
    block = re.search(r"^```\n(atlas-emu cann-root .*?)^```$", (DOCS / "cann.md").read_text(), re.M | re.S)
    assert block is not None
    # The root is laid out already, and so is the one that exec would take.
    laid, *commands = block[1].splitlines()
    folder, place = laid.split()[2], shlex.quote(str(root))
    emulator = f"{shlex.quote(sys.executable)} -m emulator.cli exec --root {place}"
    script = "\n".join(commands).replace(folder, place).replace("atlas-emu exec", emulator)
    compiler = commands[1].split()[0]
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    (tmp_path / "docs").symlink_to(DOCS)
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith("ATLAS_EMU")},
    )
    assert done.returncode == 0, done.stderr
    gradient = " ".join(f"{2 / 8 * (x - 1):g}" for x in range(8))
    assert done.stdout.splitlines() == [gradient] * sum("./client" in command for command in commands)
    assert "atlas-emu: 1 launch on Ascend910B2\n" in done.stderr
    assert (tmp_path / "op_summary.csv").exists()

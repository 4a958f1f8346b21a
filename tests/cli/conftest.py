"""The command in this process, files for it to read, and what a refusal looks like."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_inputs import Answer, Command, tensors

from emulator.cli import main


@pytest.fixture(autouse=True)
def _plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the terminal in which the tests run; 80 columns."""
    for name in (
        "NO_COLOR",
        "FORCE_COLOR",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
        "ATLAS_EMU_BACKEND",
        "LINES",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """``command("run", path)``: ``atlas-emu`` through its entry point."""

    def call(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["atlas-emu", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capfd.readouterr()
        return Answer(int(ended.value.code or 0), out, err)

    return call


@pytest.fixture(scope="session")
def program() -> str:
    """The installed command."""
    beside = Path(sys.executable).with_name("atlas-emu")
    found = str(beside) if beside.exists() else shutil.which("atlas-emu")
    assert found is not None, "atlas-emu is not installed"
    return found


@pytest.fixture
def process(program: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The command as a process of its own; ``environment`` is added, ``None`` takes away."""

    def call(
        *arguments: object, environment: dict[str, str | None] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        merged = {**os.environ, **(environment or {})}
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(
            [program, *map(str, arguments)],
            env={key: value for key, value in merged.items() if value is not None},
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
            **options,
        )

    return call


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file that runs."""
    path = tmp_path / "data.npz"
    np.savez(path, **tensors())
    return path

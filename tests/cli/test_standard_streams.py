"""The command among other programs: pipes that close, disks that fill, locales, signals, folders."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_inputs import Command, tensors

Process = Callable[..., subprocess.CompletedProcess[str]]

COMMANDS = [["socs"], ["soc", "Ascend910B3", "--json"], ["predict", "--shape", "4"]]


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_reader_that_has_gone_is_no_failure(process: Process, arguments: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = process(*arguments, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_while_the_command_writes_is_no_failure(program: str) -> None:
    running = subprocess.Popen(
        [program, "soc", "Ascend910B3", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A pipe of one page: the command has to wait for its reader.
        pipesize=4096,
    )
    assert running.stdout is not None
    assert running.stderr is not None
    assert running.stdout.readline() == b"{\n"
    running.stdout.close()
    assert running.stderr.read() == b""
    running.stderr.close()
    assert running.wait(60) == 0


@pytest.mark.parametrize("arguments", [*COMMANDS[1:], ["--help"]])
def test_a_full_standard_output_is_one_line_and_status_2(process: Process, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    assert done.stderr == "atlas-emu: error: standard output: No space left on device\n"
    assert done.returncode == 2


@pytest.mark.parametrize("arguments", [["predict", "--shape", "junk"], []])
def test_a_full_standard_error_still_leaves_status_2(process: Process, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = process(*arguments, stderr=full)
    assert (done.returncode, done.stdout) == (2, "")


def test_standard_streams_that_are_closed_end_in_no_traceback(program: str, tmp_path: Path) -> None:
    out = tmp_path / "trace.json"
    script = '"$0" predict --shape 4 --trace "$1" >&-'
    done = subprocess.run(["sh", "-c", script, program, out], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(out.read_text())["otherData"]["cycles"] > 0
    script = '"$0" predict --shape junk 2>&-'
    done = subprocess.run(["sh", "-c", script, program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_locale_without_the_letters_of_the_report_is_no_failure(process: Process, command: Command) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    done = process("predict", "--shape", "4", environment=ascii_only)
    assert (done.returncode, done.stderr) == (0, "")
    assert "cycles = " in done.stdout
    done = process("soc", "Ascend910B3", "--json", environment=ascii_only)
    assert json.loads(done.stdout) == json.loads(command("soc", "Ascend910B3", "--json").out)


def test_paths_that_are_no_text_are_read_and_written(process: Process, tmp_path: Path) -> None:
    source, goal = (os.fsencode(tmp_path) + b"/\xff" + name for name in (b"in.npz", b"out.npy"))
    np.savez(os.fsdecode(source), **tensors())
    strict = {"PYTHONIOENCODING": "utf-8:strict"}
    done = process("run", os.fsdecode(source), "--output", os.fsdecode(goal), environment=strict)
    assert (done.returncode, done.stderr) == (0, "")
    assert r"\udcffout.npy" in done.stdout
    assert np.load(os.fsdecode(goal)).shape == (4, 8)


@pytest.mark.parametrize("kind", ["file", "pipe"])
def test_standard_output_is_no_place_for_a_trace(process: Process, tmp_path: Path, kind: str) -> None:
    arguments = ("predict", "--shape", "4", "--json", "--trace", "/dev/stdout")
    if kind == "pipe":
        done = process(*arguments)
        written = done.stdout
    else:
        with (tmp_path / "out").open("w") as file:
            done = process(*arguments, stdout=file)
        written = (tmp_path / "out").read_text()
    assert (done.returncode, written) == (2, "")
    assert "/dev/stdout: is standard output" in done.stderr


def test_dev_null_takes_everything(process: Process) -> None:
    with open(os.devnull, "w") as null:
        done = process("predict", "--shape", "4", "--trace", os.devnull, stdout=null)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("signals_by_default")
def test_ctrl_c_ends_the_command_silently_with_130_and_no_file(program: str, tmp_path: Path) -> None:
    code = (
        "import sys, time, emulator.api as api\n"
        "def slow(*arguments, **options):\n"
        "    print('ready', file=sys.stderr, flush=True)\n"
        "    time.sleep(60)\n"
        "api.run = slow\n"
        "from emulator.cli import main\n"
        "main()\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, "run", "--output", tmp_path / "out.npy"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    while running.stderr.readline() != "ready\n":
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, "", "")
    assert list(tmp_path.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_no_failure(process: Process, data: Path) -> None:
    nowhere = {"HOME": "/proc", "XDG_CACHE_HOME": None, "ATLAS_EMU_CACHE": None}
    done = process("run", data, "--json", environment=nowhere)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["shapes"]["out"] == [4, 8]


def test_what_lies_in_the_working_directory_is_not_imported(process: Process, tmp_path: Path) -> None:
    for name in ("emulator", "kernel", "socs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('hijacked')\n")
    for name in ("numpy", "json", "typer"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('hijacked')\n")
    done = process("run", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["shapes"]["self"] == [442]


# ---- the progress bar ---------------------------------------------------------------------------

STEPS = (
    "import sys, time\n"
    "from emulator.report import progress\n"
    "progress.PATIENCE_S = float(sys.argv[1])\n"
    "with progress.Steps(2) as steps:\n"
    "    steps.step('computing')\n"
    "    time.sleep(float(sys.argv[2]))\n"
)


def on_terminal(*arguments: str) -> str:
    """What a program writes to a terminal that is its standard error."""
    controller, terminal = pty.openpty()
    running = subprocess.Popen([sys.executable, *arguments], stderr=terminal, stdout=subprocess.DEVNULL)
    os.close(terminal)
    written = b""
    while True:
        try:
            piece = os.read(controller, 1 << 16)
        except OSError:  # what Linux answers when the last writer is gone
            piece = b""
        if not piece:
            break
        written += piece
    os.close(controller)
    assert running.wait(60) == 0
    return written.decode()


def test_a_progress_bar_comes_on_a_terminal_once_patience_is_over() -> None:
    assert "computing" in on_terminal("-c", STEPS, "0.1", "0.6")


def test_no_progress_bar_comes_before_patience_is_over() -> None:
    assert on_terminal("-c", STEPS, "30", "0.3") == ""


def test_patience_is_one_second() -> None:
    from emulator.report.progress import PATIENCE_S

    assert PATIENCE_S == 1.0


@pytest.mark.parametrize("environment", [{}, {"FORCE_COLOR": "1"}, {"TTY_COMPATIBLE": "1"}])
def test_no_progress_bar_comes_where_there_is_no_terminal(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STEPS, "0.01", "0.3"],
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def test_json_on_a_pipe_stays_whole_beside_a_progress_bar(program: str, tmp_path: Path) -> None:
    code = (
        "import sys, time\n"
        "from emulator import api\n"
        "from emulator.report import progress\n"
        "progress.PATIENCE_S = 0.05\n"
        "predict = api.predict\n"
        "api.predict = lambda *a, **k: (time.sleep(0.5), predict(*a, **k))[1]\n"
        "sys.stdout = open(sys.argv.pop(1), 'w')\n"
        "from emulator.cli import main\n"
        "main()\n"
    )
    shown = on_terminal("-c", code, str(tmp_path / "out"), "predict", "--shape", "4", "--json")
    assert "timing" in shown
    assert json.loads((tmp_path / "out").read_text())["shapes"]["self"] == [4]


def test_a_second_run_finds_what_the_first_compiled(command: Command) -> None:
    cache = Path(os.environ["ATLAS_EMU_CACHE"])

    def files() -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in cache.rglob("*") if path.is_file())

    assert command("run").status == 0
    before = files()
    assert before
    assert command("run").status == 0
    assert files() == before

"""``atlas-emu exec``: the client's status and output, the launches, and the device time of each."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator import aclnn
from emulator.cann.execute import execute, op_summary, table
from socs import load

Built = Callable[..., Path]


def _exec(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "emulator.cli", "exec", "--root", str(root), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ})


@pytest.mark.parametrize("soc", ["Ascend910B2", "Ascend950PR_9589"])
def test_events_tell_the_predicted_time_of_the_whole_route(root: Path, build: Built, soc: str) -> None:
    dims = (512, 1024)
    tensors = [
        aclnn.AclTensor.empty((), "bfloat16"),
        aclnn.AclTensor.empty(dims, "bfloat16"),
        aclnn.AclTensor(None, dims, "bfloat16", (1, 512), storage_dims=dims),
        aclnn.AclTensor.empty(dims, "float32"),
    ]
    _, _, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(*tensors[:3], 1, tensors[3], soc=soc)
    assert executor is not None
    time = executor.predict()
    assert time is not None
    done = _exec(root, "--soc", soc, "--", str(build("elapsed.c")))
    assert done.returncode == 3, done.stderr
    ms = float(done.stdout)
    assert ms == pytest.approx(3 * time.time_us, rel=1e-6)
    assert f"predicted device time: {3 * time.time_us:.2f} us" in done.stderr
    assert time.steps[0].name == "Contiguous(target)"


def test_every_launch_is_a_line_of_the_log_and_its_kernels_rows_of_the_summary(
    root: Path, build: Built, tmp_path: Path
) -> None:
    log, soc = tmp_path / "log.jsonl", load("Ascend910B2")
    done = execute([str(build("elapsed.c"))], root, soc, log=log)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [line for line in told if "launch" in line]
    assert [line["launch"] for line in lines] == [0, 1, 2]
    assert lines[0]["operator"] == "aclnnMseLossBackward"
    assert lines[0]["steps"] == ["Contiguous(target)", "MseLossGrad", "Cast"]
    assert lines[0]["tensors"]["target"] == {
        "dtype": "bfloat16",
        "shape": [512, 1024],
        "strides": [1, 512],
        "offset": 0,
    }
    rows = list(csv.DictReader(io.StringIO(op_summary(done))))
    assert [row["OP Type"] for row in rows] == ["Contiguous", "MseLossGrad", "Cast"] * 3
    assert sum(float(row["Task Duration(us)"]) for row in rows) == pytest.approx(done.device_us, abs=0.01)
    starts = [float(row["Task Start Time(us)"]) for row in rows]
    assert starts == sorted(starts)
    assert "3 x" in table(done, soc)


@pytest.mark.usefixtures("signals_by_default")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(("trap", "status"), [("", None), ("trap 'exit 5' TERM HUP; ", 5)])
def test_a_signal_ends_the_client_first_and_leaves_nothing_behind(
    root: Path, tmp_path: Path, number: signal.Signals, trap: str, status: int | None
) -> None:
    client_line = ["--", "sh", "-c", trap + "echo $$; while :; do sleep 0.05; done"]
    line = [sys.executable, "-m", "emulator.cli", "exec", "--root", str(root), "--quiet"]
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([*line, *client_line], stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout is not None
        client = int(process.stdout.readline())
        assert list(tmp_path.iterdir())
        process.send_signal(number)
        try:
            assert process.wait(timeout=60) == (128 + number if status is None else status)
        finally:
            process.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(client, 0)
    assert not list(tmp_path.iterdir())


def test_times_are_predicted_where_the_folder_for_temporary_files_has_a_long_name(
    root: Path, build: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("d" * 100)
    folder.mkdir()
    program = str(build("mean.c"))
    monkeypatch.setenv("TMPDIR", str(folder))
    done = _exec(root, "--", program)
    assert done.returncode == 0, done.stderr
    assert re.search(r"predicted device time: [1-9]", done.stderr), done.stderr
    assert list(folder.iterdir()) == []


def test_a_client_has_the_variables_that_set_env_sets(root: Path) -> None:
    def told(*line: str) -> dict[str, str]:
        done = subprocess.run(line, capture_output=True, text=True, check=True)
        return dict(entry.split("=", 1) for entry in done.stdout.split("\0") if "=" in entry)

    sourced = told("sh", "-c", '. "$0/set_env.sh" && exec env -0', str(root))
    executed = told(
        sys.executable, "-m", "emulator.cli", "exec", "--root", str(root), "--quiet", "--", "env", "-0"
    )
    names = re.findall("^export ([A-Z_]+)=", (root / "set_env.sh").read_text(), re.MULTILINE)
    assert {"DDK_PATH", "NPU_HOST_LIB", "TOOLCHAIN_HOME", "PATH"} < set(names)
    assert {name: executed[name] for name in names} == {name: sourced[name] for name in names}


@pytest.mark.parametrize(("script", "status"), [("exit 7", 7), ("kill -9 $$", 137), ("true", 0)])
def test_the_status_is_the_clients(root: Path, script: str, status: int) -> None:
    assert _exec(root, "--quiet", "--", "sh", "-c", script).returncode == status


def test_a_program_that_is_not_there_a_root_that_is_none_and_an_unknown_state_are_refused(
    root: Path, tmp_path: Path
) -> None:
    for arguments in (
        ("--root", str(root), "--", "/no/such/program"),
        ("--root", str(tmp_path), "--", "true"),
        ("--root", str(root), "--l2", "warm", "--", "true"),
    ):
        done = _exec(root, *arguments)
        assert done.returncode == 2
        assert done.stderr.startswith("atlas-emu: error: ")
        assert done.stderr.count("\n") == 1

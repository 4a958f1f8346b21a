"""The trace of ``atlas-emu exec``: rows and slices against the log and the events of the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from emulator.cann import clocks
from emulator.cann.execute import Execution, Launched
from emulator.cann.trace import trace
from socs import load

Built = Callable[..., Path]
Events = list[dict[str, Any]]


def _exec(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "emulator.cli", "exec", "--root", str(root), *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, env={**os.environ})


def _ns(us: float) -> int:
    return round(us * 1000)


def _slices(events: Events, category: str) -> Events:
    return [event for event in events if event.get("cat") == category]


def test_streams_are_rows_and_a_wait_for_an_event_delays_the_launches_behind_it(
    root: Path, build: Built, tmp_path: Path
) -> None:
    path, log = tmp_path / "trace.json", tmp_path / "log.jsonl"
    options = ("--soc", "Ascend910B2", "--trace", str(path), "--log", str(log))
    done = _exec(root, *options, "--", str(build("streams.c")))
    assert done.returncode == 0, done.stderr
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    launches = _slices(events, "launch")
    assert len(set(rows.values())) == 2
    assert [e["ph"] for e in launches] == ["X"] * 5
    by_row = {row: [e for e in launches if e["tid"] == row] for row in rows}
    first, second = sorted(by_row.values(), key=len, reverse=True)
    assert (len(first), len(second)) == (3, 2)
    assert first[0]["ts"] == second[0]["ts"] == 0
    for before, after in pairwise(first):
        assert _ns(after["ts"]) == _ns(before["ts"]) + _ns(before["dur"])
    assert _ns(second[1]["ts"]) == _ns(first[2]["ts"]) + _ns(first[2]["dur"])
    # The event of the program says the same as the end of the last slice.
    assert second[1]["ts"] + second[1]["dur"] == pytest.approx(float(done.stdout), abs=2e-3)
    told = [json.loads(line) for line in log.read_text().splitlines()]
    host = {line["launch"]: line["host_us"] for line in told if "launch" in line}
    assert {e["args"]["launch"]: e["args"]["host_us"] for e in launches} == host


def test_each_process_has_its_own_rows(root: Path, build: Built, tmp_path: Path) -> None:
    path, log = tmp_path / "trace.json", tmp_path / "log.jsonl"
    options = ("--soc", "Ascend910B2", "--trace", str(path), "--log", str(log))
    program = str(build("streams.c"))
    done = _exec(root, *options, "--", "sh", "-c", '"$0" & "$0"; wait', program)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in log.read_text().splitlines()]
    processes = {line["pid"] for line in told}
    assert len(processes) == 2
    for process in processes:
        own = [line["launch"] for line in told if line["pid"] == process and "launch" in line]
        assert own == [0, 1, 2, 3, 4]
    events = json.loads(path.read_text())["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert set(names.values()) == {f"Ascend910B2, process {process}" for process in processes}
    rows = [e["tid"] for e in events if e["name"] == "thread_name"]
    assert len(set(rows)) == len(rows) == 4
    launches = _slices(events, "launch")
    assert len(launches) == 10
    assert all(names[e["pid"]].endswith(f" {e['args']['pid']}") for e in launches)
    first, second = ([(e["ts"], e["dur"]) for e in launches if e["pid"] == pid] for pid in names)
    assert first == second, "each process has a clock of its own"


def test_kernels_of_a_launch_lie_within_it(root: Path, build: Built, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    options = ("--quiet", "--trace", str(path), "--soc", "Ascend910B2")
    assert _exec(root, *options, "--", str(build("elapsed.c"))).returncode == 3
    events = json.loads(path.read_text())["traceEvents"]
    launches, kernels = _slices(events, "launch"), _slices(events, "kernel")
    assert [e["name"] for e in kernels] == ["Contiguous(target)", "MseLossGrad", "Cast"] * 3
    assert [e["args"]["target"] for e in launches] == [
        "dtype bfloat16 shape [512, 1024] strides [1, 512] offset 0"
    ] * 3
    for number, launch in enumerate(launches):
        within = kernels[3 * number : 3 * number + 3]
        assert within[0]["ts"] == launch["ts"]
        ends = [_ns(e["ts"]) + _ns(e["dur"]) for e in within]
        assert ends == [*(_ns(e["ts"]) for e in within[1:]), _ns(launch["ts"]) + _ns(launch["dur"])]
    order = [e for e in events if "cat" in e]
    assert order[0]["cat"] == "launch", "a slice comes before those within it"


def test_a_launch_of_unknown_time_is_a_mark() -> None:
    tensors = {"selfRef": {"dtype": "DT_INT8", "shape": [4]}}
    call = {"pid": 5, "launch": 3, "stream": 7, "host_us": 9.5}
    call |= {"operator": "aclnnNew", "steps": [], "tensors": tensors}
    execution = Execution(0, (Launched(call, None, 2.5),), ("aclnnNew is not timed",))
    (mark,) = _slices(json.loads(trace(execution, load("Ascend910B2")))["traceEvents"], "launch")
    assert (mark["ph"], mark["name"], mark["ts"]) == ("i", "aclnnNew", 2.5)
    assert mark["args"] == {
        "pid": 5,
        "launch": 3,
        "host_us": 9.5,
        "steps": [],
        "selfRef": "dtype DT_INT8 shape [4]",
    }


def test_a_program_without_launches_has_an_empty_trace(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    assert _exec(root, "--quiet", "--trace", str(path), "--", "true").returncode == 0
    assert [e["name"] for e in json.loads(path.read_text())["traceEvents"]] == ["process_name"]


def test_two_outputs_in_one_file_are_refused(root: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "all")
    done = _exec(root, "--trace", path, "--log", path, "--", "true")
    assert (done.returncode, "two outputs" in done.stderr) == (2, True)


def _launch(stream: int) -> dict[str, int]:
    return {"pid": 5, "launch": 0, "stream": stream}


def test_clocks_of_streams_that_wait_for_each_other_in_turn() -> None:
    lines = [
        {"event": 0, "wait_for": 1, "stream": 2},
        _launch(2),
        {"event": 1, "record": 1, "stream": 2},
        _launch(1),
        {"event": 0, "record": 1, "stream": 1},
        {"event": 1, "wait_for": 1, "stream": 1},
        _launch(1),
        {"event": 7, "wait_for": 1, "stream": 3},
        _launch(3),
    ]
    durations = [0.0, 5.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 9.0]
    begins = [2.0, 2.0, 7.0, 0.0, 2.0, 7.0, 7.0, 0.0, 0.0]
    lines = [{"pid": 5, **line} for line in lines]
    assert clocks.starts(lines, durations) == begins
    # Another process's streams and events have the same numbers and are others.
    both = [{**line, "pid": pid} for line in lines for pid in (5, 6)]
    assert clocks.starts(both, [us for us in durations for _ in range(2)]) == [
        us for us in begins for _ in range(2)
    ]


def test_a_log_that_breaks_off_in_a_wait_still_has_clocks() -> None:
    lines = [{"pid": 5, "event": 0, "wait_for": 1, "stream": 2}, _launch(2)]
    assert clocks.starts(lines, [0.0, 1.0]) == [0.0, 0.0]

"""The Chrome trace: what the format asks for, and that it accounts for every cycle of the report."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from command_inputs import Command

from emulator.export import chrome
from socs.isa import Pipe

Event = dict[str, Any]

SHAPES = {
    "one core": ["--shape", "4"],
    "even blocks": ["--shape", "40,512"],
    "a last block": ["--shape", "1024,1024", "--dtype", "float16"],
    "repeated periods": ["--shape", "1024,8192", "--soc", "Ascend910B4-1"],
    "a stand-in": ["--shape", "1000,100", "--soc", "Ascend910A"],
}


class Traced:
    """A trace and the JSON of the same result."""

    def __init__(self, command: Command, path: Path, arguments: list[str]) -> None:
        answer = command("predict", *arguments, "--json", "--trace", path)
        self.result = json.loads(answer.out)
        self.document = json.loads(path.read_text(encoding="utf-8"))
        self.events: list[Event] = self.document["traceEvents"]
        self.slices = [event for event in self.events if event["ph"] == "X"]

    def threads(self) -> dict[tuple[int, int], list[Event]]:
        found = defaultdict(list)
        for event in self.slices:
            found[event["pid"], event["tid"]].append(event)
        return found

    def names(self, kind: str) -> dict[tuple[int, int], str]:
        return {
            (e["pid"], e["tid"]): e["args"]["name"]
            for e in self.events
            if e["ph"] == "M" and e["name"] == kind
        }

    def row(self, pid: int, tid: int) -> dict[str, Any]:
        """The row of the pipe table that a thread shows."""
        (process,) = (name for (p, _), name in self.names("process_name").items() if p == pid)
        first = int(process.split()[-1].partition("..")[0])
        pipe = self.names("thread_name")[pid, tid]
        (row,) = (r for r in self.result["pipes"] if (r["first_block"], r["pipe"]) == (first, pipe))
        return row


@pytest.fixture(params=SHAPES)
def traced(request: pytest.FixtureRequest, command: Command, tmp_path: Path) -> Traced:
    return Traced(command, tmp_path / "trace.json", SHAPES[request.param])


def test_a_trace_is_what_the_format_asks_for(traced: Traced) -> None:
    assert {event["ph"] for event in traced.events} == {"M", "X"}
    for event in traced.slices:
        assert event["ts"] >= 0
        assert event["dur"] >= 0
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["name"]
        assert event["cat"] in ("execute", "wait", "skipped")
    assert traced.document["displayTimeUnit"] == "ns"
    kinds = [event["ph"] for event in traced.events]
    assert kinds == sorted(kinds)  # names come before what they name


def test_a_trace_names_its_processes_and_threads(traced: Traced) -> None:
    soc = traced.result["soc"]
    processes, threads = traced.names("process_name"), traced.names("thread_name")
    groups = {(row["first_block"], row["blocks"]) for row in traced.result["pipes"]}
    shown = {
        f"{soc} block {first}" if count == 1 else f"{soc} blocks {first}..{first + count - 1}"
        for first, count in groups
    }
    assert set(processes.values()) == shown
    assert set(traced.threads()) <= set(threads)
    for pid in {pid for pid, _ in processes}:
        assert [name for (p, _), name in threads.items() if p == pid] == [str(pipe) for pipe in Pipe]


def test_a_trace_says_what_it_is_of(traced: Traced) -> None:
    about = traced.document["otherData"]
    for key in ("soc", "kernel", "stand_in_for", "cycles", "clock_hz"):
        assert about[key] == traced.result[key]


def test_slices_of_a_thread_follow_each_other_without_overlap(traced: Traced) -> None:
    for slices in traced.threads().values():
        end = 0.0
        for event in slices:
            assert event["ts"] == pytest.approx(end, abs=1e-6)
            end = event["ts"] + event["dur"]
        assert end <= traced.result["time_us"] + 1e-3


def test_every_cycle_of_a_pipe_is_in_its_thread(traced: Traced) -> None:
    threads = traced.threads()
    assert len(threads) == len(traced.result["pipes"])
    for place, slices in threads.items():
        row = traced.row(*place)
        cycles: dict[str, int] = defaultdict(int)
        for event in slices:
            cycles[event["cat"]] += event["args"]["cycles"]
        assert cycles["execute"] == row["busy_cycles"]
        assert cycles["wait"] == sum(row["waiting_cycles"].values())
        assert sum(cycles.values()) + row["done_cycles"] == traced.result["cycles"]


def test_a_skipped_stretch_takes_the_time_of_what_it_skips(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = SHAPES["repeated periods"]
    whole = Traced(command, tmp_path / "whole.json", arguments)
    monkeypatch.setattr(chrome, "LIMIT", 10)
    folded = Traced(command, tmp_path / "folded.json", arguments)
    assert {event["cat"] for event in whole.slices} == {"execute", "wait"}
    assert len(folded.slices) < len(whole.slices)
    assert "skipped" in {event["cat"] for event in folded.slices}
    assert set(folded.threads()) == set(whole.threads())
    for place, slices in folded.threads().items():
        end = 0.0
        for event in slices:
            assert event["ts"] == pytest.approx(end, abs=1e-6)
            end = event["ts"] + event["dur"]
        last = whole.threads()[place][-1]
        assert end == pytest.approx(last["ts"] + last["dur"], abs=1e-6)
        for event in slices:
            if event["cat"] == "skipped":
                cycles = event["args"]["periods"] * event["args"]["cycles_per_period"]
                assert event["dur"] * 1e-6 * folded.result["clock_hz"] == pytest.approx(cycles, abs=2)


def test_the_same_request_gives_the_same_trace(command: Command, tmp_path: Path) -> None:
    for name in ("a", "b"):
        command("predict", "--shape", "40,512", "--trace", tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

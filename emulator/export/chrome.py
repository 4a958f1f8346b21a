"""A timeline in the Chrome trace format, which Perfetto and MindStudio Insight open.

One process per group of equal cores, one thread per pipe; work and waits are slices of their own
category. Times are microseconds from the start of the task; cycles are in the arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from emulator.device.timeline import REASON_TEXT, Reason, Repeat, Span
from emulator.result import Result
from socs.errors import AtlasError
from socs.isa import Pipe

LIMIT = 200_000
"""Slices written at most; beyond it, periods that repeat are one slice."""

_THREADS = {pipe: number for number, pipe in enumerate(Pipe, start=1)}


def chrome_trace(result: Result) -> str:
    """The trace of a result as JSON text. ``AtlasError`` if nothing was launched, or no span was kept."""
    timeline = result.timeline
    if result.measured is not None:
        raise AtlasError("a card tells no spans: only what is emulated has a trace")
    if timeline is None and result.engine == "fast":
        raise AtlasError("the fast engine keeps no spans, so there is no trace: use engine simpy")
    if timeline is None:
        raise AtlasError("nothing was launched, so there is no trace")
    events = [*_names(result)]
    spans = list(timeline.expanded(LIMIT))
    events += [_slice(result, span) for span in spans if span.reason is not Reason.DONE]
    if timeline.repeats and len(spans) == len(timeline.spans):
        for repeat in timeline.repeats:
            events += _skipped(result, repeat)
    # Slices of no whole nanosecond come before the one that begins with them.
    events.sort(key=lambda e: (e["ph"] != "M", e.get("ts", 0.0), e.get("dur", 0.0), e["pid"], e["tid"]))
    other = {
        "soc": result.soc.name,
        "kernel": result.kernel,
        "stand_in_for": result.stand_in_for,
        "cycles": result.cycles,
        "clock_hz": result.soc.clock_hz,
    }
    return document(events, other)


def document(events: Sequence[Mapping[str, Any]], other: Mapping[str, Any]) -> str:
    """Trace events as the text of a file; ``other``: what it says of itself."""
    whole = {
        "traceEvents": events,
        "displayTimeUnit": "ns",
        "otherData": {"tool": "atlas-emulator", **other},
    }
    return json.dumps(whole, separators=(",", ":")) + "\n"


def _names(result: Result) -> Iterator[dict[str, Any]]:
    assert result.timeline is not None
    for core in result.timeline.cores:
        last = core.first_block + core.blocks - 1
        blocks = f"block {core.first_block}" if core.blocks == 1 else f"blocks {core.first_block}..{last}"
        yield meta("process_name", core.index, 0, {"name": f"{result.soc.name} {blocks}"})
        for pipe, thread in _THREADS.items():
            yield meta("thread_name", core.index, thread, {"name": str(pipe)})
            yield meta("thread_sort_index", core.index, thread, {"sort_index": thread})


def meta(name: str, process: int, thread: int, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """What a process or a thread is called, or where it is shown."""
    return {"ph": "M", "name": name, **place(process, thread), "args": arguments}


def place(process: int, thread: int) -> dict[str, int]:
    """The row of an event, from numbers that count from 0."""
    # Thread numbers are unique and differ from process numbers, or Perfetto calls one the main thread.
    return {"pid": process + 1, "tid": 100 * (process + 1) + thread}


def _slice(result: Result, span: Span) -> dict[str, Any]:
    arguments: dict[str, Any] = {"start_cycle": span.start, "cycles": span.end - span.start}
    if span.tile >= 0:
        arguments["tile"] = span.tile
    if span.reason is Reason.EXECUTE:
        name, category = span.label, "execute"
        if span.detail:
            name = f"{span.label} ({span.detail})"
    else:
        name, category = f"wait: {span.reason} {span.detail}".rstrip(), "wait"
        arguments["reason"] = REASON_TEXT[span.reason]
    return _complete(result, span.core, _THREADS[span.pipe], name, category, span.start, span.end, arguments)


def _skipped(result: Result, repeat: Repeat) -> Iterator[dict[str, Any]]:
    """The stretch in which a period repeats, as one slice per pipe."""
    assert result.timeline is not None
    spans = result.timeline.spans[repeat.first : repeat.last]
    if not spans:
        return
    # The gap lies behind the simulated period; pipes reach its edge at different cycles.
    for core, pipe in sorted({(s.core, s.pipe) for s in spans}):
        own = [s.end for s in spans if (s.core, s.pipe) == (core, pipe)]
        start = max(own)
        arguments = {"periods": repeat.times, "cycles_per_period": repeat.cycles}
        yield _complete(
            result,
            core,
            _THREADS[pipe],
            f"{repeat.times} more periods like the one before",
            "skipped",
            start,
            start + repeat.times * repeat.cycles,
            arguments,
        )


def _complete(
    result: Result,
    process: int,
    thread: int,
    name: str,
    category: str,
    start: int,
    end: int,
    arguments: dict[str, Any],
) -> dict[str, Any]:
    clock = result.soc.clock_hz
    ends = (start * 1e9 / clock, end * 1e9 / clock)
    return {**interval(*ends), "name": name, "cat": category, **place(process, thread), "args": arguments}


def interval(start_ns: float, end_ns: float) -> dict[str, Any]:
    """A slice's kind, start and duration."""
    # Viewers keep whole nanoseconds. Both ends are rounded, so that neighbours still touch: a
    # duration rounded by itself makes slices overlap, which Perfetto reports as data loss.
    first, last = round(start_ns), round(end_ns)
    return {"ph": "X", "ts": first / 1000, "dur": (last - first) / 1000}

"""Device clocks of streams: when each launch of a log begins.

A stream's launches run one after another; a wait for an event holds its stream back until the other one
has recorded it. What the host does in between takes no device time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any


def starts(lines: Sequence[Mapping[str, Any]], durations: Sequence[float]) -> list[float]:
    """For each line of a launch log the microsecond at which its stream comes to it.

    Streams and events are those of the line's process, ``pid``. ``durations``: the microseconds of each line.
    A wait for a record that the log does not have (a program that was killed) holds nothing back.
    """
    queues: dict[tuple[int, int], deque[int]] = {}
    for index, line in enumerate(lines):
        queues.setdefault((line["pid"], line["stream"]), deque()).append(index)
    records = {_mark(line, "record") for line in lines if "record" in line}
    reached: dict[tuple[int, int, int], float] = {}
    clocks = dict.fromkeys(queues, 0.0)
    found = [0.0] * len(lines)
    waiting = True
    while waiting:
        waiting = False
        for stream, queue in queues.items():
            while queue:
                line = lines[queue[0]]
                if "wait_for" in line:
                    mark = _mark(line, "wait_for")
                    if mark in records and mark not in reached:
                        break
                    clocks[stream] = max(clocks[stream], reached.get(mark, 0.0))
                index = queue.popleft()
                found[index] = clocks[stream]
                clocks[stream] += durations[index]
                waiting = True
                if "record" in line:
                    reached[_mark(line, "record")] = clocks[stream]
    return found


def _mark(line: Mapping[str, Any], kind: str) -> tuple[int, int, int]:
    return line["pid"], line["event"], line[kind]

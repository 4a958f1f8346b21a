"""What happened: spans with the reason of every cycle, and their sums.

The model writes here and never reads back. A stretch that the device skipped because it repeats is kept
as :class:`Repeat`, so that the record of a large tensor stays small and still accounts for every cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum

from socs.isa import Pipe


class Reason(StrEnum):
    """What a pipe spends a cycle on."""

    EXECUTE = "execute"
    LAUNCH = "launch"
    ISSUE = "issue"
    FLAG = "flag"
    MEMORY = "memory"
    QUEUE = "queue"
    DONE = "done"


REASON_TEXT = {
    Reason.EXECUTE: "executing",
    Reason.LAUNCH: "waiting for the launch",
    Reason.ISSUE: "waiting for the scalar unit to issue",
    Reason.FLAG: "waiting for a flag",
    Reason.MEMORY: "waiting for bandwidth that other transfers use",
    Reason.QUEUE: "waiting for room in an instruction queue",
    Reason.DONE: "done",
}


@dataclass(frozen=True, slots=True)
class Span:
    """Cycles [start, end) of one pipe. ``detail``: the flag that was waited for, or ''."""

    core: int
    pipe: Pipe
    label: str
    tile: int
    start: int
    end: int
    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Repeat:
    """``times`` further copies of the spans [first, last), each ``cycles`` later, ``tiles`` further."""

    first: int
    last: int
    times: int
    cycles: int
    tiles: dict[int, int]


@dataclass(slots=True)
class PipeTotals:
    """Cycles of one pipe of one core by (reason, detail)."""

    cycles: Counter[tuple[Reason, str]] = field(default_factory=Counter)
    instructions: int = 0

    def of(self, reason: Reason) -> int:
        return sum(n for (r, _), n in self.cycles.items() if r is reason)

    @property
    def total(self) -> int:
        return sum(self.cycles.values())


@dataclass(frozen=True, slots=True)
class CoreTimeline:
    """One group of equal blocks: ``blocks`` cores that do the same at the same time."""

    index: int
    first_block: int
    blocks: int
    end: int
    pipes: dict[Pipe, PipeTotals]


SPAN_LIMIT = 400_000
"""Spans kept; sums go on beyond it."""


@dataclass(slots=True)
class Timeline:
    """The record of a launch. ``cycles`` is from the start of the task to its end."""

    cycles: int = 0
    launch_cycles: int = 0
    cores: list[CoreTimeline] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    simulated_instructions: int = 0
    truncated: bool = False

    def add(self, span: Span) -> None:
        if len(self.spans) < SPAN_LIMIT:
            self.spans.append(span)
        else:
            self.truncated = True

    @property
    def skipped_cycles(self) -> int:
        return sum(r.times * r.cycles for r in self.repeats)

    def expanded(self, limit: int) -> Iterator[Span]:
        """All spans, repeated ones included, as long as a repetition fits into ``limit`` spans."""
        total = len(self.spans) + sum(r.times * (r.last - r.first) for r in self.repeats)
        yield from self.spans
        if total > limit:
            return
        for repeat in self.repeats:
            for time in range(1, repeat.times + 1):
                shift = time * repeat.cycles
                for span in self.spans[repeat.first : repeat.last]:
                    tiles = time * repeat.tiles.get(span.core, 0) if span.tile >= 0 else 0
                    yield replace(
                        span, start=span.start + shift, end=span.end + shift, tile=span.tile + tiles
                    )

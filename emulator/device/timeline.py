"""What happened: spans with the reason of every cycle, and their sums.

The model writes here and never reads back. A stretch that the device skipped because it repeats is kept
as :class:`Repeat`, so that the record of a large tensor stays small and still accounts for every cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

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


class Span(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class PipeRow:
    """Cycles of one pipe of the cores ``first_block`` .. ``first_block + blocks - 1``."""

    first_block: int
    blocks: int
    pipe: Pipe
    busy_cycles: int
    waiting_cycles: dict[str, int]
    done_cycles: int
    instructions: int


SPAN_LIMIT = 400_000
"""Spans kept; sums go on beyond it."""


class Account:
    """What one pipe of one core has spent its cycles on, for one reason."""

    __slots__ = ("core", "cycles", "detail", "pipe", "reason")

    def __init__(self, core: int, pipe: Pipe, reason: Reason, detail: str = "") -> None:
        self.core = core
        self.pipe = pipe
        self.reason = reason
        self.detail = detail
        self.cycles = 0


Written = tuple[Account, str, int, int, int]
"""A span as (account, label, tile, start, end)."""
_FIELDS = 5


@dataclass(slots=True)
class Timeline:
    """The record of a launch. ``cycles`` is from the start of the task to its end."""

    cycles: int = 0
    launch_cycles: int = 0
    cores: list[CoreTimeline] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    simulated_instructions: int = 0
    truncated: bool = False
    _written: list[Any] = field(default_factory=list, repr=False)
    _spans: list[Span] = field(default_factory=list, repr=False)

    @property
    def write(self) -> Callable[[Written], None]:
        """Keeps a span as it is written, in a flat list: to make a :class:`Span` costs more than to run."""
        return self._written.extend

    def trim(self) -> None:
        """Forget the spans beyond the limit."""
        if self.span_count > SPAN_LIMIT:
            del self._written[SPAN_LIMIT * _FIELDS :]
            self.truncated = True

    @property
    def span_count(self) -> int:
        return len(self._written) // _FIELDS

    @property
    def spans(self) -> list[Span]:
        """All spans that are kept."""
        fresh = iter(self._written[len(self._spans) * _FIELDS :])
        self._spans += [
            Span(why.core, why.pipe, label, tile, start, stop, why.reason, why.detail)
            for why, label, tile, start, stop in zip(*[fresh] * _FIELDS, strict=True)
        ]
        return self._spans

    def rows(self) -> tuple[PipeRow, ...]:
        """The sums of all pipes."""
        return tuple(_row(core, pipe, totals) for core in self.cores for pipe, totals in core.pipes.items())

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
                    yield span._replace(
                        start=span.start + shift, end=span.end + shift, tile=span.tile + tiles
                    )


def _row(core: CoreTimeline, pipe: Pipe, totals: PipeTotals) -> PipeRow:
    waiting: dict[str, int] = {}
    for (reason, detail), cycles in sorted(totals.cycles.items()):
        if reason not in (Reason.EXECUTE, Reason.DONE):
            name = f"{reason}:{detail}" if reason is Reason.FLAG else str(reason)
            waiting[name] = waiting.get(name, 0) + cycles
    busy, done = totals.of(Reason.EXECUTE), totals.of(Reason.DONE)
    return PipeRow(core.first_block, core.blocks, pipe, busy, waiting, done, totals.instructions)

"""Where reports are printed, and tables that keep every digit on a narrow terminal."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement

NARROWEST = 40
"""Columns below which nothing is laid out any more."""

_ENDLESS = 1 << 16


def terminal() -> Console:
    """The console of standard output. Print with ``crop=False``: :class:`Whole` runs over the edge."""
    console = Console(highlight=False, emoji=False)
    if console.width < NARROWEST:
        console.width = NARROWEST
    return console


def trimmed(text: str) -> str:
    """Without the blanks that Rich fills lines with, which wrap when a terminal gets narrower."""
    return "".join(f"{line.rstrip(' ')}\n" for line in text.splitlines())


class Whole:
    """A table that runs over the edge of a narrow terminal rather than show 2,640 as ``2…``."""

    def __init__(self, table: RenderableType) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        free = options.update(max_width=_ENDLESS)
        needed = Measurement.get(console, free, self._table).minimum
        yield from console.render(self._table, options.update(max_width=max(options.max_width, needed)))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement.get(console, options, self._table)

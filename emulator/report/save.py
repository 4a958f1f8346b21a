"""A report as a file: plain text, HTML or SVG, by its suffix."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console, RenderableType

from emulator.files import write_text_atomic
from emulator.report.console import trimmed

SUFFIXES = (".txt", ".html", ".svg")
WIDTH = 100
"""Columns of a saved report."""


def save_report(path: Path, what: RenderableType) -> None:
    """Write ``what`` whole or not at all. ``AtlasError`` for a path that cannot be written."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False, emoji=False)
    console.print(what, crop=False)
    suffix = path.suffix.lower()
    if suffix == ".html":
        text = console.export_html()
    elif suffix == ".svg":
        text = console.export_svg(title="atlas-emu")
    else:
        text = trimmed(console.export_text())
    write_text_atomic(path, text)

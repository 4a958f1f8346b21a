"""The backends as a table: which can run here, on what, and why others cannot."""

from __future__ import annotations

from typing import Any

from rich.markup import escape
from rich.table import Table

from emulator import backend
from emulator.backends.npu.detect import Detection

Row = tuple[str, bool, str]


def backends_table(detection: Detection) -> Table:
    """A row per backend, for a terminal of 80 columns."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("backend", no_wrap=True)
    table.add_column("runs", no_wrap=True)
    table.add_column("what, or why not", overflow="fold")
    for name, runs, text in _rows(detection):
        table.add_row(escape(name), "yes" if runs else "no", escape(text))
    return table


def backends_json(detection: Detection) -> dict[str, Any]:
    """Plain data with stable keys; ``npu`` has everything that was found out."""
    rows = [{"name": name, "available": runs, "text": text} for name, runs, text in _rows(detection)]
    return {"backends": rows, "npu": detection.to_json()}


def _rows(detection: Detection) -> list[Row]:
    return [(name, *(_npu(detection) if name == "npu" else (True, _text(name)))) for name in backend.known()]


def _text(name: str) -> str:
    return "this package" if name == "emulated" else f"entry point of {backend.ENTRY_POINTS}"


def _npu(found: Detection) -> tuple[bool, str]:
    if found.reason is not None:
        return False, found.reason.removeprefix("backend npu: ")
    version = f", CANN {found.version}" if found.version else ""
    whose = ": the emulated libraries, no card" if found.emulated else ""
    return True, (
        f"{found.soc}, device {found.device} of {found.devices}; libraries under {found.root} "
        f"({found.origin}{version}){whose}"
    )

"""A calibration as text and as plain data: which numbers moved, which could not, and what it was worth."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.report.console import Whole
from emulator.report.soc import human
from emulator.report.validation import legend, summary_table, trace_table
from emulator.validation.calibrate import Calibration, Side
from emulator.validation.fit import Number
from emulator.wording import counted


def calibration_report(of: Calibration, source: str) -> Group:
    """Everything about a calibration, for a terminal of 80 columns."""
    kinds = ", ".join(of.kernels)
    basis = f"{counted(of.rows, 'row')} of {counted(of.calls, 'call')}"
    parts: list[RenderableType] = [
        Text(f"{of.soc.name} fitted to {source}", style="bold"),
        Text(f"{basis} ({kinds}); least squares on the logarithm of time"),
        Text(),
        Whole(_numbers(of.fit.numbers)),
        Text(),
        legend(),
    ]
    for title, before, after in (
        ("fitted rows, state of L2 known", of.before.fitted, of.after.fitted),
        ("other rows, state of L2 known, not fitted", of.before.held_out, of.after.held_out),
    ):
        if before.n or after.n:
            parts += [
                Text(),
                Text(title, style="bold"),
                summary_table({"before": before, "after": after}, ""),
            ]
    if of.before.trace.summary.n:
        parts += [Text(), *trace_table({"": {"before": of.before.trace, "after": of.after.trace}})]
    if of.excluded:
        parts += [Text(), Text("excluded: reported, not fitted", style="bold"), Whole(_excluded(of))]
    parts += [Text(), Text("not fitted", style="bold"), _left(of.fit.left)]
    return Group(*parts)


def calibration_json(of: Calibration, source: str, output: str | None) -> dict[str, Any]:
    """Plain data with stable keys: errors are shares, ``standard_error`` is one of the number."""
    return {
        "soc": of.soc.name,
        "source": source,
        "output": output,
        "kernels": list(of.kernels),
        "rows": of.rows,
        "calls": of.calls,
        "parameters": [asdict(one) for one in of.fit.numbers],
        "not_determined": [{"key": key, "reason": why} for key, why in of.fit.left.items()],
        "rms_before": of.fit.rms_before,
        "rms_after": of.fit.rms_after,
        "before": _side(of.before),
        "after": _side(of.after),
        "excluded": [
            {"id": identity, "measured_us": measured, "before_us": before, "after_us": after}
            for identity, measured, before, after in _excluded_rows(of)
        ],
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "fitted": asdict(side.fitted),
        "held_out": asdict(side.held_out),
        "trace": {
            **asdict(side.trace.summary),
            "inside_band": side.trace.inside_band,
            "median_hot_to_cold": side.trace.median_hot_to_cold,
        },
    }


def _numbers(numbers: tuple[Number, ...]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("number", no_wrap=True)
    for head in ("before", "after", "std. error"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in numbers:
        error = f"{100 * one.standard_error:.1f} %"
        if one.one_sided:
            error = "no smaller" if one.after > one.before else "no larger"
        if one.at_limit:
            error = "at its limit"
        table.add_row(one.key, human(one.key, one.before), human(one.key, one.after), error)
    return table


def _left(left: dict[str, str]) -> Table:
    """By reason, since most share one."""
    by_reason: dict[str, list[str]] = {}
    for key, why in left.items():
        by_reason.setdefault(why, []).append(key)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(overflow="fold")
    for why, keys in by_reason.items():
        table.add_row(Text(f"{why}: {', '.join(keys)}"))
    return table


def _excluded(of: Calibration) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("id", no_wrap=True)
    for head in ("measured µs", "before µs", "after µs"):
        table.add_column(head, justify="right", no_wrap=True)
    for identity, measured, before, after in _excluded_rows(of):
        table.add_row(Text(identity), f"{measured:,.2f}", f"{before:,.2f}", f"{after:,.2f}")
    return table


def _excluded_rows(of: Calibration) -> list[tuple[str, float, float, float]]:
    sides = [dict(zip(s.of.ids, s.of.predicted.tolist(), strict=True)) for s in (of.before, of.after)]
    measured = dict(zip(of.after.of.ids, of.after.of.measured.tolist(), strict=True))
    return [
        (one, measured[one], sides[0][one], sides[1][one])
        for one in of.excluded
        if one in measured and one in sides[0]
    ]

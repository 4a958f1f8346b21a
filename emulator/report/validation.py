"""A comparison as text: a legend, then narrow tables. Errors are in percent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.report.console import Whole
from emulator.validation.ablation import Ablated
from emulator.validation.compare import STATE_NAMES, Comparison, Skipped
from emulator.validation.naive import TEXT
from emulator.validation.statistics import Summary
from emulator.validation.summaries import SCOPE, TRACE_SCOPE, Band, Summaries
from emulator.wording import counted

WORST = 5
"""Rows that are shown one by one."""

_LEGEND = (
    ("n", "rows"),
    ("median, mean", "of the absolute error, % of the measured time (error: predicted / measured - 1)"),
    ("bias", "mean of the signed error, %: below 0 predicts too short a time"),
    ("10%, 20%", "share of rows with no larger error, %"),
    ("worst", "largest absolute error, %"),
    ("tau", "Kendall's tau-b of predicted and measured: 1 is the same order"),
    ("<bound", "share of rows measured in less time than the lower bound, %"),
    ("naive", f"median absolute error, %, of the baseline: {TEXT}"),
)


def validation_report(of: Comparison, found: Summaries, source: str) -> Group:
    """Everything about a comparison, for a terminal of 80 columns."""
    parts: list[RenderableType] = [
        Text(source, style="bold"),
        Text(f"{counted(of.of.rows, 'row')}, {len(of.ids):,} predicted, {of.skipped.total:,} not"),
        Text(),
        _legend(_LEGEND),
    ]
    if found.overall.n:
        parts += _section(SCOPE, found)
    others = {name: one for name, one in found.by_kernel.items() if name != "vendor"}
    if others:
        parts += [
            Text(),
            Text("other kernels, state of L2 known", style="bold"),
            Whole(_table({"kernel": others})),
        ]
    if found.trace.summary.n:
        parts += _trace(found)
    shown = of.point & of.vendor if found.overall.n else of.vendor
    if shown.any():
        parts += [Text(), Text("largest errors", style="bold"), Whole(_worst(of, shown))]
    if of.skipped.total:
        parts += [Text(), *skipped(of.skipped)]
    return Group(*parts)


def skipped(of: Skipped) -> Iterable[RenderableType]:
    """The rows that were left out, by reason."""
    yield Text(f"not predicted: {counted(of.total, 'row')}", style="bold")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for reason, why in of.by_count():
        more = ", ..." if why.count > len(why.ids) else ""
        text = Text(f"{reason} ({', '.join(why.ids)}{more})")
        if why.detail:
            text.append(f"\n{why.detail}", style="dim")
        table.add_row(f"{why.count:,}", text)
    yield table


def summary_table(rows: Mapping[str, Summary], head: str) -> Whole:
    """One line of statistics for each name."""
    return Whole(_table({head: rows}))


def ablation_report(rows: Sequence[Ablated]) -> list[RenderableType]:
    """What each mechanism of the model is worth, the dearest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("without", no_wrap=True)
    for name in ("median", "mean", "bias", "inside", "wide", "moved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("what it is")
    for one in rows:
        table.add_row(
            one.name or "nothing",
            _percent(one.median_abs_error),
            _percent(one.mean_abs_error),
            "-" if one.signed_mean is None else f"{100 * one.signed_mean:+.1f}",
            _share(one.inside_band),
            "-" if one.median_hot_to_dirty is None else f"{one.median_hot_to_dirty:.2f}",
            _share(one.changed),
            Text(one.text, style="dim"),
        )
    first = rows[0]
    title = (
        f"vendor kernels without one mechanism each: {first.rows} rows of known L2 (median, mean, bias), "
        f"{first.band_rows} of unknown (inside the band, its median width)"
    )
    return [Text(), Text(title, style="bold"), Whole(table)]


def legend() -> Table:
    """What the columns of :func:`summary_table` mean."""
    return _legend(_LEGEND)


def _section(title: str, found: Summaries) -> list[RenderableType]:
    tables = {
        "": {"all": found.overall},
        "chip": found.by_soc,
        "operator": found.by_op,
        "bytes moved": found.by_size,
    }
    return [Text(), Text(title, style="bold"), Whole(_table(tables))]


def _legend(entries: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, meaning in entries:
        table.add_row(name, meaning)
    return table


def _table(sections: Mapping[str, Mapping[str, Summary]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for name in ("n", "median", "mean", "bias", "10%", "20%", "worst", "tau", "<bound", "naive"):
        table.add_column(name, justify="right", no_wrap=True)
    for head, rows in sections.items():
        if head and len(sections) > 1:
            table.add_row(Text(head, style="italic"))
        for name, one in rows.items():
            table.add_row(Text(f"  {name}" if head and len(sections) > 1 else name), *_cells(one))
    return table


def _cells(one: Summary) -> tuple[str, ...]:
    return (
        f"{one.n:,}",
        _percent(one.median_abs_error),
        _percent(one.mean_abs_error),
        "-" if one.signed_mean is None else f"{100 * one.signed_mean:+.1f}",
        _share(one.within_10pct),
        _share(one.within_20pct),
        _percent(one.worst_abs_error),
        "-" if one.kendall_tau is None else f"{one.kendall_tau:.3f}",
        _share(one.bound_violations),
        _percent(one.naive_median_abs_error),
    )


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _share(value: float | None) -> str:
    return "-" if not value else f"{100 * value:.0f}"


def _trace(found: Summaries) -> list[RenderableType]:
    sections: dict[str, Mapping[str, Band]] = {
        "": {"all": found.trace},
        "chip": found.trace_by_soc,
        "operator": found.trace_by_op,
        "bytes moved": found.trace_by_size,
    }
    return trace_table(sections)


def trace_table(sections: Mapping[str, Mapping[str, Band]]) -> list[RenderableType]:
    """Title, legend and table of rows whose state of L2 is not known, by section and name."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True)
    for name in ("n", "inside", "dirty/hot", "median", "bias", "worst", "tau", "<bound", "naive"):
        table.add_column(name, justify="right", no_wrap=True)
    for head, rows in sections.items():
        if head:
            table.add_row(Text(head, style="italic"))
        for name, band in rows.items():
            one = band.summary
            cells = _cells(one)
            table.add_row(
                Text(f"  {name}" if head else name),
                cells[0],
                _share(band.inside_band),
                "-" if band.median_hot_to_cold is None else f"{band.median_hot_to_cold:.2f}",
                cells[1],
                cells[3],
                *cells[6:],
            )
    explained = (
        ("inside", "share of rows measured between the hot and the dirty prediction, %"),
        ("dirty/hot", "median width of that band: with L2 full of others' writes, over hot"),
    )
    return [Text(), Text(TRACE_SCOPE, style="bold"), _legend(explained), Whole(table)]


def _worst(of: Comparison, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name, justify in (("id", "left"), ("chip", "left"), ("call", "left"), ("L2", "left")):
        table.add_column(name, justify=justify, no_wrap=name != "call", overflow="fold")  # type: ignore[arg-type]
    for name in ("measured µs", "predicted µs", "error %"):
        table.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
    places = np.flatnonzero(mask)
    errors = of.predicted[places] / of.measured[places] - 1
    order = np.argsort(-np.abs(errors), kind="stable")[:WORST]
    for place, error in zip(places[order].tolist(), errors[order].tolist(), strict=True):
        case = of.of.cases[int(of.case[place])]
        shapes = "; ".join(",".join(map(str, shape)) or "()" for shape in dict.fromkeys(case.shapes))
        table.add_row(
            Text(of.ids[place]),
            Text(case.soc),
            Text(f"{case.op} {', '.join(dict.fromkeys(case.dtypes))} {shapes}"),
            STATE_NAMES[int(of.state[place])],
            f"{of.measured[place]:,.2f}",
            f"{of.predicted[place]:,.2f}",
            f"{100 * error:+.1f}",
        )
    return table

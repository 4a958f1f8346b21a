"""A comparison of backends as text and as plain data: bits and times side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from emulator.comparison.bits import Difference
from emulator.comparison.compare import Compared, Outcome
from emulator.report.console import Whole
from emulator.wording import counted
from socs.spec import Soc


def comparison_report(found: Sequence[Compared], soc: Soc) -> Group:
    """A row per case; beneath it every difference, every failure, and what must be said of the times."""
    names = [outcome.backend for outcome in found[0].outcomes]
    head = Text(f"{soc.name}: {', '.join(names[1:])} beside {names[0]}", style="bold")
    parts: list[RenderableType] = [head, Text(), Whole(_table(found, names))]
    told = [*_differences(found), *_warnings(found)]
    if told:
        parts += [Text(), *told]
    parts += [Text(), _verdict(found)]
    return Group(*parts)


def comparison_json(found: Sequence[Compared], soc: Soc, l2: str, output: str | None) -> dict[str, Any]:
    """Plain data with stable keys."""
    return {
        "soc": soc.name,
        "l2": l2,
        "backends": [outcome.backend for outcome in found[0].outcomes],
        "equal": all(one.equal for one in found),
        "csv": output,
        "cases": [
            {
                "shapes": {name: list(shape) for name, shape in one.case.shapes.items()},
                "dtype": one.case.dtype,
                "reduction": one.case.reduction,
                "equal": one.equal,
                "backends": [_outcome_json(outcome) for outcome in one.outcomes],
            }
            for one in found
        ],
    }


def _outcome_json(of: Outcome) -> dict[str, Any]:
    measured = None if of.result is None else of.result.measured
    return {
        "backend": of.backend,
        "failed": of.failed,
        "predicted_us": of.time_us if of.kind == "predicted" else None,
        "measured": None if measured is None else measured.to_json(),
        "difference": None if of.difference is None else asdict(of.difference),
        "warnings": [] if of.result is None else list(of.result.warnings),
    }


def _table(found: Sequence[Compared], names: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for title in ("self", "dtype", ""):
        table.add_column(title, no_wrap=True)
    for name in names[1:]:
        table.add_column(f"{escape(name)}\ndiffer", justify="right", no_wrap=True)
    for place, name in enumerate(names):
        kinds = {one.outcomes[place].kind for one in found if one.outcomes[place].time_us is not None}
        what = "/".join(sorted(kinds)) or "time"
        table.add_column(f"{escape(name)}\n{what} µs", justify="right", no_wrap=True)
        if "measured" in kinds:
            table.add_column("\nspread", justify="right", no_wrap=True)
        if place:
            table.add_column("\noff", justify="right", no_wrap=True)
    spread = [any(_spread(one.outcomes[place]) for one in found) for place in range(len(names))]
    for one in found:
        first, *others = one.outcomes
        cells = [_shape(one), one.case.dtype, one.case.reduction, *(_bits(o.difference) for o in others)]
        for place, outcome in enumerate(one.outcomes):
            cells.append(_us(outcome))
            if spread[place]:
                cells.append(_spread(outcome) or "-")
            if place:
                cells.append(_off(first, outcome))
        table.add_row(*cells)
    for column in table.columns:
        # Else a narrow terminal takes away what stands behind the first blank of a cell.
        lines = [line for cell in (column.header, *column.cells) for line in str(cell).splitlines()]
        column.min_width = max(map(cell_len, lines), default=0)
    return table


def _shape(one: Compared) -> str:
    case = one.case
    text = f"\\[{','.join(map(str, case.self))}]"
    return text if case.grad_output == case.self == case.target else f"{text}*"


def _bits(of: Difference | None) -> str:
    if of is None:
        return "?"
    if of.equal:
        return "-"
    return f"{of.differing:,}" + ("" if of.max_ulp is None else f" ({of.max_ulp:,} ULP)")


def _us(of: Outcome) -> str:
    if of.failed is not None:
        return "failed"
    return "-" if of.time_us is None else f"{of.time_us:,.2f}"


def _spread(of: Outcome) -> str:
    """From the first to the third quartile, as a share of the median."""
    if of.result is None or of.result.measured is None:
        return ""
    low, high = of.result.measured.quartiles_us
    return f"{(high - low) / (of.time_us or 1):.0%}"


def _off(first: Outcome, other: Outcome) -> str:
    if first.time_us is None or other.time_us is None:
        return "-"
    return f"{first.time_us / other.time_us - 1:+.1%}"


def _differences(found: Sequence[Compared]) -> Iterable[RenderableType]:
    for one in found:
        case = one.case
        for outcome in one.outcomes:
            about = f"{outcome.backend}, {list(case.self)} {case.dtype} {case.reduction}: "
            differs = outcome.difference
            if outcome.failed is not None:
                yield Text(about + outcome.failed, style="red")
            elif differs is not None and differs.bits is not None:
                here, there = differs.bits
                yield Text(
                    f"{about}{differs.differing:,} of {differs.elements:,} elements differ{_nan(differs)}; "
                    f"the first at {list(differs.first or ())}: {here}, {one.outcomes[0].backend} {there}",
                    style="red",
                )
    if any(not one.case.grad_output == one.case.self == one.case.target for one in found):
        yield Text("* grad_output or target has another shape")
    if any(_spread(outcome) for one in found for outcome in one.outcomes):
        yield Text("spread: half of the launches lie that close together, relative to their median")


def _nan(of: Difference) -> str:
    both = f", {of.both_nan:,} in the bits of a NaN" if of.both_nan else ""
    return both + (f", {of.one_nan:,} in being a NaN" if of.one_nan else "")


def _warnings(found: Sequence[Compared]) -> Iterable[RenderableType]:
    told: dict[str, None] = {}
    for one in found:
        for outcome in one.outcomes:
            if outcome.result is not None and outcome.result.measured is not None:
                told |= dict.fromkeys(f"{outcome.backend}: {text}" for text in outcome.result.warnings)
    for text in told:
        yield Text(f"warning: {text}", style="yellow")


def _verdict(found: Sequence[Compared]) -> Text:
    wrong = sum(not one.equal for one in found)
    if not wrong:
        every = "all " if len(found) > 1 else ""
        return Text(f"bits: equal in {every}{counted(len(found), 'case')}", style="green")
    return Text(f"bits: not equal in {wrong:,} of {counted(len(found), 'case')}", style="red")

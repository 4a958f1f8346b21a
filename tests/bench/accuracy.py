"""The figures of docs/accuracy.md: ``python tests/bench/accuracy.py`` writes its tables and its picture anew.

The picture needs matplotlib. What it writes lies between markers in the page; the rest of the page is text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from emulator.validation.ablation import Ablated, ablation
from emulator.validation.compare import Comparison, compare, measure
from emulator.validation.shipped import MEASUREMENTS
from emulator.validation.summaries import Summaries, summaries

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
PICTURE = ROOT / "docs" / "images" / "accuracy.svg"
OUTLIERS = ("506", "507")
COLOURS = ("#1b6ca8", "#d1495b", "#2a9d6f", "#8a5fbf", "#e08e1b", "#555555")


def mse_table(of: Comparison) -> Iterable[str]:
    """The recorded runs of the operator itself."""
    yield "| run | dtype | shape | measured µs | predicted µs | error | bound µs |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for place in np.flatnonzero(of.point & of.vendor).tolist():
        case = of.of.cases[of.case[place]]
        if case.operator != "mse_loss_backward":
            continue
        shape = "x".join(map(str, case.shapes[0]))
        measured, predicted = of.measured[place], of.predicted[place]
        yield (
            f"| {of.ids[place]} | {case.dtypes[0]} | {shape} | {measured:.2f} | {predicted:.2f} "
            f"| {predicted / measured - 1:+.1%} | {of.bound[place]:.2f} |"
        )


def known_table(of: Comparison, found: Summaries) -> Iterable[str]:
    """Vendor kernels whose state of L2 is known, by operator; then all of them; then other kernels."""
    yield "| rows | n | median | mean | worst | Kendall's tau | baseline's median |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    groups = {
        **{f"{op} (vendor)": one for op, one in found.by_op.items()},
        "all vendor kernels": found.overall,
        **{
            f"{kind} kernels" if kind == "triton" else f"{kind}s": one
            for kind, one in found.by_kernel.items()
            if kind != "vendor"
        },
    }
    for name, one in groups.items():
        tau = "" if one.kendall_tau is None else f"{one.kendall_tau:.2f}"
        yield (
            f"| {name} | {one.n} | {one.median_abs_error:.1%} | {one.mean_abs_error:.1%} "
            f"| {one.worst_abs_error:.1%} | {tau} | {one.naive_median_abs_error:.1%} |"
        )
    mine = of.point & of.vendor & ~np.isin(np.array(of.ids), OUTLIERS)
    errors = np.abs(of.predicted[mine] / of.measured[mine] - 1)
    yield f"| all vendor kernels without runs {' and '.join(OUTLIERS)} | {len(errors)} " + (
        f"| {np.median(errors):.1%} | {np.mean(errors):.1%} | {np.max(errors):.1%} | | |"
    )


def band_table(found: Summaries) -> Iterable[str]:
    """Rows whose state of L2 is not known."""
    yield "| chip | n | inside the band | its median width | median error of its middle | baseline's |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, one in {**found.trace_by_soc, "all": found.trace}.items():
        yield (
            f"| {name} | {one.summary.n} | {one.inside_band:.0%} | {one.median_hot_to_cold:.2f} "
            f"| {one.summary.median_abs_error:.1%} | {one.summary.naive_median_abs_error:.1%} |"
        )


def ablation_table(rows: list[Ablated]) -> Iterable[str]:
    """What each mechanism is worth."""
    yield "| without | median error | mean error | inside the band | width | rows that move | what it is |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for one in rows:
        yield (
            f"| {f'`{one.name}`' if one.name else 'nothing'} | {one.median_abs_error:.1%} "
            f"| {one.mean_abs_error:.1%} | {one.inside_band:.0%} | {one.median_hot_to_dirty:.2f} "
            f"| {one.changed:.0%} | {one.text} |"
        )


def picture(of: Comparison) -> str:
    """Predicted against measured, as SVG; a bar is the band of a row whose state of L2 is not known."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "atlas", "font.size": 9, "svg.fonttype": "none"})
    figure, axes = plt.subplots(figsize=(7.2, 6.4), layout="constrained")
    chips = sorted({case.soc for case in of.of.cases})
    colour = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(chips)}
    soc = np.array([of.of.cases[place].soc for place in of.case.tolist()])
    span = np.array([0.9, 12000.0])
    axes.fill_between(span, span / 1.1, span * 1.1, color="#dddddd", linewidth=0, label="within 10 %")
    axes.plot(span, span, color="#999999", linewidth=0.8)
    for name in chips:
        band = (soc == name) & ~of.point & of.vendor
        low, high = np.fmin(of.hot, of.cold), np.fmax(of.hot, of.cold)
        axes.vlines(of.measured[band], low[band], high[band], color=colour[name], alpha=0.25, linewidth=1.1)
        exact = (soc == name) & of.point & of.vendor
        counts = ((int(exact.sum()), "runs"), (int(band.sum()), "bands"))
        label = f"{name}: {', '.join(f'{count} {what}' for count, what in counts if count)}"
        axes.plot([], [], "o", color=colour[name], label=label, markersize=5)
        axes.plot(of.measured[exact], of.predicted[exact], "o", color=colour[name], markersize=5, zorder=3)
    axes.set(xscale="log", yscale="log", xlim=tuple(span), ylim=tuple(span))
    axes.set_xlabel("measured on silicon, µs")
    axes.set_ylabel("predicted, µs")
    axes.set_title("Vendor elementwise kernels: predicted against measured", fontsize=10)
    axes.set_aspect("equal")
    axes.grid(True, which="major", color="#eeeeee", linewidth=0.6)
    axes.legend(loc="upper left", frameon=False, fontsize=8)
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def replaced(page: str, name: str, lines: Iterable[str]) -> str:
    """``page`` with other lines between the markers called ``name``."""
    begin, end = f"<!-- {name}: made by tests/bench/accuracy.py -->", f"<!-- end of {name} -->"
    if begin not in page:
        raise SystemExit(f"{PAGE} has no {begin}")
    inner = "\n".join(lines)
    return re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", f"{begin}\n{inner}\n{end}", page, flags=re.DOTALL)


def with_errors(page: str, of: Comparison, figures: Summaries) -> str:
    """``page`` with its tables of errors written anew."""
    for name, lines in (
        ("runs", mse_table(of)),
        ("known", known_table(of, figures)),
        ("bands", band_table(figures)),
    ):
        page = replaced(page, name, lines)
    return page


def main() -> None:
    """Write the page and the picture."""
    found = measure(MEASUREMENTS)
    of = compare(found)
    page = with_errors(PAGE.read_text(encoding="utf-8"), of, summaries(of))
    page = replaced(page, "ablation", ablation_table(ablation(found)))
    PAGE.write_text(page, encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(of), encoding="utf-8")


if __name__ == "__main__":
    main()

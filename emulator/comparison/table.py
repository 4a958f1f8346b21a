"""Measured times of a comparison as a table of measurements, which ``validate`` and ``calibrate`` read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from emulator.comparison.compare import Compared, Outcome

COLUMNS = (
    *("id", "soc", "kernel", "op", "in_dtypes", "out_dtypes", "in_shapes", "out_shapes", "block_dim"),
    *("l2_state", "duration_us", "source", "note"),
)
"""Those of ``emulator.validation.columns``."""

OP = "MseLossGrad"
ORDER = ("self", "target", "grad_output")
"""The order in which the vendor's kernel takes its inputs (predict, label, dout)."""


def measurements(found: Iterable[Compared]) -> str:
    """A row for every time that was measured, with the header alone where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for number, compared in enumerate(found, start=1):
        for outcome in compared.outcomes:
            if outcome.result is not None and outcome.result.measured is not None:
                writer.writerow(_row(f"{outcome.backend}-{number}", outcome))
    return text.getvalue()


def _row(identity: str, outcome: Outcome) -> list[str]:
    result = outcome.result
    assert result is not None
    assert result.measured is not None
    times = result.measured
    low, high = times.quartiles_us
    whose = "the emulated libraries, no card" if times.emulated else "a card"
    return [
        *(identity, result.soc.name, "vendor", OP),
        *(";".join([result.dtype] * len(ORDER)), result.dtype),
        ";".join(_dims(result.shapes[name]) for name in ORDER),
        *(_dims(result.shapes["out"]), ""),
        *(times.l2, f"{times.median_us:.6g}", f"atlas-emu compare: events on {whose}"),
        f"median of {times.repeats}, quartiles {low:.6g} and {high:.6g}, empty events {times.empty_us:.6g}, "
        f"reduction {result.reduction}",
    ]


def _dims(shape: tuple[int, ...]) -> str:
    return ",".join(map(str, shape))

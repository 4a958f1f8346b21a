"""What a set of predictions was worth, in the figures that every summary has."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulator.validation.kendall import kendall_tau

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""11 us for 10 us is an error of 10 %, whatever binary fractions make of it."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of ``n`` rows; all but ``n`` are ``None`` where it is 0.

    The error of a row is predicted over measured, less one. ``within_10pct``, ``within_20pct`` and
    ``bound_violations`` (measured in less than the lower bound) are shares of the rows. ``worst_row`` is the
    id of the row with the largest absolute error. ``kendall_tau`` (tau-b) is ``None`` too where all rows
    agree in a time. ``naive_median_abs_error``: of the baseline in :mod:`emulator.validation.naive`.
    """

    n: int
    median_abs_error: float | None = None
    mean_abs_error: float | None = None
    signed_mean: float | None = None
    within_10pct: float | None = None
    within_20pct: float | None = None
    worst_abs_error: float | None = None
    worst_row: str | None = None
    kendall_tau: float | None = None
    bound_violations: float | None = None
    naive_median_abs_error: float | None = None


def summary(
    measured: Floats, predicted: Floats, bound: Floats, naive: Floats, ids: list[str] | NDArray[np.object_]
) -> Summary:
    """The statistics of rows given as columns of equal length, times in one unit."""
    count = len(measured)
    if not count:
        return Summary(0)
    signed = predicted / measured - 1
    errors = np.abs(signed)
    worst = int(np.argmax(errors))
    return Summary(
        n=count,
        median_abs_error=float(np.median(errors)),
        mean_abs_error=float(np.mean(errors)),
        signed_mean=float(np.mean(signed)),
        within_10pct=float(np.mean(errors <= 0.10 + ROUNDING)),
        within_20pct=float(np.mean(errors <= 0.20 + ROUNDING)),
        worst_abs_error=float(errors[worst]),
        worst_row=str(ids[worst]),
        kendall_tau=kendall_tau(measured, predicted),
        bound_violations=float(np.mean(measured < bound)),
        naive_median_abs_error=float(np.median(np.abs(naive / measured - 1))),
    )

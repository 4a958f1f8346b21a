"""The statistics of a comparison: of all of it, and by chip, operator, size and kind of kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from emulator.validation.cases import Case
from emulator.validation.compare import Comparison
from emulator.validation.sizes import SIZES, size_index
from emulator.validation.statistics import Summary, summary

Mask = NDArray[np.bool_]
T = TypeVar("T")

SCOPE = "vendor kernels, state of L2 known (hot or cold)"
TRACE_SCOPE = "vendor kernels, state of L2 not known: geometric mean of the hot and the dirty prediction"


@dataclass(frozen=True, slots=True)
class Band:
    """Rows whose state of L2 is not known: the statistics of the geometric mean of hot and dirty, and of the
    band between them. ``inside_band``: share of rows measured within it. ``median_hot_to_cold``: the dirty
    prediction (a cold start among others' writes) over the hot one."""

    summary: Summary
    inside_band: float | None
    median_hot_to_cold: float | None


@dataclass(frozen=True, slots=True)
class Summaries:
    """Statistics by kind of row. What ``overall``, ``by_soc``, ``by_op``, ``by_size`` and ``groups`` cover is
    :data:`SCOPE`; ``by_kernel`` has all rows whose state of L2 is known, by kind of kernel; the ``trace``
    ones cover :data:`TRACE_SCOPE`, and ``trace_by_kernel`` such rows of all kernels.

    ``by_op`` goes by the operator's name in the file.
    """

    overall: Summary
    by_soc: dict[str, Summary]
    by_op: dict[str, Summary]
    by_size: dict[str, Summary]
    by_kernel: dict[str, Summary]
    groups: dict[tuple[str, str, str], Summary]
    trace: Band
    trace_by_soc: dict[str, Band]
    trace_by_op: dict[str, Band]
    trace_by_size: dict[str, Band]
    trace_by_kernel: dict[str, Band]


@dataclass(frozen=True, slots=True)
class Labels:
    """A name for every row: a place in ``names``."""

    names: Sequence[str]
    places: NDArray[np.int64]

    def by(self, mask: Mask, make: Callable[[Mask], T]) -> dict[str, T]:
        """What ``make`` says of the rows of each name that ``mask`` leaves some of."""
        present = np.unique(self.places[mask]).tolist()
        return {self.names[place]: make(mask & (self.places == place)) for place in present}


def labels(of: Comparison, name: Callable[[Case], str]) -> Labels:
    """Rows labelled by something of their case; the names in ascending order."""
    of_case = [name(case) for case in of.of.cases]
    names = sorted(set(of_case))
    place = {text: index for index, text in enumerate(names)}
    places = np.array([place[text] for text in of_case], dtype=np.int64)
    return Labels(names, places[of.case])


def size_labels(of: Comparison) -> Labels:
    """Rows labelled by their class of size."""
    by_bytes = {int(value): size_index(int(value)) for value in np.unique(of.nbytes)}
    return Labels(SIZES, np.array([by_bytes[value] for value in of.nbytes.tolist()], dtype=np.int64))


def summaries(of: Comparison) -> Summaries:
    """All statistics of a comparison."""
    point, trace = of.point & of.vendor, ~of.point & of.vendor
    socs = labels(of, lambda case: case.soc)
    ops = labels(of, lambda case: case.op)
    kernels = labels(of, lambda case: case.kernel)
    sizes = size_labels(of)

    def plain(mask: Mask) -> Summary:
        return summary_of(of, mask)

    def band(mask: Mask) -> Band:
        return trace_of(of, mask)

    return Summaries(
        overall=plain(point),
        by_soc=socs.by(point, plain),
        by_op=ops.by(point, plain),
        by_size=sizes.by(point, plain),
        by_kernel=kernels.by(of.point, plain),
        groups={
            (soc, op, size): one
            for soc, by_op in socs.by(point, lambda m: ops.by(m, lambda n: sizes.by(n, plain))).items()
            for op, by_size in by_op.items()
            for size, one in by_size.items()
        },
        trace=band(trace),
        trace_by_soc=socs.by(trace, band),
        trace_by_op=ops.by(trace, band),
        trace_by_size=sizes.by(trace, band),
        trace_by_kernel=kernels.by(~of.point, band),
    )


def summary_of(of: Comparison, mask: Mask) -> Summary:
    """The statistics of some rows of a comparison."""
    places = np.flatnonzero(mask)
    ids = [of.ids[place] for place in places.tolist()]
    return summary(of.measured[places], of.predicted[places], of.bound[places], of.naive[places], ids)


def trace_of(of: Comparison, mask: Mask) -> Band:
    """The statistics of some rows whose state of L2 is not known."""
    some = bool(mask.any())
    return Band(
        summary_of(of, mask),
        float(np.mean(of.inside[mask])) if some else None,
        float(np.median(of.cold[mask] / of.hot[mask])) if some else None,
    )

"""What each mechanism of the timing model is worth: the same rows predicted without it.

A mechanism that no row needs changes nothing here; that is told too. Numbers are not fitted again, so what is
shown is what the mechanism does in this model, not how well a model without it could have been made to fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.device.mechanisms import MECHANISMS
from emulator.validation.cases import VENDOR, plan_of
from emulator.validation.cells import Unusable
from emulator.validation.compare import COLD, Measured
from emulator.validation.timing import BAND, STATES, check_engine, time_on
from kernel.plan import Plan

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]

CHANGED = 0.005
"""Share of its time by which a prediction has to move to count as changed."""


@dataclass(frozen=True, slots=True)
class Ablated:
    """Predictions without a mechanism (``name`` "" is the whole model) beside silicon.

    Of the vendor's kernels alone. ``rows``, ``median_abs_error``, ``mean_abs_error``, ``signed_mean``: of
    those whose state of L2 is known; ``band_rows``, ``inside_band``, ``median_hot_to_dirty``: of the others.
    ``changed``: the share of all whose prediction moves by more than half a percent.
    """

    name: str
    text: str
    rows: int
    median_abs_error: float | None
    mean_abs_error: float | None
    signed_mean: float | None
    band_rows: int
    inside_band: float | None
    median_hot_to_dirty: float | None
    changed: float

    def to_json(self) -> dict[str, Any]:
        """With stable keys."""
        return {name: getattr(self, name) for name in self.__slots__}


def ablation(
    found: Measured, *, engine: str | None = None, progress: Progress | None = None
) -> list[Ablated]:
    """The whole model first, then without each mechanism, the one that is worth most first."""
    rows = _Rows(found, check_engine(engine))
    names = ["", *MECHANISMS]
    made: dict[str, Ablated] = {}
    whole = None
    for number, name in enumerate(names):
        times = rows.times(frozenset([name] if name else []))
        whole = times if whole is None else whole
        made[name] = rows.summary(name, times, whole)
        if progress is not None:
            progress(number + 1, len(names))
    first, *others = made.values()
    return [first, *sorted(others, key=lambda one: (-_loss(one, first), one.name))]


def _loss(one: Ablated, whole: Ablated) -> float:
    """How much worse it is: in mean error where it is known, and in rows outside the band."""
    losses = []
    if one.mean_abs_error is not None and whole.mean_abs_error is not None:
        losses.append(one.mean_abs_error - whole.mean_abs_error)
    if one.inside_band is not None and whole.inside_band is not None:
        losses.append(whole.inside_band - one.inside_band)
    return max(losses, default=0.0)


class _Rows:
    """Vendor rows with their plans, made once."""

    def __init__(self, found: Measured, engine: str) -> None:
        self._engine = engine
        plans: dict[int, Plan] = {}
        for place, case in enumerate(found.cases):
            if case.kernel != VENDOR:
                continue
            try:
                plan = plan_of(case, found.socs[case.soc])
                for l2 in (*STATES, BAND[1]):
                    time_on(plan, plan.soc, l2, engine)
            except Unusable:
                continue
            plans[place] = plan
        keep = np.isin(found.case, np.fromiter(plans, dtype=np.int64, count=len(plans)))
        self._measured = found.measured[keep]
        self._case, self._state = found.case[keep], found.state[keep]
        self._known = self._state <= COLD
        self._plans = plans

    def times(self, without: frozenset[str]) -> tuple[Floats, Floats]:
        """Of each row the lower and the upper prediction, which agree where the state of L2 is known."""
        made: dict[tuple[int, str], float] = {}

        def time(place: int, l2: str) -> float:
            if (place, l2) not in made:
                plan = self._plans[place]
                made[place, l2] = time_on(plan, plan.soc, l2, self._engine, without).us
            return made[place, l2]

        pairs = [
            [time(place, l2) for l2 in ((STATES[state],) * 2 if state <= COLD else BAND)]
            for place, state in zip(self._case.tolist(), self._state.tolist(), strict=True)
        ]
        both = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        return both.min(axis=1), both.max(axis=1)

    def summary(self, name: str, times: tuple[Floats, Floats], whole: tuple[Floats, Floats]) -> Ablated:
        low, high = times
        known, band = self._known, ~self._known
        signed = low[known] / self._measured[known] - 1
        errors = np.abs(signed)
        inside = (self._measured >= low) & (self._measured <= high)
        moved = np.maximum(np.abs(low / whole[0] - 1), np.abs(high / whole[1] - 1)) > CHANGED
        return Ablated(
            name,
            MECHANISMS[name].text if name else "the whole model",
            int(known.sum()),
            float(np.median(errors)) if len(errors) else None,
            float(np.mean(errors)) if len(errors) else None,
            float(np.mean(signed)) if len(errors) else None,
            int(band.sum()),
            float(np.mean(inside[band])) if band.any() else None,
            float(np.median((high / low)[band])) if band.any() else None,
            float(np.mean(moved)) if len(moved) else 0.0,
        )

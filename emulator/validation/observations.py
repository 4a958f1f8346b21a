"""What a fit is held against: measured calls, and how far a chip's predictions are from them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emulator.validation.cases import plan_of
from emulator.validation.cells import Unusable
from emulator.validation.compare import COLD, Measured
from emulator.validation.timing import BAND, STATES, time_on
from kernel.plan import Plan
from socs.spec import Soc

Floats = NDArray[np.float64]

WIDTH_WEIGHT = 0.1
"""Weight of the width of a band, beside the distance from it: a calibration that widens all bands by a half
has to bring measured times nearer by as much as a twenty-fifth each. Of the 539 runs on an Ascend910B it
leaves 78 % inside at a width of 1.75; with half of it they are 88 % at 2.5, with 0.25 60 % at 1.3."""

BAND_WEIGHT = 0.25
"""Weight of the middle of a band, beside the distance from the band: without it a calibration could widen
bands at no cost; with a larger one it would believe that L2 was half full."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One call in one state of L2 (``None``: not known), and the mean logarithm of its measured times.

    ``width``: what is observed is the width of the band alone, which ought to be small.
    """

    plan: Plan
    l2: str | None
    log_measured: float
    ids: tuple[str, ...]
    width: bool = False


class Observations:
    """The calls of a file on one chip."""

    def __init__(self, observations: Sequence[Observation], engine: str) -> None:
        self.all = tuple(observations)
        self._engine = engine
        self._states = [BAND if one.l2 is None else (one.l2,) for one in self.all]

    def __len__(self) -> int:
        return len(self.all)

    @property
    def calls(self) -> int:
        """Measured calls: observations without the widths of bands."""
        return sum(not one.width for one in self.all)

    @property
    def rows(self) -> int:
        """Measured rows behind the observations."""
        return sum(len(one.ids) for one in self.all if not one.width)

    def log_times(self, soc: Soc, which: Collection[int] | None = None) -> list[tuple[float, ...]]:
        """Logarithms of the predicted times, hot before cold, of all observations or of some."""
        made: dict[tuple[int, str], float] = {}

        def log_time(plan: Plan, l2: str) -> float:
            key = (id(plan), l2)
            if key not in made:
                made[key] = math.log(max(time_on(plan, soc, l2, self._engine).us, 1e-12))
            return made[key]

        places = range(len(self.all)) if which is None else which
        return [tuple(log_time(self.all[place].plan, l2) for l2 in self._states[place]) for place in places]

    def used(self, soc: Soc) -> list[frozenset[str]]:
        """The numbers that each observation's predictions read."""
        return [
            frozenset().union(*(time_on(one.plan, soc, l2, self._engine).used for l2 in states))
            for one, states in zip(self.all, self._states, strict=True)
        ]

    def residual(self, place: int, log_times: tuple[float, ...]) -> float:
        """How far observation ``place`` is from its prediction, in logarithms; above 0 predicts too long.

        Where the state of L2 is not known: the distance from the band between hot and dirty, and a little of
        that from its middle.
        """
        measured = self.all[place].log_measured
        if len(log_times) == 1:
            return log_times[0] - measured
        low, high = min(log_times), max(log_times)
        if self.all[place].width:
            return WIDTH_WEIGHT * (high - low)
        outside = min(max(measured, low), high) - measured
        return outside + BAND_WEIGHT * ((low + high) / 2 - measured)

    def residuals(self, log_times: Sequence[tuple[float, ...]]) -> Floats:
        """All residuals."""
        return np.array([self.residual(place, times) for place, times in enumerate(log_times)])


def observations(
    found: Measured, soc: Soc, engine: str, *, kernels: Collection[str], exclude: Collection[str] = ()
) -> Observations:
    """The observations on ``soc`` of certain kinds of kernel, without the rows in ``exclude``.

    Rows that measured the same call are one observation: a call counts once, however often it was repeated.
    """
    times: dict[tuple[int, int], list[tuple[float, str]]] = {}
    for identity, value, case, state in zip(
        found.ids, found.measured.tolist(), found.case.tolist(), found.state.tolist(), strict=True
    ):
        about = found.cases[case]
        if about.soc == soc.name and about.kernel in kernels and identity not in exclude:
            times.setdefault((case, min(state, COLD + 1)), []).append((math.log(value), identity))
    made = []
    for (case, state), values in times.items():
        l2 = STATES[state] if state <= COLD else None
        try:
            plan = plan_of(found.cases[case], soc)
            for one in BAND if l2 is None else (l2,):
                time_on(plan, soc, one, engine)
        except Unusable:
            continue
        mean = sum(value for value, _ in values) / len(values)
        ids = tuple(identity for _, identity in values)
        made.append(Observation(plan, l2, mean, ids))
        if l2 is None:
            made.append(Observation(plan, l2, mean, ids, width=True))
    return Observations(made, engine)

"""Least squares on the logarithm of time: which numbers the rows determine, and what they are.

Unknowns are the numbers as multiples of what they were. Beside the rows there is what was known before: each
number pulls back, as weakly as a measurement of it that is good to five times its own size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.validation.free import Free, number, with_numbers
from emulator.validation.observations import Observations
from socs.errors import AtlasError
from socs.spec import Soc

Floats = NDArray[np.float64]

PULL = 0.01
"""Weight of what a number was before: :data:`NOISE` over five."""

STEP = 0.02
"""Of a derivative, as a share of the number; at least one where it is whole."""

NOISE = 0.05
"""Scatter of a measured time around any model, as a share: what repeated runs in the shipped rows show."""

DETERMINED = 0.25
"""A number counts as determined if its standard error is at most this share of it, where the scatter is
:data:`NOISE` and all numbers that are better determined are free as well."""

ONE_SIDED = 1.0
"""A standard error, as a share of the number before, above which the rows only say which way it went."""

OUTLIER = 0.10
"""Residuals beyond this share count less and less (soft L1), so that a few outliers do not decide."""

MAX_ROUNDS = 3

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Number:
    """A fitted number. ``standard_error`` is a share of it; ``at_limit``: the fit would go further;
    ``one_sided``: the rows say that it is no smaller, or no larger, than about this, and nothing more.
    """

    key: str
    before: float
    after: float
    low: float
    high: float
    standard_error: float
    at_limit: bool
    one_sided: bool


@dataclass(frozen=True, slots=True)
class Fit:
    """What came of it: the chip with the fitted numbers, these, and why others were left alone, by key.

    ``rms``: root mean square of the residuals of all observations, in logarithms of time.
    """

    soc: Soc
    numbers: tuple[Number, ...]
    left: dict[str, str]
    rms_before: float
    rms_after: float


def fit(of: Observations, soc: Soc, free: Sequence[Free], tell: Tell | None = None) -> Fit:
    """Fit those of ``free`` that the observations determine, from the numbers that ``soc`` has.

    The same observations give the same numbers. Raises ``AtlasError`` where scipy is not installed, or where
    nothing is determined.
    """
    solve = _least_squares()
    say = tell or (lambda text: None)
    say("seeing what the rows depend on")
    problem = _Problem(of, soc, free)
    x, chosen, left = problem.start, list[int](), dict[str, str]()
    for _ in range(MAX_ROUNDS):
        # Where the numbers have moved, the rows may depend on others than before.
        further, left = _determined(problem, x, chosen)
        if not further:
            break
        chosen = sorted([*chosen, *further])
        say(f"fitting {len(chosen)} numbers to {of.calls} calls")
        x = _solved(solve, problem, x, chosen)
    if not chosen:
        told = "; ".join(f"{key}: {why}" for key, why in list(left.items())[:3])
        raise AtlasError(f"{of.calls} calls determine none of the numbers of {soc.name} ({told})")
    numbers, final = _numbers(problem, x, chosen)
    order = [one.key for one in free]
    return Fit(
        final,
        numbers,
        {key: left[key] for key in sorted(left, key=order.index)},
        _rms(of.residuals(of.log_times(soc))),
        _rms(of.residuals(of.log_times(final))),
    )


class _Problem:
    """The observations as a function of the free numbers, in multiples of what they were."""

    def __init__(self, of: Observations, soc: Soc, free: Sequence[Free]) -> None:
        self.of, self.soc, self.free = of, soc, free
        limits = np.array([one.limits(soc) for one in free]).reshape(-1, 2)
        given = np.array([number(soc, one.key) for one in free])
        # A number that is 0, or outside its limits, has no multiples: the nearest limit's are taken.
        inside = np.clip(given, limits[:, 0], limits[:, 1])
        self.scale = inside
        self.start = np.ones(len(free))
        self.low, self.high = limits[:, 0] / inside, limits[:, 1] / inside
        used = of.used(soc)
        self.readers = [[p for p, keys in enumerate(used) if _reads(keys, one.key)] for one in free]

    def chip(self, x: Floats, columns: Sequence[int]) -> Soc:
        """The chip with the numbers in ``columns`` of ``x``, and its own others."""
        return with_numbers(self.soc, {self.free[c].key: float(x[c] * self.scale[c]) for c in columns})

    def residuals(self, x: Floats, columns: Sequence[int]) -> Floats:
        return self.of.residuals(self.of.log_times(self.chip(x, columns)))

    def jacobian(self, x: Floats, columns: Sequence[int]) -> Floats:
        """Of the residuals by each of ``columns``, by a step to either side."""
        found = np.zeros((len(self.of), len(columns)))
        for place, column in enumerate(columns):
            readers = self.readers[column]
            below, above = self._moved(x, column, -1), self._moved(x, column, +1)
            if not readers or above == below:
                continue
            sides = []
            for side in (above, below):
                moved = x.copy()
                moved[column] = side
                times = self.of.log_times(self.chip(moved, columns), readers)
                sides.append([self.of.residual(p, t) for p, t in zip(readers, times, strict=True)])
            found[readers, place] = (np.array(sides[0]) - np.array(sides[1])) / (above - below)
        return found

    def is_whole(self, column: int) -> bool:
        return isinstance(_raw(self.soc, self.free[column].key), int)

    def _moved(self, x: Floats, column: int, sign: int) -> float:
        """A step in one direction, inside the limits, to a number that the chip can have."""
        scale = float(self.scale[column])
        value = float(x[column]) * scale
        step = STEP * max(value, scale)
        if self.is_whole(column):
            value, step = float(round(value)), max(1.0, float(round(step)))
        low, high = float(self.low[column]), float(self.high[column])
        return min(max((value + sign * step) / scale, low), high)


def _determined(problem: _Problem, x: Floats, chosen: Sequence[int]) -> tuple[list[int], dict[str, str]]:
    """Which numbers beside those in ``chosen`` the rows determine at ``x``, and why they do not the others.

    Pivoting: in each turn the number whose effect is largest beyond what the ones before it can imitate.
    """
    columns = list(range(len(problem.free)))
    jacobian = problem.jacobian(x, columns)
    rest = jacobian.copy()
    for column in chosen:
        _without(rest, column)
    found: list[int] = []
    limit = max(1, len(problem.of) // 2)
    while len(found) + len(chosen) < min(limit, len(columns)):
        norms = np.linalg.norm(rest, axis=0)
        norms[[*found, *chosen]] = 0
        best = int(np.argmax(norms))
        if norms[best] * DETERMINED < NOISE:
            break
        found.append(best)
        _without(rest, best)
    left: dict[str, str] = {}
    for column in sorted({*columns} - {*found, *chosen}):
        alone = float(np.linalg.norm(jacobian[:, column]))
        if alone == 0:
            why = "no row depends on it"
        elif alone * DETERMINED < NOISE:
            why = "the rows hardly depend on it"
        elif len(found) + len(chosen) >= limit:
            why = f"{len(problem.of)} calls are too few for more than {limit} numbers"
        else:
            why = "the rows do not tell it from the numbers that are fitted"
        left[problem.free[column].key] = why
    return found, left


def _without(rest: Floats, column: int) -> None:
    """Take what one column can explain out of all of them."""
    norm = float(np.linalg.norm(rest[:, column]))
    if norm:
        direction = rest[:, column] / norm
        rest -= np.outer(direction, direction @ rest)


def _solved(solve: Any, problem: _Problem, start: Floats, columns: list[int]) -> Floats:
    def whole(part: Floats) -> Floats:
        x = problem.start.copy()
        x[columns] = part
        return x

    def residuals(part: Floats) -> Floats:
        return np.concatenate([problem.residuals(whole(part), columns), PULL * (part - 1)])

    def jacobian(part: Floats) -> Floats:
        return np.vstack([problem.jacobian(whole(part), columns), PULL * np.eye(len(columns))])

    low, high = problem.low[columns], problem.high[columns]
    margin = 1e-9 * (high - low)
    solution = solve(
        residuals,
        np.clip(start[columns], low + margin, high - margin),
        jac=jacobian,
        bounds=(low, high),
        method="trf",
        loss="soft_l1",
        f_scale=OUTLIER,
        xtol=1e-5,
        ftol=1e-6,
        max_nfev=60,
    )
    return whole(np.asarray(solution.x, dtype=np.float64))


def _errors(problem: _Problem, x: Floats, columns: list[int]) -> Floats:
    """Standard errors of the unknowns, from the scatter that is left."""
    jacobian = problem.jacobian(x, columns)
    scatter = max(_typical(problem.residuals(x, columns)), NOISE / 5)
    covariance = np.linalg.pinv(jacobian.T @ jacobian + np.eye(len(columns)) * 1e-12)
    found: Floats = scatter * np.sqrt(np.maximum(np.diag(covariance), 0))
    return found


def _numbers(problem: _Problem, x: Floats, columns: list[int]) -> tuple[tuple[Number, ...], Soc]:
    """The fitted numbers, rounded to what is worth writing down, and the chip that has them."""
    values: dict[str, float] = {}
    found = []
    for column, error in zip(columns, _errors(problem, x, columns).tolist(), strict=True):
        key, scale = problem.free[column].key, float(problem.scale[column])
        value, low, high = (float(v[column]) for v in (x, problem.low, problem.high))
        after = value * scale
        values[key] = float(round(after)) if problem.is_whole(column) else float(f"{after:.4g}")
        found.append(
            Number(
                key,
                float(_raw(problem.soc, key)),
                values[key],
                low * scale,
                high * scale,
                error / value,
                min(value - low, high - value) < 1e-3 * value,
                error > ONE_SIDED * max(value, 1.0),
            )
        )
    return tuple(found), with_numbers(problem.soc, values)


def _reads(used: frozenset[str], key: str) -> bool:
    return any(key == prefix or key.startswith(f"{prefix}.") for prefix in used)


def _raw(soc: Soc, key: str) -> int | float:
    held: Any = soc
    for part in key.split("."):
        held = getattr(held, part)
    assert isinstance(held, (int, float))
    return held


def _rms(residuals: Floats) -> float:
    return float(np.sqrt(np.mean(residuals**2))) if len(residuals) else 0.0


def _typical(residuals: Floats) -> float:
    """The scatter of most of them: 1.48 times the median, which a few outliers do not change."""
    return 1.4826 * float(np.median(np.abs(residuals))) if len(residuals) else 0.0


def _least_squares() -> Any:
    try:
        from scipy.optimize import least_squares
    except ImportError:
        raise AtlasError("calibration needs scipy: pip install 'atlas-emulator[calibrate]'") from None
    return least_squares

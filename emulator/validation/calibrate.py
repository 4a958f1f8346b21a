"""From measured rows to a chip's numbers: what is fitted, and what came of it before and after."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from emulator.validation.bands import bands
from emulator.validation.cases import VENDOR
from emulator.validation.compare import Comparison, Measured, compare
from emulator.validation.fit import Fit, fit
from emulator.validation.free import Free, free_of
from emulator.validation.observations import observations
from emulator.validation.statistics import Summary
from emulator.validation.summaries import Band, summary_of, trace_of
from emulator.validation.timing import check_engine
from emulator.validation.toml import chip_text
from socs.errors import AtlasError
from socs.spec import Soc


@dataclass(frozen=True, slots=True)
class Side:
    """Predictions with one set of numbers: of the rows that were fitted, of those that were not but could
    have been, and of those whose state of L2 is not known."""

    fitted: Summary
    held_out: Summary
    trace: Band
    of: Comparison


@dataclass(frozen=True, slots=True)
class Calibration:
    """``fit`` of ``calls`` calls, its statistics before and after, and the ids of the rows that went into it
    and of those that were left out on purpose."""

    soc: Soc
    fit: Fit
    calls: int
    fitted: tuple[str, ...]
    kernels: tuple[str, ...]
    excluded: tuple[str, ...]
    before: Side
    after: Side

    @property
    def rows(self) -> int:
        """Rows that were fitted."""
        return len(self.fitted)


def calibrate(
    found: Measured,
    soc: Soc,
    *,
    kernels: Collection[str] = (VENDOR,),
    exclude: Collection[str] = (),
    keys: Collection[str] = (),
    engine: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> Calibration:
    """Fit the free numbers of ``soc`` to its rows in ``found`` (all of which may stay in the statistics).

    ``kernels``: kinds of kernel whose rows are fitted. ``exclude``: ids of rows that are reported and not
    fitted. ``keys``: the numbers that may be freed (all of :data:`emulator.validation.free.FREE` if empty).
    Raises ``AtlasError``: an id or key that there is not, nothing to fit, scipy missing.
    """
    chosen = check_engine(engine)
    missed = sorted(set(exclude) - set(found.ids))
    if missed:
        raise AtlasError(f"no usable row has the id {missed[0]!r}, which is to be excluded")
    of = observations(found, soc, chosen, kernels=kernels, exclude=exclude)
    if not len(of):
        raise AtlasError(f"there is no row of a {' or '.join(kernels)} kernel on {soc.name} to fit")
    result = fit(of, soc, _free(soc, keys), tell)
    fitted = {identity for one in of.all for identity in one.ids}
    return Calibration(
        soc,
        result,
        of.calls,
        tuple(identity for one in of.all if not one.width for identity in one.ids),
        tuple(kernels),
        tuple(identity for identity in found.ids if identity in set(exclude)),
        _side(found, soc, fitted, chosen),
        _side(found, result.soc, fitted, chosen),
    )


def calibrated_text(of: Calibration, extends: str, source: str) -> str:
    """The TOML file of a calibration. ``extends``: name or path of the chip; ``source``: the file fitted."""
    made = bands(of.after.of, of.fitted).get(of.soc.name, [])
    by = "; ".join(of.after.of.of.sources.get(of.soc.name, ()))
    ref = f"fitted to {of.rows} rows of {source}" + (f" ({by})" if by else "")
    return chip_text(of.soc, extends, of.fit.numbers, ref=ref, validation=made)


def recipes(path: Path) -> dict[str, dict[str, Any]]:
    """How the shipped numbers of chips come out of the shipped rows, by chip: ``exclude`` (ids), ``kernels``
    (kinds) and ``free`` (keys), each where it is not the default of :func:`calibrate`."""
    found: dict[str, dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found


def fitted_ids(of: Comparison, path: Path) -> set[str]:
    """The rows of a comparison that the chips with a recipe in ``path`` were fitted to."""
    found = set()
    known = recipes(path)
    for identity, place in zip(of.ids, of.case.tolist(), strict=True):
        case = of.of.cases[place]
        how = known.get(case.soc)
        if (
            how is not None
            and case.kernel in how.get("kernels", (VENDOR,))
            and identity not in how.get("exclude", ())
        ):
            found.add(identity)
    return found


def _free(soc: Soc, keys: Collection[str]) -> tuple[Free, ...]:
    every = free_of(soc)
    known = [free.key for free in every]
    for key in keys:
        if key not in known:
            raise AtlasError(
                f"{key}: no number of {soc.name} that can be fitted; there are {', '.join(known)}"
            )
    return tuple(free for free in every if not keys or free.key in keys)


def _side(found: Measured, soc: Soc, fitted: Collection[str], engine: str) -> Side:
    of = compare(found.on(soc), engine=engine)
    inside = np.array([identity in fitted for identity in of.ids], dtype=bool)
    return Side(
        summary_of(of, of.point & inside),
        summary_of(of, of.point & ~inside),
        trace_of(of, ~of.point & of.vendor),
        of,
    )

"""A file of measurements beside the predictions for it: one pass over its rows, one prediction per call."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from emulator.validation.cases import VENDOR, Case, case_of, plan_of, tensor_bytes, text_key
from emulator.validation.cells import Unusable, duration_us
from emulator.validation.columns import RawRow
from emulator.validation.naive import naive_us
from emulator.validation.reading import Broken, opened
from emulator.validation.timing import BAND, STATES, check_engine, time_of
from socs import load
from socs.errors import AtlasError
from socs.spec import Soc

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HOT, COLD, TRACE, UNKNOWN = range(4)
STATE_NAMES = (*STATES, "trace", "unknown")
"""``trace``: somewhere in a larger run; like ``unknown`` it leaves open what L2 held."""
_STATES = {name: state for state, name in enumerate(STATE_NAMES)}

_PREDICTED = (*STATES, BAND[1])
"""The states that are predicted; those of a band are the first and the last."""
_DIRTY = len(STATES)

MAX_REASONS = 100
"""Reasons that are counted apart; a file may hold a million unknown operators."""

EXAMPLES = 5

MAX_SOURCES = 10
"""Sources that are named for a chip."""

Progress = Callable[[int, int], None]
"""Called with the predictions made and those to make."""


@dataclass(slots=True)
class Reason:
    """Why rows could not be predicted: how many, the ids of the first, and what it was for the first."""

    count: int = 0
    ids: list[str] = field(default_factory=list)
    detail: str = ""


class Skipped:
    """Counts of the rows that were left out, by reason."""

    def __init__(self) -> None:
        self.reasons: dict[str, Reason] = {}

    def add(self, error: Unusable, identity: str) -> None:
        reason = error.reason
        if reason not in self.reasons and len(self.reasons) >= MAX_REASONS:
            reason = "other reasons"
        found = self.reasons.setdefault(reason, Reason(detail=error.detail))
        found.count += 1
        if len(found.ids) < EXAMPLES:
            found.ids.append(identity)

    @property
    def total(self) -> int:
        """Rows left out."""
        return sum(reason.count for reason in self.reasons.values())

    def by_count(self) -> list[tuple[str, Reason]]:
        """The reasons, the most frequent first."""
        return sorted(self.reasons.items(), key=lambda item: (-item[1].count, item[0]))


@dataclass(frozen=True, slots=True)
class Measured:
    """The usable rows of a file as columns, and the calls that they measured.

    ``case`` holds places in ``cases``, ``state`` in :data:`STATE_NAMES`. ``socs`` has the chip of every
    case by its name, ``sources`` who measured the rows of a chip, where they say so.
    """

    cases: list[Case]
    socs: dict[str, Soc]
    ids: list[str]
    measured: Floats
    case: Ints
    state: Ints
    skipped: Skipped
    rows: int
    sources: dict[str, list[str]]

    def on(self, soc: Soc) -> Measured:
        """The rows of the chip called as ``soc``, to be predicted with its numbers; none is skipped yet."""
        mine = np.array([case.soc == soc.name for case in self.cases], dtype=bool)
        keep = mine[self.case]
        return Measured(
            self.cases,
            {**self.socs, soc.name: soc},
            [identity for identity, kept in zip(self.ids, keep.tolist(), strict=True) if kept],
            self.measured[keep],
            self.case[keep],
            self.state[keep],
            Skipped(),
            int(keep.sum()),
            self.sources,
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Predictions beside measurements, in microseconds, as columns.

    ``predicted`` of a row whose state of L2 is not known is the geometric mean of ``hot`` and ``cold``, which
    there is dirty (:data:`emulator.validation.timing.BAND`); of the others only the state that was measured
    is predicted, the other is NaN. ``bound`` is that of the faster state. ``naive`` and ``nbytes``: the
    baseline and the bytes of the tensors. ``case`` and ``state`` as in :class:`Measured`.
    """

    of: Measured
    ids: list[str]
    measured: Floats
    predicted: Floats
    hot: Floats
    cold: Floats
    bound: Floats
    naive: Floats
    nbytes: Ints
    case: Ints
    state: Ints
    engine: str

    @property
    def skipped(self) -> Skipped:
        """Why rows were left out."""
        return self.of.skipped

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Whether a row lies within its band; False where only one state was predicted."""
        low, high = np.minimum(self.hot, self.cold), np.maximum(self.hot, self.cold)
        return (self.measured >= low) & (self.measured <= high)

    def of_kernel(self, kernel: str) -> NDArray[np.bool_]:
        """Which rows measured that kind of kernel."""
        wanted = np.array([case.kernel == kernel for case in self.of.cases], dtype=bool)
        return wanted[self.case] if len(self.case) else np.zeros(0, dtype=bool)

    @property
    def point(self) -> NDArray[np.bool_]:
        """Rows whose state of L2 is known."""
        return self.state <= COLD

    @property
    def vendor(self) -> NDArray[np.bool_]:
        """Rows that measured the vendor's kernel."""
        return self.of_kernel(VENDOR)


def measure(
    path: Path, *, soc: Soc | None = None, l2: str | None = None, exclude: Iterable[str] = ()
) -> Measured:
    """Read a file. ``soc``: the chip of a raw profile; of a table, the only chip whose rows are taken.

    ``l2``: ``hot`` or ``cold`` for rows that do not say. ``exclude``: ids of rows to leave out.
    Raises ``AtlasError`` for a file that cannot be used at all.
    """
    left_out, missed = set(exclude), set(exclude)
    skipped, known = Skipped(), _Known(soc)
    ids: list[str] = []
    measured, cases, states = array("d"), array("q"), array("q")
    rows = 0
    with opened(path, needs_soc=soc is None) as (form, lines):
        if form.raw and soc is None:
            raise AtlasError(f"{path}: {form.name} names no chip: give it with --soc")
        for number, row in lines:
            rows += 1
            if isinstance(row, Broken):
                skipped.add(Unusable(str(row)), f"line {number}")
                continue
            identity = row.id.strip() or f"line {number}"
            try:
                if identity in left_out:
                    missed.discard(identity)
                    raise Unusable("excluded")
                case = known.case(row, form.raw)
                value = duration_us(row.duration)
            except Unusable as error:
                skipped.add(error, identity)
                continue
            ids.append(identity)
            known.credit(case, row.source.strip())
            measured.append(value)
            cases.append(case)
            states.append(_state(row, l2))
    if missed:
        raise AtlasError(f"{path}: no row has the id {sorted(missed)[0]!r}, which is to be excluded")
    return Measured(
        known.cases,
        known.socs,
        ids,
        np.frombuffer(measured, dtype=np.float64).copy() if ids else np.zeros(0),
        _ints(cases),
        _ints(states),
        skipped,
        rows,
        known.sources,
    )


def stated(l2: str) -> str | None:
    """``--l2`` as :func:`measure` takes it. ``AtlasError`` for another word."""
    if l2 not in (*STATES, "band"):
        raise AtlasError(f"l2 = {l2!r}: must be hot, cold or band")
    return None if l2 == "band" else l2


def check_usable(found: Measured, usable: int, path: Path) -> None:
    """Raise ``AtlasError`` with the reasons where no row is left."""
    if usable:
        return
    if not found.rows:
        raise AtlasError(f"{path}: has column names and no rows")
    reasons = found.skipped.by_count()
    told = "; ".join(f"{why.count:,} {reason}" for reason, why in reasons[:3])
    more = f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
    raise AtlasError(f"{path}: none of its {found.rows:,} rows can be predicted: {told}{more}")


def compare(found: Measured, *, engine: str | None = None, progress: Progress | None = None) -> Comparison:
    """Predict every call that was measured, once for each state of L2 that some row needs."""
    chosen = check_engine(engine)
    needed = np.zeros((len(_PREDICTED), len(found.cases)), dtype=bool)
    for state in (HOT, COLD):
        needed[state, found.case[found.state == state]] = True
    for state in (HOT, _DIRTY):
        needed[state, found.case[found.state > COLD]] = True
    us = np.full(needed.shape, np.nan)
    bound = np.full(needed.shape, np.nan)
    naive = np.full(len(found.cases), np.nan)
    nbytes = np.zeros(len(found.cases), dtype=np.int64)
    failed: dict[int, Unusable] = {}
    for index, case in enumerate(found.cases):
        soc = found.socs[case.soc]
        if not needed[:, index].any():
            continue
        nbytes[index] = min(tensor_bytes(case), np.iinfo(np.int64).max)
        naive[index] = naive_us(soc, int(nbytes[index]))
        try:
            plan = plan_of(case, soc)
            for state, l2 in enumerate(_PREDICTED):
                if needed[state, index]:
                    time = time_of(plan, l2, chosen)
                    us[state, index], bound[state, index] = time.us, time.bound_us
        except Unusable as error:
            failed[index] = error
        if progress is not None:
            progress(index + 1, len(found.cases))
    keep = np.ones(len(found.ids), dtype=bool)
    if failed:
        keep = ~np.isin(found.case, np.fromiter(failed, dtype=np.int64))
        for place in np.flatnonzero(~keep).tolist():
            found.skipped.add(failed[int(found.case[place])], found.ids[place])
    return _joined(found, keep, us, bound, naive, nbytes, chosen)


def _joined(
    found: Measured,
    keep: NDArray[np.bool_],
    us: Floats,
    bound: Floats,
    naive: Floats,
    nbytes: Ints,
    engine: str,
) -> Comparison:
    case, state = found.case[keep], found.state[keep]
    band = state > COLD
    hot = np.where(state != COLD, us[HOT, case], np.nan)
    cold = np.where(state != HOT, np.where(band, us[_DIRTY, case], us[COLD, case]), np.nan)
    both = np.sqrt(us[HOT, case] * us[_DIRTY, case])
    return Comparison(
        of=found,
        ids=[identity for identity, kept in zip(found.ids, keep.tolist(), strict=True) if kept],
        measured=found.measured[keep],
        predicted=np.where(band, both, np.where(state == HOT, hot, cold)),
        hot=hot,
        cold=cold,
        bound=np.where(
            band, np.fmin(bound[HOT, case], bound[_DIRTY, case]), bound[np.minimum(state, COLD), case]
        ),
        naive=naive[case],
        nbytes=nbytes[case],
        case=case,
        state=state,
        engine=engine,
    )


class _Known:
    """Cases by the text of their rows, so that a million equal rows are parsed and predicted once."""

    def __init__(self, soc: Soc | None) -> None:
        self._soc = soc
        self._by_text: dict[tuple[str, ...], int | Unusable] = {}
        self._by_case: dict[Case, int] = {}
        self.cases: list[Case] = []
        self.socs: dict[str, Soc] = {}
        self.sources: dict[str, list[str]] = {}

    def credit(self, place: int, source: str) -> None:
        """Remember who measured something on the chip of a case."""
        held = self.sources.setdefault(self.cases[place].soc, [])
        if source and source not in held and len(held) < MAX_SOURCES:
            held.append(source)

    def case(self, row: RawRow, raw: bool) -> int:
        key = text_key(row)
        place = self._by_text.get(key)
        if place is None:
            try:
                place = self._add(row, raw)
            except Unusable as error:
                place = error
            self._by_text[key] = place
        if isinstance(place, Unusable):
            raise place
        return place

    def _add(self, row: RawRow, raw: bool) -> int:
        soc = self._chip(row.soc.strip(), raw)
        case = case_of(row, soc.name)
        self.socs[soc.name] = soc
        place = self._by_case.get(case)
        if place is None:
            place = self._by_case[case] = len(self.cases)
            self.cases.append(case)
        return place

    def _chip(self, text: str, raw: bool) -> Soc:
        if self._soc is not None and (raw or not text or text == self._soc.name):
            return self._soc
        if not text:
            raise Unusable("no SoC")
        soc = _named(text)
        if self._soc is None:
            return soc
        if soc.name != self._soc.name:
            raise Unusable("measured on another chip than --soc")
        return self._soc


@lru_cache(maxsize=256)
def _named(text: str) -> Soc:
    # A cell is data of somebody else's: it may name a chip, not a file to be opened.
    if not text.lower().endswith(".toml"):
        try:
            return load(text)
        except AtlasError:
            pass
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    raise Unusable(f"unknown SoC {shown!r}")


def _state(row: RawRow, l2: str | None) -> int:
    state = _STATES.get(row.l2_state.strip().casefold(), UNKNOWN)
    return _STATES[l2] if state > COLD and l2 is not None else state


def _ints(values: array[int]) -> Ints:
    return np.array(values, dtype=np.int64)

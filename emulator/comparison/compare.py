"""Each case on each backend, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from emulator import api
from emulator import backend as backends
from emulator.backend import Backend
from emulator.backends.npu import Npu, NpuError
from emulator.comparison.bits import Difference, difference
from emulator.comparison.cases import Case
from emulator.comparison.data import tensors
from emulator.result import Result
from kernel.mse_loss_backward import OPERATOR
from socs.errors import AtlasError
from socs.spec import Soc

Progress = Callable[[int, int], None]
"""Called with the cases done and those to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a backend made of a case. ``failed``: why there is no result.

    ``difference``: from the first backend's bits; ``None`` of the first itself, and where one has none.
    """

    backend: str
    result: Result | None
    difference: Difference | None = None
    failed: str | None = None

    @property
    def time_us(self) -> float | None:
        """Measured where it was measured, else predicted; ``None`` where nothing was launched."""
        if self.result is None:
            return None
        if self.result.measured is not None:
            return self.result.measured.median_us
        return self.result.time_us or None

    @property
    def kind(self) -> str:
        """Of its time: ``measured`` or ``predicted``."""
        return "measured" if self.result is not None and self.result.measured is not None else "predicted"


@dataclass(frozen=True, slots=True)
class Compared:
    """One case on every backend, the first of which the others are held against."""

    case: Case
    outcomes: tuple[Outcome, ...]

    @property
    def equal(self) -> bool:
        """Whether every backend has a result, with the first one's bits."""
        first, *others = self.outcomes
        return first.failed is None and all(o.difference is not None and o.difference.equal for o in others)


def chosen(names: Sequence[str], warm_up: int | None, repeats: int | None) -> list[tuple[str, Backend]]:
    """The backends by name. ``warm_up`` and ``repeats`` are the launches of ``npu``.

    Raises ``AtlasError`` for fewer than two, for one twice, and for an unknown one.
    """
    if len(names) < 2 or len(set(names)) != len(names):
        raise AtlasError(f"backends = {','.join(names)}: must be two or more, each once")
    numbers = {"warm_up": warm_up, "repeats": repeats}
    given = {name: value for name, value in numbers.items() if value is not None}
    return [(name, Npu(**given) if name == "npu" and given else backends.find(name)[1]) for name in names]


def chip(on: Sequence[tuple[str, Backend]], asked: Soc | None) -> Soc:
    """The chip to compare on: that of the backends that have one, else ``asked`` or the default.

    Raises ``AtlasError`` where a backend has another than is asked for, or none.
    """
    for _, found in on:
        asked = backends.chip_of(found, asked)
    return api.soc(api.DEFAULT_SOC) if asked is None else asked


def compare(
    cases: Sequence[Case],
    on: Sequence[tuple[str, Backend]],
    soc: Soc,
    *,
    l2: str = "hot",
    data: str = "normal",
    seed: int = 0,
    progress: Progress = lambda done, of: None,
) -> Iterator[Compared]:
    """Run every case on every backend with the same tensors.

    Raises ``AtlasError`` for a case that no backend takes; what a card refuses or fails at is an outcome.
    """
    for number, case in enumerate(cases):
        progress(number, len(cases))
        given = tensors(case, data, seed, number)
        outcomes: list[Outcome] = []
        for name, found in on:
            outcome = _run(name, found, case, given, soc, l2)
            outcomes.append(_held_against(outcomes[0], outcome) if outcomes else outcome)
        yield Compared(case, tuple(map(_without_tensors, outcomes)))


def _run(name: str, on: Backend, case: Case, given: dict[str, Any], soc: Soc, l2: str) -> Outcome:
    try:
        return Outcome(name, api.run(OPERATOR, soc=soc, backend=on, l2=l2, reduction=case.reduction, **given))
    except NpuError as error:
        return Outcome(name, None, failed="; ".join([str(error), *getattr(error, "__notes__", ())]))


def _without_tensors(outcome: Outcome) -> Outcome:
    """So that a thousand cases hold as much memory as one."""
    if outcome.result is None:
        return outcome
    return replace(outcome, result=replace(outcome.result, output=None, timeline=None))


def _held_against(first: Outcome, other: Outcome) -> Outcome:
    if first.result is None or other.result is None:
        return other
    assert first.result.output is not None
    assert other.result.output is not None
    return Outcome(other.backend, other.result, difference(other.result.output, first.result.output))

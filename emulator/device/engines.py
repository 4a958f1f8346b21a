"""The two engines that count a launch's cycles. Their cycles, sums and bounds are equal; a test holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, TypeVar, cast

from socs.errors import AtlasError

if TYPE_CHECKING:
    from emulator.device.bound import Bounds
    from emulator.device.fast.run import Outcome
    from emulator.device.timeline import PipeRow, Timeline
    from kernel.plan import Plan, Sketch
    from kernel.program import Launch
    from socs.spec import Soc

T = TypeVar("T")

ENGINES = ("simpy", "fast")
"""``simpy`` is the reference and keeps every span; ``fast`` is compiled and keeps their sums."""


class Counted(Protocol):
    """What an engine has to tell."""

    @property
    def cycles(self) -> int: ...
    @property
    def launch_cycles(self) -> int: ...
    def rows(self) -> tuple[PipeRow, ...]: ...


@dataclass(frozen=True)
class Timed:
    """The time of a launch. ``used``: dotted keys of the chip's numbers that went into it. ``engine``: which
    one counted. ``clean``: its programs are known to be in order without having been recorded."""

    counted: Counted
    bounds: Bounds
    used: frozenset[str]
    engine: str
    clean: bool = False

    @cached_property
    def timeline(self) -> Timeline:
        """All that was counted; with its spans by ``simpy``."""
        from emulator.device.timeline import Timeline

        told = self.counted
        return told if isinstance(told, Timeline) else cast("Outcome", told).timeline()


def time_plan(
    plan: Plan, *, l2: str, engine: str = "simpy", soc: Soc | None = None, without: Iterable[str] = ()
) -> Timed:
    """Count the launch of ``plan``; arguments and errors as of :func:`time_launch`.

    The compiled engine needs it neither recorded nor verified if it knows launches of its kind. ``soc``: the
    plan's chip with other numbers, of which none was read to decide the launch (no rate and no latency was).
    """
    chip, off = soc or plan.soc, frozenset(without)
    sketch = plan.sketch
    if sketch is None:
        raise AtlasError(f"{plan.operator}: nothing is launched")
    if engine == "fast":
        from emulator.device.mechanisms import OF_THE_LAUNCH, idealised_soc

        if not off & OF_THE_LAUNCH:
            ideal = idealised_soc(chip, off) if off else chip
            timed = _finite(chip, lambda: _by_template(sketch, ideal, l2))
            if timed is not None:
                return _of_the_chip(timed, chip) if off else timed
    launch = plan.checked().launch
    assert launch is not None
    return time_launch(launch, chip, l2=l2, engine=engine, without=off)


def time_launch(
    launch: Launch, soc: Soc, *, l2: str, engine: str = "simpy", without: Iterable[str] = ()
) -> Timed:
    """Count ``launch`` on ``soc``, ``without`` some mechanisms (:mod:`emulator.device.mechanisms`).

    ``engine``: one of :data:`ENGINES`; the few launches that the compiled one cannot count, because their
    numbers are too large for 64 bits, go to the other. Raises ``AtlasError``, for a deadlock with the cycle,
    the pipe and the flag.
    """
    off = frozenset(without)
    if off:
        from emulator.device.mechanisms import idealised

        return _of_the_chip(time_launch(*idealised(launch, soc, off), l2=l2, engine=engine), soc)
    timed = _finite(soc, lambda: _compiled(launch, soc, l2)) if engine == "fast" else None
    return timed or _finite(soc, lambda: _by_simpy(launch, soc, l2))


def _of_the_chip(timed: Timed, soc: Soc) -> Timed:
    """What is switched off may have been given a number that the chip leaves out."""
    return replace(timed, used=frozenset(k for k in timed.used if soc.source_key(k) is not None))


def _finite(soc: Soc, count: Callable[[], T]) -> T:
    try:
        return count()
    except (OverflowError, ZeroDivisionError) as error:
        # Each number alone keeps its rule, but a rate per cycle of theirs comes to nothing or no end.
        raise AtlasError(
            f"{soc.name}: a clock of {soc.clock_hz:g} Hz with these rates and latencies gives no "
            f"finite number of cycles ({error})"
        ) from error


def _by_template(sketch: Sketch, soc: Soc, l2: str) -> Timed | None:
    from emulator.device.conditions import Conditions
    from emulator.device.fast.run import NotForThisEngine, run
    from emulator.device.fast.template import TEMPLATES

    conditions = Conditions.of(sketch, soc, l2)
    try:
        sheet = TEMPLATES.sheet(sketch, soc, conditions.residency)
        if sheet is None or sheet.table is None:
            return None
        outcome = run(sheet.table, conditions)
    except NotForThisEngine:
        return None
    return Timed(outcome, outcome.bounds, sheet.used | conditions.used, "fast", clean=True)


def _compiled(launch: Launch, soc: Soc, l2: str) -> Timed | None:
    from emulator.device.fast.run import NotForThisEngine, simulate

    try:
        outcome, conditions = simulate(launch, soc, l2=l2)
    except NotForThisEngine:
        return None
    return Timed(outcome, outcome.bounds, frozenset(conditions.used), "fast")


def _by_simpy(launch: Launch, soc: Soc, l2: str) -> Timed:
    from emulator.device.bound import bounds
    from emulator.device.device import simulate

    timeline, device = simulate(launch, soc, l2=l2)
    limits = bounds(launch, device)
    return Timed(timeline, limits, frozenset(device.conditions.used), "simpy")

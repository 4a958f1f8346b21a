"""The time of a plan, with either engine, and what its time depends on."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.device.engines import ENGINES, time_plan
from emulator.validation.cases import no_cost
from emulator.validation.cells import Unusable
from kernel.plan import Plan
from socs.errors import AtlasError, UnknownCost
from socs.spec import Soc

STATES = ("hot", "cold")

BAND = ("hot", "dirty")
"""The states between which a launch lies of which nothing is known: at best the same one ran before it, at
worst others did that left L2 full of what they wrote."""

DEFAULT_ENGINE = "fast"
"""Files hold hundreds of calls, which pay for the start of the compiled engine."""


def check_engine(engine: str | None) -> str:
    """The engine that is meant. ``AtlasError`` for one that there is not."""
    chosen = engine or DEFAULT_ENGINE
    if chosen not in ENGINES:
        raise AtlasError(f"engine = {chosen!r}: must be {' or '.join(ENGINES)}")
    return chosen


@dataclass(frozen=True, slots=True)
class Time:
    """A predicted launch. ``used``: dotted keys (or prefixes of keys) of the chip's numbers that it read."""

    us: float
    bound_us: float
    used: frozenset[str]


def time_of(plan: Plan, l2: str, engine: str) -> Time:
    """What ``predict`` says of a plan. Raises ``Unusable`` where the chip does not give a time."""
    return time_on(plan, plan.soc, l2, engine)


def time_on(plan: Plan, soc: Soc, l2: str, engine: str, without: frozenset[str] = frozenset()) -> Time:
    """The time of ``plan`` on ``soc``, which may have other numbers than the chip that it was planned for
    as long as the plan does not read them (it reads no rate and no latency). ``without``: mechanisms that
    are switched off."""
    try:
        timed = time_plan(plan, l2=l2, engine=engine, soc=soc, without=without)
    except UnknownCost as error:
        raise no_cost(error) from None
    except AtlasError as error:
        raise Unusable(_why(plan), str(error)) from None
    cycles, lower = timed.counted.cycles, timed.bounds.lower
    return Time(cycles / soc.clock_hz * 1e6, lower / soc.clock_hz * 1e6, timed.used)


def _why(plan: Plan) -> str:
    """Why a plan cannot be timed: because it cannot run, or otherwise."""
    try:
        plan.checked()
    except AtlasError:
        return "refused by the operator"
    return "cannot be timed"

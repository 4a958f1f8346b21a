"""The time of a plan, with either engine, and what its time depends on."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.api import ENGINES
from emulator.device.bound import bounds
from emulator.device.device import simulate
from emulator.validation.cases import no_cost
from emulator.validation.cells import Unusable
from kernel.plan import Plan
from kernel.program import Launch
from socs.errors import AtlasError, UnknownCost
from socs.spec import Soc

STATES = ("hot", "cold")


def check_engine(engine: str | None) -> str:
    """The engine that is meant. ``AtlasError`` for one that there is not."""
    chosen = engine or ENGINES[0]
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
    assert plan.launch is not None
    return time_on(plan.launch, plan.soc, l2, engine)


def time_on(launch: Launch, soc: Soc, l2: str, engine: str) -> Time:
    """The time of ``launch`` on ``soc``, which may have other numbers than the chip that it was planned for
    as long as the plan does not read them (it reads no rate and no latency)."""
    try:
        timeline, device = simulate(launch, soc, l2=l2)
        limits = bounds(launch, device)
    except UnknownCost as error:
        raise no_cost(error) from None
    except (OverflowError, ZeroDivisionError) as error:
        raise Unusable(f"the numbers of {soc.name} give no finite time", str(error)) from None
    scale = 1e6 / soc.clock_hz
    return Time(timeline.cycles * scale, limits.lower * scale, frozenset(device.costs.used))

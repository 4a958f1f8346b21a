"""The two engines that count a launch's cycles. Their cycles, sums and bounds are equal; a test holds it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from socs.errors import AtlasError

if TYPE_CHECKING:
    from emulator.device.bound import Bounds
    from emulator.device.timeline import Timeline
    from kernel.program import Launch
    from socs.spec import Soc

ENGINES = ("simpy", "fast")
"""``simpy`` is the reference and keeps every span; ``fast`` is compiled and keeps their sums."""


@dataclass(frozen=True, slots=True)
class Timed:
    """The time of a launch. ``used``: dotted keys of the chip's numbers that went into it. ``engine``: which
    one counted."""

    timeline: Timeline
    bounds: Bounds
    used: frozenset[str]
    engine: str


def time_launch(
    launch: Launch, soc: Soc, *, l2: str, engine: str = "simpy", without: frozenset[str] = frozenset()
) -> Timed:
    """Count ``launch`` on ``soc``, ``without`` some mechanisms (:mod:`emulator.device.mechanisms`).

    ``engine``: one of :data:`ENGINES`; the few launches that the compiled one cannot count, because their
    numbers are too large for 64 bits, go to the other. Raises ``AtlasError``, for a deadlock with the cycle,
    the pipe and the flag.
    """
    if without:
        from emulator.device.mechanisms import idealised

        timed = time_launch(*idealised(launch, soc, without), l2=l2, engine=engine)
        # What is switched off may have been given a number that the chip leaves out.
        return replace(timed, used=frozenset(k for k in timed.used if soc.source_key(k) is not None))
    try:
        if engine == "fast":
            from emulator.device.fast.run import NotForThisEngine, simulate

            try:
                timeline, limits, conditions = simulate(launch, soc, l2=l2)
            except NotForThisEngine:
                pass
            else:
                return Timed(timeline, limits, frozenset(conditions.used), "fast")
        return _by_simpy(launch, soc, l2)
    except (OverflowError, ZeroDivisionError) as error:
        # Each number alone keeps its rule, but a rate per cycle of theirs comes to nothing or no end.
        raise AtlasError(
            f"{soc.name}: a clock of {soc.clock_hz:g} Hz with these rates and latencies gives no "
            f"finite number of cycles ({error})"
        ) from error


def _by_simpy(launch: Launch, soc: Soc, l2: str) -> Timed:
    from emulator.device.bound import bounds
    from emulator.device.device import simulate

    timeline, device = simulate(launch, soc, l2=l2)
    limits = bounds(launch, device)
    return Timed(timeline, limits, frozenset(device.conditions.used), "simpy")

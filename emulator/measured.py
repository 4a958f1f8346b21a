"""Times that were measured, to be kept apart from predicted ones."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any


@dataclass(frozen=True, slots=True)
class Measured:
    """Device times of one call, measured by events around each launch.

    ``times_us``: one per repeat, in their order. They count from the event before the operator's first kernel
    to the one behind its last, the gaps that the host leaves included. ``empty_us``: what such a pair of
    events takes with nothing between them (median). ``warm_up``: launches before the first that counts.
    ``l2``: ``hot`` or ``dirty``, as it was when each launch began. ``emulated``: by this project's libraries,
    so that it says nothing about a card.
    """

    times_us: tuple[float, ...]
    empty_us: float
    warm_up: int
    l2: str
    emulated: bool

    @property
    def repeats(self) -> int:
        return len(self.times_us)

    @property
    def median_us(self) -> float:
        return median(self.times_us)

    @property
    def quartiles_us(self) -> tuple[float, float]:
        """First and third: half of the times lie between them."""
        if self.repeats == 1:
            return self.times_us[0], self.times_us[0]
        first, _, third = quantiles(self.times_us, n=4, method="inclusive")
        return first, third

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        low, high = self.quartiles_us
        return {
            "median_us": self.median_us,
            "quartile_1_us": low,
            "quartile_3_us": high,
            "min_us": min(self.times_us),
            "max_us": max(self.times_us),
            "times_us": list(self.times_us),
            "empty_us": self.empty_us,
            "repeats": self.repeats,
            "warm_up": self.warm_up,
            "l2": self.l2,
            "emulated": self.emulated,
        }

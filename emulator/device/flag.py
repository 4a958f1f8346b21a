"""Flags: the only coupling between the pipes of a core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import simpy

from kernel.program import Flag
from socs.errors import AtlasError

if TYPE_CHECKING:
    from emulator.device.device import Device


class Flags:
    """The events of one core. Each is raised once, then waited for once."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._raised: set[Flag] = set()
        self._waiting: dict[Flag, simpy.Event] = {}

    def is_raised(self, flag: Flag) -> bool:
        return flag in self._raised

    def set(self, flag: Flag) -> None:
        if flag in self._raised:
            raise AtlasError(f"flag {flag} is raised twice before a wait (cycle {self._device.now})")
        self._raised.add(flag)
        waiting = self._waiting.pop(flag, None)
        if waiting is not None:
            waiting.succeed()

    def raised(self, flag: Flag) -> simpy.Event:
        """An event that fires when ``flag`` is raised."""
        event = self._waiting[flag] = self._device.env.event()
        return event

    def consume(self, flag: Flag) -> None:
        self._raised.remove(flag)

    def state(self) -> frozenset[Flag]:
        return frozenset(self._raised)

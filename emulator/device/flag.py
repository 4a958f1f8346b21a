"""Flags: the only coupling between the pipes of a core."""

from __future__ import annotations

from collections import deque

import simpy

from kernel.program import Flag


class Event:
    """One flag of one core. It is raised once, then waited for once.

    Pipes run ahead of each other, so it may be raised here for the second time before the first wait has
    come about. Whether that is too early is found out once the cycles of both are known.
    """

    def __init__(self, env: simpy.Environment, flag: Flag) -> None:
        self._env = env
        self.raised: deque[int] = deque()
        """Cycles at which it was, or will have been, raised and is not yet taken."""
        self._taken = 0
        self._waiting: simpy.Event | None = None
        self._twice: list[int] = []
        self.name = str(flag)

    def set(self, cycle: int) -> None:
        """Raise it at ``cycle``."""
        if not self.raised and self._taken > cycle:
            self._twice.append(cycle)
        self.raised.append(cycle)
        if self._waiting is not None:
            self._waiting.succeed()
            self._waiting = None

    def take(self, cycle: int) -> int:
        """Take it at ``cycle`` or as soon as it is raised; the cycle at which that is."""
        taken = self.raised.popleft()
        if taken < cycle:
            taken = cycle
        self._taken = taken
        if self.raised and self.raised[0] < taken:
            self._twice.append(self.raised[0])
        return taken

    def awaited(self) -> simpy.Event:
        """An event that fires when the flag is raised."""
        self._waiting = self._env.event()
        return self._waiting

    def raised_twice(self) -> list[int]:
        """Cycles at which it was raised while it still was."""
        return self._twice + list(self.raised)[1:]

    def state(self, now: int) -> tuple[int, ...]:
        """When it was raised, for as often as it is; the past is all alike."""
        return tuple([max(cycle - now, 0) for cycle in self.raised])

    def shift(self, cycles: int, now: int) -> None:
        """Move everything on in time. What has gone wrong before ``now`` stays where it was."""
        self._twice += [cycle for cycle in list(self.raised)[1:] if cycle < now]
        self._taken += cycles
        self.raised = deque([cycle + cycles for cycle in self.raised])

"""Order within one cycle."""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import EventPriority

_LAST = EventPriority(2)
"""Below SimPy's NORMAL priority (1): after everything else of this instant."""


class Late(simpy.Event):
    """An event at the end of the current cycle, after all others of that cycle."""

    def __init__(self, env: simpy.Environment, callback: Callable[[simpy.Event], None] | None = None) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        if callback is not None:
            assert self.callbacks is not None
            self.callbacks.append(callback)
        env.schedule(self, priority=_LAST)

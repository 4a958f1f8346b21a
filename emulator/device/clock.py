"""Order within one cycle."""

from __future__ import annotations

from collections.abc import Callable

import simpy
from simpy.events import EventPriority

Callback = Callable[[simpy.Event], None]

_LAST = EventPriority(2)
"""Below SimPy's NORMAL priority (1): after everything else of this instant."""


class Late(simpy.Event):
    """An event at the end of the cycle ``delay`` cycles on, after all others of that cycle."""

    def __init__(self, env: simpy.Environment, callback: Callback | None = None, delay: int = 0) -> None:
        # As SimPy's own Timeout does, without the detour over its base class: there are many.
        self.env = env
        self.callbacks = [] if callback is None else [callback]
        self._value = None
        self._ok = True
        env.schedule(self, _LAST, delay)

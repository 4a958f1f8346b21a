"""Where a call runs: the interface of a backend, and the registry.

A backend is an object with one method. ``emulated`` is built in; others come from the entry-point group
``atlas_emulator.backends`` (a callable without arguments that returns a backend).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from numpy.typing import NDArray

from emulator.result import Result
from kernel.plan import Plan
from socs.errors import AtlasError
from socs.spec import OverflowMode

ENTRY_POINTS = "atlas_emulator.backends"
VARIABLE = "ATLAS_EMU_BACKEND"


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call, checked and planned.

    ``tensors``: C-contiguous native arrays by name, empty when only the time is asked for. ``out``: the
    array to write into. ``timed``: whether the time is wanted. ``bits``: ``compiled`` or ``interpreted``.
    ``engine``: which one counts the cycles, ``simpy`` or ``fast``. ``without``: mechanisms of the timing
    model that are switched off.
    """

    plan: Plan
    shapes: dict[str, tuple[int, ...]]
    tensors: dict[str, NDArray[Any]]
    out: NDArray[Any] | None
    l2: str
    overflow: OverflowMode
    timed: bool
    bits: str
    engine: str = "simpy"
    without: frozenset[str] = frozenset()


class Backend(Protocol):
    """Runs calls."""

    def run(self, call: Call) -> Result:
        """Fill ``call.out`` and answer with times, as far as ``call`` asks for them."""
        ...


@cache
def _emulated() -> Backend:
    from emulator.backends.emulated import Emulated

    return Emulated()


_BUILT_IN: dict[str, Callable[[], Backend]] = {"emulated": _emulated}


def find(name: str | None) -> tuple[str, Backend]:
    """The backend called ``name`` (default: the environment's, else ``emulated``)."""
    from importlib.metadata import entry_points

    name = name or os.environ.get(VARIABLE) or "emulated"
    if name in _BUILT_IN:
        return name, _BUILT_IN[name]()
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name in installed:
        backend: Backend = installed[name].load()()
        return name, backend
    known = ", ".join(sorted({*_BUILT_IN, *installed}))
    raise AtlasError(f"unknown backend {name!r}: there are {known}")

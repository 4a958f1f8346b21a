"""Where a call runs: the interface of a backend, and the registry.

A backend is an object with one method. ``emulated`` and ``npu`` are built in; others come from the
entry-point group ``atlas_emulator.backends`` (a callable without arguments that returns a backend).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from numpy.typing import NDArray

from emulator.defaults import default_backend
from emulator.result import Result
from kernel.plan import Plan
from socs.errors import AtlasError
from socs.spec import OverflowMode, Soc

ENTRY_POINTS = "atlas_emulator.backends"


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
    """Runs calls.

    A backend may have more, which is asked for where it is there: ``takes_views`` true, so that tensors come
    with the strides they have; ``chip(asked)``, the chip it runs on, of that or of no wish.
    """

    def run(self, call: Call) -> Result:
        """Fill ``call.out`` and answer with times, as far as ``call`` asks for them."""
        ...


@cache
def _emulated() -> Backend:
    from emulator.backends.emulated import Emulated

    return Emulated()


@cache
def _npu() -> Backend:
    from emulator.backends.npu import Npu

    return Npu()


_BUILT_IN: dict[str, Callable[[], Backend]] = {"emulated": _emulated, "npu": _npu}


def find(name: str | Backend | None) -> tuple[str, Backend]:
    """The backend called ``name`` (default: of the environment, else ``emulated``), or one itself."""
    from importlib.metadata import entry_points

    if name is not None and not isinstance(name, str):
        if not callable(getattr(name, "run", None)):
            raise AtlasError(f"backend = {name!r}: must be a name, or an object that runs calls")
        return type(name).__name__, name
    name = name or default_backend()
    if name in _BUILT_IN:
        return name, _BUILT_IN[name]()
    installed = {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
    if name in installed:
        backend: Backend = installed[name].load()()
        return name, backend
    raise AtlasError(f"unknown backend {name!r}: there are {', '.join(known())}")


def known() -> tuple[str, ...]:
    """The names of all backends."""
    from importlib.metadata import entry_points

    return tuple(sorted({*_BUILT_IN, *(entry.name for entry in entry_points(group=ENTRY_POINTS))}))


def tensors_as_views(backend: Backend) -> bool:
    """Whether a backend takes tensors of any strides; others get them in C order."""
    return bool(getattr(backend, "takes_views", False))


def chip_of(backend: Backend, asked: Soc | None) -> Soc | None:
    """The chip that a backend runs on; ``asked`` where it leaves that to the caller."""
    chip: Callable[[Soc | None], Soc] | None = getattr(backend, "chip", None)
    return asked if chip is None else chip(asked)

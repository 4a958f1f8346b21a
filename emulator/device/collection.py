"""Stretches of work during which Python looks for no cycles of objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """For work that makes very many objects and no cycle of them.

    Looking for some takes a seventh of a simulation by SimPy, and longer than to make a template, for Numba
    brings a million objects that are looked through each time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()

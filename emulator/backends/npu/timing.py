"""Device time of a call by events: what was asked for first, then repeats, each on its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from emulator.backends.npu.call import Launches
from emulator.backends.npu.held import Held
from emulator.backends.npu.libraries import Libraries
from emulator.backends.npu.memory import allocate
from emulator.measured import Measured
from socs.spec import Soc

L2_TIMES = 2
"""How often L2 fits into the memory that is filled to drive everything else out of it."""


def measure(launches: Launches, memory: Held, soc: Soc, *, l2: str, warm_up: int, repeats: int) -> Measured:
    """Launch ``warm_up`` times, then ``repeats`` times between two events each.

    ``l2`` hot: the launches follow one another on the same memory. Else memory twice as large as L2 is filled
    before each, which leaves L2 full of what somebody else wrote: ``dirty``. A card has no other means to
    empty it, so that ``cold`` is measured so, too.
    """
    libraries = launches.libraries
    before = None if l2 == "hot" else _filler(launches, memory, L2_TIMES * soc.memory.l2.bytes)
    start, end = _event(libraries, memory), _event(libraries, memory)
    times, empty = [], []
    for number in range(warm_up + repeats):
        executor = launches.prepare()
        if before is not None:
            before()
        libraries.call("aclrtRecordEvent", start, launches.stream)
        launches.enqueue(executor)
        libraries.call("aclrtRecordEvent", end, launches.stream)
        launches.wait()
        if number >= warm_up:
            times.append(_elapsed_us(libraries, start, end))
            empty.append(_empty_us(launches, start, end))
    return Measured(
        times_us=tuple(times),
        empty_us=sorted(empty)[len(empty) // 2],
        warm_up=warm_up,
        l2="hot" if before is None else "dirty",
        emulated=libraries.emulated,
    )


def _filler(launches: Launches, memory: Held, size: int) -> Callable[[], None]:
    place = allocate(launches.libraries, memory, size)

    def fill() -> None:
        launches.will_run()
        launches.libraries.call("aclrtMemsetAsync", place, size, 0, size, launches.stream)

    return fill


def _event(libraries: Libraries, memory: Held) -> int:
    made = libraries.made("aclrtCreateEvent")
    memory.keep("aclrtDestroyEvent", made)
    return made


def _empty_us(launches: Launches, start: int, end: int) -> float:
    """What two events take with nothing between them."""
    launches.will_run()
    for event in (start, end):
        launches.libraries.call("aclrtRecordEvent", event, launches.stream)
    launches.wait()
    return _elapsed_us(launches.libraries, start, end)


def _elapsed_us(libraries: Libraries, start: int, end: int) -> float:
    found = ctypes.c_float()
    libraries.call("aclrtEventElapsedTime", ctypes.byref(found), start, end)
    return found.value * 1e3

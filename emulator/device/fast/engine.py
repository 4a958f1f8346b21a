"""The event rules of the device, compiled: a table of numbers in, cycles by reason out.

The same rules as the SimPy device (:mod:`emulator.device.pipe`, ``core``, ``memory``, ``steady``), over the
rows of :class:`emulator.device.lower.Lowered`. What an instruction costs is known when it begins, so a pipe
books its cycles at once and sleeps until they are over; a wait is booked when it ends.

Everything that changes lies in one flat array ``w``, a stretch for each group and in it one for each pipe,
and a place in it stands for a pipe (``me``) or a group (``base``): views of arrays would cost more than the
rules. All helpers are in this module: Numba's cache on disk does not see a change in another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., object])


def _compiled(function: F) -> F:
    """Compile a helper of :func:`run`, without reference counts and so without allocations.

    For each array that is handed to a helper they would be two atomic additions, a third of all time.
    """
    decorate: Any = njit  # its declaration does not know the option
    return cast(F, decorate(cache=True, nogil=True, _nrt=False)(function))


# Columns of a row, in the order of emulator.device.lower.Row; _AFTER: how far on the pipe's next row in the
# same trip is, or 0.
_PIPE, _KIND, _ISSUE, _FLAG, _CYCLES, _RETIRE, _DRAINS = range(7)
_GRAINS, _CAP, _HBM, _ALONE, _STORE, _OVERLAP, _AFTER = range(7, 14)
_SET_FLAG, _WAIT_FLAG = 1, 2
# Columns of a segment; from _STARTS on how far each pipe's first row is from its beginning, or -1.
_FIRST, _LAST, _TRIPS, _STARTS = range(4)
# Columns of a group: its segments from _BEGIN to _END (exclusive), its blocks, its flags.
_BEGIN, _END, _COUNT, _FLAGS = range(4)
BLOCKS = _COUNT

# Columns of a flow.
_WEIGHT, _MOST, _OF_HBM, _STORES, _FOUND = range(5)
FLOW_COLUMNS = 5

LAUNCH_CYCLES, ENTRY_CYCLES, QUEUE_DEPTH, LOAD_GRAINS, STORE_GRAINS, HBM_GRAINS = range(6)
LOAD_HBM, STORE_HBM, SKIP, REMEMBERED = range(6, 10)
"""Places in ``numbers``: of the launch, of the chip, where the data lie, how periods are skipped."""
NUMBERS = 10

STATUS, TOTAL, SIMULATED, SKIPPED, STUCK_GROUP, STUCK_PIPE, STUCK_FLAG = range(7)
LIMITS, SERIAL = 7, 11
"""Places in ``out``; the stuck ones are -1 where there is none, a limit for each pipe."""
OUT = 12

FINISHED, DEADLOCK, RAISED_TWICE, TOO_LARGE, AHEAD = range(5)
"""Values of ``out[STATUS]``. ``AHEAD``: a flag has two raises to come, which only SimPy's engine keeps."""

EXECUTE, DRAIN, LAUNCH, ISSUE, MEMORY, QUEUE = range(6)
"""Reasons by place; ``QUEUE + pipe - 1``: the scalar pipe's wait for room in that pipe's queue."""
REASONS = 8

# A pipe's stretch of w. _SINCE: to where its cycles are booked. _RETIRES: when all its results are written.
_DOING, _UNTIL, _THEN, _ROW, _SEGMENT, _TRIP, _QUEUED, _SINCE, _RETIRES, _BEGAN, _LEFT, _RATE = range(12)
_AHEAD = _RETIRES
"""S has no results: there it is when the next flag will be raised that is known to be, or 0."""
_TWICE_AHEAD = -1
"""Or this, from when one of them has a second raise to come."""
DONE_AT = _SINCE
INSTRUCTIONS = 12
CYCLES = 13
PIPE_WIDTH = CYCLES + REASONS
FLAGS_FROM = 4 * PIPE_WIDTH
"""Where in a group's stretch its flags are; then the cycles of waiting for each of them, then the cycle at
which each will be raised, where a transfer has yet to end."""

_S, _V = 0, 2
_NEW, _SUSPECT = _RATE, _LEFT
"""S transfers nothing: there it is marked that a transfer of the group has no rate yet, and that a flag of it
was raised that was already."""
# What a pipe is doing.
_IDLE, _BUSY, _AT_FLAG, _SERVED, _DONE, _AT_QUEUE, _AT_TRIP, _READY = range(8)
# What happens when it stops being busy.
_NOTHING, _RAISE, _PUSH = range(3)

_WHOLE = 1 << 16
_NEVER = 1 << 62
_UNCAPPED = 1 << 60
_RATES = 64
"""Lines of rates that are remembered, the first one not counted."""
_LARGEST = 2.0**61
"""Beyond it sums might not fit into 64 bits."""


@_compiled
def fair_rates(flows: Int, count: int, numbers: Int) -> None:
    """:func:`emulator.device.memory.rates` of the first ``count`` flows.

    ``flows``: of each its weight, cap, share of HBM, and whether it stores; its rate is filled in.
    """
    for i in range(count):
        flows[i, _FOUND] = 0  # a rate is at least 1, so this means open
    left = count
    while left:
        level = _NEVER
        closing = 3  # what is full: loads of L2, its stores, HBM, or a flow's own cap
        for i in range(count):
            if not flows[i, _FOUND]:
                level = min(level, flows[i, _MOST])
        for memory in range(3):
            want = taken = 0
            for i in range(count):
                use = flows[i, _WEIGHT] * _use(flows, i, memory)
                taken += use * flows[i, _FOUND]
                if not flows[i, _FOUND]:
                    want += use
            if want:
                full = (numbers[LOAD_GRAINS + memory] * (_WHOLE if memory == 2 else 1) - taken) // want
                if full < level:
                    level, closing = full, memory
        for i in range(count):
            if flows[i, _FOUND]:
                continue
            if flows[i, _MOST] == level if closing == 3 else _use(flows, i, closing) != 0:
                flows[i, _FOUND] = max(1, level)
                left -= 1


@_compiled
def _use(flows: Int, flow: int, memory: int) -> int:
    """What a grain of a flow takes of a memory: loads of L2, its stores, HBM."""
    stores: int = flows[flow, _STORES]
    of_hbm: int = flows[flow, _OF_HBM]
    return of_hbm if memory == 2 else int(stores == memory)


@_compiled
def _book(w: Int, me: int, now: int, left: int, took: int, then: int) -> None:
    """Busy for ``left`` cycles of draining and ``took`` of the instruction itself."""
    w[me + CYCLES + DRAIN] += left
    w[me + CYCLES + EXECUTE] += took
    w[me + _DOING] = _BUSY
    w[me + _THEN] = then
    w[me + _UNTIL] = w[me + _SINCE] = now + left + took


@_compiled
def _take(w: Int, me: int, now: int, flag: int, flags: int, cycles: int) -> bool:
    """Go on past the flag at ``flag`` if it is raised."""
    if not w[flag]:
        w[me + _DOING] = _AT_FLAG
        return False
    w[flag] -= 1
    w[flag + flags] += now - w[me + _SINCE]
    _book(w, me, now, 0, cycles, _NOTHING)
    return True


@_compiled
def _raise(w: Int, base: int, flag: int) -> None:
    """Raise the flag at ``flag`` of the group at ``base``."""
    w[base + _SUSPECT] |= w[flag]
    w[flag] += 1


@_compiled
def _scalar(
    w: Int, base: int, now: int, rows: Int, segments: Int, end: int, flags: int, depth: int, skip: int
) -> None:
    """S as far as it comes at ``now``: it walks the program and hands each instruction to its pipe."""
    me = base  # the first pipe of the group
    doing = w[me + _DOING]
    if doing in (_AT_TRIP, _DONE) or (doing == _BUSY and w[me + _UNTIL] > now):
        return
    while True:
        row = w[me + _ROW]
        waits = rows[row, _KIND] == _WAIT_FLAG and rows[row, _PIPE] == _S
        if doing == _AT_FLAG or (doing == _READY and waits):
            if doing == _READY:
                w[me + INSTRUCTIONS] += 1
            if not _take(w, me, now, base + FLAGS_FROM + rows[row, _FLAG], flags, rows[row, _CYCLES]):
                return
        elif doing == _READY:
            if rows[row, _PIPE] != _S:
                _book(w, me, now, 0, rows[row, _ISSUE], _PUSH)
            else:
                w[me + INSTRUCTIONS] += 1
                then = _RAISE if rows[row, _KIND] == _SET_FLAG else _NOTHING
                _book(w, me, now, 0, rows[row, _CYCLES], then)
        else:
            if doing == _AT_QUEUE or w[me + _THEN] == _PUSH:
                target = base + PIPE_WIDTH * rows[row, _PIPE]
                if w[target + _QUEUED] >= depth:
                    w[me + _DOING] = _AT_QUEUE
                    return
                w[me + CYCLES + QUEUE - 1 + rows[row, _PIPE]] += now - w[me + _SINCE]
                w[me + _SINCE] = now
                w[target + _QUEUED] += 1
            elif w[me + _THEN] == _RAISE:
                _raise(w, base, base + FLAGS_FROM + rows[row, _FLAG])
            w[me + _DOING], w[me + _THEN] = _READY, _NOTHING
            # The next row, the next trip, or the next segment.
            segment = w[me + _SEGMENT]
            row += 1
            if row == segments[segment, _LAST]:
                w[me + _TRIP] += 1
                if w[me + _TRIP] == segments[segment, _TRIPS]:
                    segment += 1
                    if segment == end:
                        w[me + _DOING] = _DONE
                        return
                    w[me + _SEGMENT], w[me + _TRIP] = segment, 0
                row = segments[segment, _FIRST]
                if skip and segments[segment, _TRIPS] - w[me + _TRIP] > 2:
                    w[me + _DOING] = _AT_TRIP
            w[me + _ROW] = row
        doing = w[me + _DOING]
        if doing == _AT_TRIP or (doing == _BUSY and w[me + _UNTIL] > now):
            return


@_compiled
def _pipe(w: Int, base: int, pipe: int, now: int, rows: Int, segments: Int, flags: int) -> bool:
    """MTE2, V or MTE3 as far as it comes at ``now``. Whether a pipe before it may go on because of that."""
    me = base + PIPE_WIDTH * pipe
    wakes = False
    while True:
        doing = w[me + _DOING]
        row = w[me + _ROW]
        if doing == _AT_FLAG:
            if not _take(w, me, now, base + FLAGS_FROM + rows[row, _FLAG], flags, rows[row, _CYCLES]):
                return wakes
            continue
        if doing in (_SERVED, _DONE) or (doing == _BUSY and w[me + _UNTIL] > now):
            return wakes
        if doing == _BUSY:
            if w[me + _THEN] == _RAISE:
                _raise(w, base, base + FLAGS_FROM + rows[row, _FLAG])
                wakes = True
            w[me + _DOING], w[me + _THEN] = _IDLE, _NOTHING
        left = max(0, w[me + _RETIRES] - now)
        if not w[me + _QUEUED]:
            if w[base + _DOING] != _DONE:
                return wakes
            w[me + CYCLES + ISSUE] += now - w[me + _SINCE]
            w[me + CYCLES + DRAIN] += left
            w[me + _SINCE] = now + left
            w[me + _DOING] = _DONE
            return wakes
        w[me + CYCLES + ISSUE] += now - w[me + _SINCE]
        w[me + _SINCE] = now
        w[me + _QUEUED] -= 1
        w[me + INSTRUCTIONS] += 1
        wakes = wakes or w[base + _DOING] == _AT_QUEUE
        # The pipe's next row: in this trip, in the next one, or in the next segment that has one.
        after = row + rows[row, _AFTER] if row >= 0 else row
        if after == row:
            segment = w[me + _SEGMENT]
            w[me + _TRIP] += 1
            if row < 0 or w[me + _TRIP] == segments[segment, _TRIPS]:
                segment += 1
                while segments[segment, _STARTS + pipe] < 0:
                    segment += 1
                w[me + _SEGMENT], w[me + _TRIP] = segment, 0
            after = segments[segment, _FIRST] + segments[segment, _STARTS + pipe]
        row = w[me + _ROW] = after
        kind = rows[row, _KIND]
        if kind == _SET_FLAG and pipe != _V and left:
            # The pipe goes on; the flag is raised when the data are there.
            flag = base + FLAGS_FROM + rows[row, _FLAG]
            raised = now + left + rows[row, _CYCLES]
            if w[flag + 2 * flags]:
                w[base + _AHEAD] = _TWICE_AHEAD
            elif not w[base + _AHEAD] or raised < w[base + _AHEAD]:
                w[base + _AHEAD] = raised
            w[flag + 2 * flags] = raised
            _book(w, me, now, 0, rows[row, _CYCLES], _NOTHING)
        elif kind == _SET_FLAG:
            _book(w, me, now, left, rows[row, _CYCLES], _RAISE)
        elif kind == _WAIT_FLAG:
            _take(w, me, now, base + FLAGS_FROM + rows[row, _FLAG], flags, rows[row, _CYCLES])
        elif pipe == _V:
            if not rows[row, _DRAINS]:
                left = 0
            w[me + _RETIRES] = max(w[me + _RETIRES], now + left + rows[row, _RETIRE])
            _book(w, me, now, left, rows[row, _CYCLES], _NOTHING)
        else:
            w[me + _DOING], w[me + _BEGAN] = _SERVED, now
            w[me + _LEFT], w[me + _RATE] = rows[row, _GRAINS], 0
            w[base + _NEW] = 1


@_compiled
def _may_go_on(w: Int, base: int, me: int, now: int, rows: Int) -> bool:
    """Whether it is worth asking a pipe; most are busy."""
    doing = w[me + _DOING]
    if doing == _BUSY:
        return bool(w[me + _UNTIL] <= now)
    if doing == _AT_FLAG:
        return bool(w[base + FLAGS_FROM + rows[w[me + _ROW], _FLAG]])
    if doing == _IDLE:
        return bool(w[me + _QUEUED] or w[base + _DOING] == _DONE)
    return bool(doing in (_AT_QUEUE, _READY))


@_compiled
def _raise_ahead(w: Int, base: int, now: int, flags: int) -> None:
    """Raise the flags whose transfers have ended by now."""
    w[base + _AHEAD] = 0
    for flag in range(base + FLAGS_FROM, base + FLAGS_FROM + flags):
        raised = w[flag + 2 * flags]
        if raised and raised <= now:
            _raise(w, base, flag)
            w[flag + 2 * flags] = 0
        elif raised and (not w[base + _AHEAD] or raised < w[base + _AHEAD]):
            w[base + _AHEAD] = raised


@_compiled
def _settle(w: Int, stretch: int, many: int, now: int, elapsed: int, rows: Int, due: Int) -> bool:
    """Serve for ``elapsed`` cycles; transfers that are through end. Whether one ends at ``now``."""
    ended = False
    for group in range(many):
        for pipe in (1, 3):
            me = group * stretch + PIPE_WIDTH * pipe
            if w[me + _DOING] != _SERVED:
                continue
            w[me + _LEFT] -= elapsed * w[me + _RATE]
            if w[me + _LEFT] > 0:
                continue
            row, began = w[me + _ROW], w[me + _BEGAN]
            end = max(began + rows[row, _CYCLES], now + rows[row, _RETIRE])
            free = max(now, end - rows[row, _OVERLAP])
            waited = max(0, end - began - rows[row, _ALONE])
            w[me + CYCLES + EXECUTE] += free - began - waited
            w[me + CYCLES + MEMORY] += waited
            w[me + _RETIRES] = max(w[me + _RETIRES], end)
            w[me + _DOING], w[me + _THEN] = _BUSY, _NOTHING
            w[me + _UNTIL] = w[me + _SINCE] = free
            due[group] = min(due[group], free)
            ended = ended or free <= now
    return ended


@_compiled
def _any_new(w: Int, stretch: int, many: int) -> bool:
    """Whether a transfer has no rate yet."""
    found = 0
    for group in range(many):
        found |= w[group * stretch + _NEW]
        w[group * stretch + _NEW] = 0
    return found != 0


@_compiled
def _share(
    w: Int, stretch: int, now: int, rows: Int, groups: Int, numbers: Int, flows: Int, kinds: Int, found: Int
) -> int:
    """Give all transfers in flight their rates; when the first of them will be through.

    ``found``: rates that have been found in this run. A line is how often its like came about (the first
    line: how many lines there are), then of each pipe that transfers the kind of its row plus 1, or 0, then
    their rates.
    """
    places = 2 * len(groups)
    count = 0
    for place in range(places):
        me = (place >> 1) * stretch + PIPE_WIDTH * (1 + 2 * (place & 1))
        served = w[me + _DOING] == _SERVED
        found[0, 1 + place] = kinds[w[me + _ROW]] + 1 if served else 0
        count += served
    if not count:
        return _NEVER
    line = _known(found, places)
    if not line:
        line = _next_line(found)
        count = 0
        for place in range(places):
            found[line, 1 + place] = found[0, 1 + place]
            if found[0, 1 + place]:
                row = found[0, 1 + place] - 1
                flows[count, _WEIGHT], flows[count, _MOST] = groups[place >> 1, _COUNT], rows[row, _CAP]
                flows[count, _OF_HBM], flows[count, _STORES] = rows[row, _HBM], rows[row, _STORE]
                count += 1
        fair_rates(flows, count, numbers)
        count = 0
        for place in range(places):
            if found[line, 1 + place]:
                found[line, 1 + places + place] = flows[count, _FOUND]
                count += 1
    soonest = _NEVER
    for place in range(places):
        if found[line, 1 + place]:
            me = (place >> 1) * stretch + PIPE_WIDTH * (1 + 2 * (place & 1))
            rate = w[me + _RATE] = found[line, 1 + places + place]
            soonest = min(soonest, -(-w[me + _LEFT] // rate))
    return now + soonest


@_compiled
def _known(found: Int, places: int) -> int:
    """The line with what the first one asks for, or 0."""
    for line in range(1, min(len(found), found[0, 0] + 1)):
        same = True
        for place in range(1, 1 + places):
            if found[line, place] != found[0, place]:
                same = False
                break
        if same:
            return line
    return 0


@_compiled
def _next_line(found: Int) -> int:
    """Where the next one is kept: the oldest is overwritten."""
    line: int = 1 + found[0, 0] % (len(found) - 1)
    found[0, 0] += 1
    return line


@_compiled
def _alike(rows: Int, kinds: Int, firsts: Int) -> None:
    """Fill in of each transfer the first row that is given the same rate. ``firsts`` is only written."""
    many = 0
    for row in range(len(rows)):
        if rows[row, _KIND] or rows[row, _PIPE] in (_S, _V):
            continue
        kinds[row] = row
        for i in range(many):
            first = firsts[i]
            if (
                rows[first, _CAP] == rows[row, _CAP]
                and rows[first, _HBM] == rows[row, _HBM]
                and rows[first, _STORE] == rows[row, _STORE]
            ):
                kinds[row] = first
                break
        if kinds[row] == row:
            firsts[many] = row
            many += 1


@_compiled
def _probe(
    w: Int, stretch: int, flags: int, group: int, now: int, served_to: int, groups: Int, probe: Int
) -> None:
    """All that decides what comes next, without the clock and the trips, into ``probe``."""
    place = 1
    probe[0] = group
    for other in range(len(groups)):
        base = other * stretch
        for pipe in range(4):
            me = base + PIPE_WIDTH * pipe
            doing = w[me + _DOING]
            probe[place] = doing * 4 + w[me + _THEN]
            probe[place + 1] = w[me + _ROW]
            probe[place + 2] = w[me + _QUEUED]
            left = 0
            if doing == _BUSY:
                left = w[me + _UNTIL] - now
            elif doing == _SERVED:
                left = now - w[me + _BEGAN]
            probe[place + 3] = left
            if pipe == _S:
                probe[place + 4] = w[me + _SEGMENT]
            elif doing == _SERVED:
                probe[place + 4] = w[me + _LEFT] - (now - served_to) * w[me + _RATE]
            else:
                probe[place + 4] = 0
            probe[place + 6] = 0 if pipe == _S else max(0, w[me + _RETIRES] - now)
            # How far it is behind, or how far it has come in a loop that S has left.
            behind = w[me + _TRIP]
            if w[me + _SEGMENT] == w[base + _SEGMENT]:
                behind -= w[base + _TRIP]
            probe[place + 5] = behind
            place += 7
        for flag in range(groups[other, _FLAGS]):
            probe[place] = w[base + FLAGS_FROM + flag]
            probe[place + 1] = max(0, w[base + FLAGS_FROM + 2 * flags + flag] - now)
            place += 2


@_compiled
def _periods(before: Int, w: Int, stretch: int, period: int, segments: Int, many: int) -> int:
    """How many whole periods since ``before`` can be skipped; -1 where the sums of one are not known."""
    times = _NEVER
    for group in range(many):
        base = group * stretch
        moved = w[base + _TRIP] - before[base + _TRIP]
        if moved:
            left = segments[w[base + _SEGMENT], _TRIPS] - 1 - w[base + _TRIP]
            times = min(times, left // moved)
        for pipe in range(4):
            # An open wait began one period later than before, or is the same one still open.
            since = w[base + PIPE_WIDTH * pipe + _SINCE] - before[base + PIPE_WIDTH * pipe + _SINCE]
            if since not in (0, period):
                return -1
    return times


@_compiled
def _skip(before: Int, w: Int, stretch: int, flags: int, times: int, shift: int, due: Int, out: Int) -> None:
    """Move trips and sums on by ``times`` periods like that since ``before``, and clocks by ``shift``."""
    for group in range(len(due)):
        base = group * stretch
        moved = w[base + _TRIP] - before[base + _TRIP]
        segment = w[base + _SEGMENT]
        for pipe in range(4):
            me = base + PIPE_WIDTH * pipe
            if w[me + _SEGMENT] == segment:
                w[me + _TRIP] += times * moved
            if w[me + _SINCE] != before[me + _SINCE]:
                w[me + _SINCE] += shift
            w[me + _UNTIL] += shift
            if pipe != _S or w[me + _AHEAD]:
                w[me + _RETIRES] += shift
            w[me + _BEGAN] += shift
            out[SIMULATED] -= times * (w[me + INSTRUCTIONS] - before[me + INSTRUCTIONS])
            for place in range(me + INSTRUCTIONS, me + PIPE_WIDTH):
                w[place] += times * (w[place] - before[place])
        for place in range(base + FLAGS_FROM + flags, base + FLAGS_FROM + 2 * flags):
            w[place] += times * (w[place] - before[place])
        for place in range(base + FLAGS_FROM + 2 * flags, base + FLAGS_FROM + 3 * flags):
            if w[place]:
                w[place] += shift
        if due[group] != _NEVER:
            due[group] += shift
    out[SKIPPED] += shift


@_compiled
def _limits(rows: Int, segments: Int, groups: Int, numbers: Int, out: Int, flows: Int, mine: Int) -> None:
    """The most cycles that any core needs of each pipe, and one after another: ``emulator.device.bound``.

    ``flows`` and ``mine`` (5 sums) are only written.
    """
    many = len(groups)
    for flow in range(2 * many):
        flows[flow, _WEIGHT], flows[flow, _MOST] = groups[flow // 2, _COUNT], _UNCAPPED
        flows[flow, _OF_HBM] = numbers[STORE_HBM] if flow % 2 else numbers[LOAD_HBM]
        flows[flow, _STORES] = flow % 2
    fair_rates(flows, 2 * many, numbers)
    for group in range(many):
        slowest = min(flows[2 * group, _FOUND], flows[2 * group + 1, _FOUND])
        for place in range(5):
            mine[place] = 0
        for segment in range(groups[group, _BEGIN], groups[group, _END]):
            times = segments[segment, _TRIPS]
            last = -1  # the vector instruction that must still be in the pipe
            for row in range(segments[segment, _FIRST], segments[segment, _LAST]):
                pipe, kind = rows[row, _PIPE], rows[row, _KIND]
                cycles, retire, alone = rows[row, _CYCLES], rows[row, _RETIRE], rows[row, _ALONE]
                mine[_S] += rows[row, _ISSUE] * times
                mine[4] += rows[row, _ISSUE] * times
                if pipe == _V and last >= 0 and (kind == _SET_FLAG or rows[row, _DRAINS]):
                    mine[_V] += max(0, rows[last, _RETIRE] - rows[last, _CYCLES]) * times
                if pipe == _V:
                    last = -1 if kind else row
                if kind or pipe in (_S, _V):
                    mine[pipe] += cycles * times
                    mine[4] += max(cycles, retire) * times
                else:
                    mine[pipe] += (alone - rows[row, _OVERLAP]) * times
                    mine[4] += max(cycles, alone, retire - (-rows[row, _GRAINS] // slowest)) * times
        for place in range(5):
            out[LIMITS + place] = max(out[LIMITS + place], mine[place])


@_compiled
def _too_large(rows: Int, segments: Int, groups: Int, numbers: Int) -> bool:
    """Whether a sum of these numbers might not fit into 64 bits. Float64 is exact enough to tell."""
    blocks = 0.0
    total = float(numbers[LAUNCH_CYCLES]) + float(numbers[ENTRY_CYCLES])
    cap = 0.0
    for group in range(len(groups)):
        blocks += float(groups[group, _COUNT])
        for segment in range(groups[group, _BEGIN], groups[group, _END]):
            trips = float(segments[segment, _TRIPS])
            for row in range(segments[segment, _FIRST], segments[segment, _LAST]):
                cost = float(rows[row, _ISSUE]) + float(rows[row, _CYCLES]) + float(rows[row, _RETIRE])
                total += trips * (cost + float(rows[row, _ALONE]) + float(rows[row, _GRAINS]))
                cap = max(cap, float(rows[row, _CAP]))
    rates = max(float(numbers[LOAD_GRAINS]), float(numbers[STORE_GRAINS]), float(numbers[HBM_GRAINS]))
    return max(total, rates * _WHOLE, blocks * _WHOLE, cap * blocks * _WHOLE) > _LARGEST


@_compiled
def _simulate(
    rows: Int,
    segments: Int,
    groups: Int,
    numbers: Int,
    w: Int,
    out: Int,
    kinds: Int,
    flows: Int,
    due: Int,
    found: Int,
    probes: Int,
    shots: Int,
    probe: Int,
) -> None:
    """:func:`run` with all the room that it needs."""
    many = len(groups)
    stretch = len(w) // many
    flags = (stretch - FLAGS_FROM) // 3
    depth, skip = numbers[QUEUE_DEPTH], numbers[SKIP]
    now = numbers[LAUNCH_CYCLES]
    for group in range(many):
        due[group] = now
        begin = groups[group, _BEGIN]
        for pipe in range(4):
            me = group * stretch + PIPE_WIDTH * pipe
            w[me + CYCLES + LAUNCH] = w[me + _SINCE] = now
            w[me + _ROW], w[me + _SEGMENT] = -1, begin - 1
        me = group * stretch
        # S is busy with its entry, as if at the end of a trip before the first.
        _book(w, me, now, 0, numbers[ENTRY_CYCLES], _NOTHING)
        w[me + _SEGMENT], w[me + _TRIP], w[me + _ROW] = begin, -1, segments[begin, _LAST] - 1

    kept = next_kept = 0
    served_to = now
    through_at = _NEVER
    while True:
        for group in range(many):
            if due[group] > now:
                continue
            base = group * stretch
            if 0 < w[base + _AHEAD] <= now:
                _raise_ahead(w, base, now, flags)
            again = True
            while again:
                again = False
                if _may_go_on(w, base, base, now, rows):
                    _scalar(w, base, now, rows, segments, groups[group, _END], flags, depth, skip)
                for pipe in range(1, 4):
                    if _may_go_on(w, base, base + PIPE_WIDTH * pipe, now, rows) and _pipe(
                        w, base, pipe, now, rows, segments, flags
                    ):
                        again = True
            soonest = w[base + _AHEAD] if w[base + _AHEAD] else _NEVER
            for pipe in range(4):
                if w[base + PIPE_WIDTH * pipe + _DOING] == _BUSY:
                    soonest = min(soonest, w[base + PIPE_WIDTH * pipe + _UNTIL])
            due[group] = soonest
        # Rates change once per cycle, after everything of that cycle has happened.
        if _any_new(w, stretch, many) or through_at <= now:
            ended = _settle(w, stretch, many, now, now - served_to, rows, due)
            served_to = now
            if ended:
                continue
            through_at = _share(w, stretch, now, rows, groups, numbers, flows, kinds, found)

        released = False
        for group in range(many):
            scalar = group * stretch
            if w[scalar + _DOING] != _AT_TRIP:
                continue
            released = True
            if segments[w[scalar + _SEGMENT], _TRIPS] - w[scalar + _TRIP] > 2:
                _probe(w, stretch, flags, group, now, served_to, groups, probe)
                place = _find(probes, probe, kept, next_kept)
                times = -1
                if place >= 0:
                    period = now - shots[place, len(w)]
                    times = _periods(shots[place], w, stretch, period, segments, many)
                if times > 0:
                    shift = times * period
                    _skip(shots[place], w, stretch, flags, times, shift, due, out)
                    now += shift
                    served_to += shift
                    if through_at != _NEVER:
                        through_at += shift
                    kept = next_kept = 0
                elif times < 0:
                    if place < 0:
                        place = next_kept
                        next_kept = (next_kept + 1) % len(probes)
                        kept = min(kept + 1, len(probes))
                        for i in range(len(probe)):
                            probes[place, i] = probe[i]
                    for i in range(len(w)):
                        shots[place, i] = w[i]
                    shots[place, len(w)] = now
            w[scalar + _DOING] = _READY
            due[group] = now
        if released:
            continue

        for group in range(many):
            if w[group * stretch + _AHEAD] == _TWICE_AHEAD:
                out[STATUS] = AHEAD
                return
            if not w[group * stretch + _SUSPECT]:
                continue
            w[group * stretch + _SUSPECT] = 0
            for flag in range(groups[group, _FLAGS]):
                if w[group * stretch + FLAGS_FROM + flag] > 1:
                    out[STATUS], out[TOTAL] = RAISED_TWICE, now
                    out[STUCK_GROUP], out[STUCK_FLAG] = group, flag
                    return
        soonest = through_at
        for group in range(many):
            soonest = min(soonest, due[group])
        if soonest == _NEVER:
            break
        now = soonest

    for group in range(many):
        for pipe in range(4):
            me = group * stretch + PIPE_WIDTH * pipe
            out[TOTAL] = max(out[TOTAL], w[me + _SINCE])
            out[SIMULATED] += w[me + INSTRUCTIONS]
            if w[me + _DOING] != _DONE and out[STUCK_GROUP] in (-1, group):
                out[STATUS], out[STUCK_GROUP] = DEADLOCK, group
                if w[me + _DOING] == _AT_FLAG and out[STUCK_PIPE] < 0:
                    out[STUCK_PIPE], out[STUCK_FLAG] = pipe, rows[w[me + _ROW], _FLAG]


@_compiled
def _find(probes: Int, probe: Int, kept: int, next_kept: int) -> int:
    """Where an equal state is kept, the latest first, or -1."""
    for back in range(kept):
        place = (next_kept - 1 - back) % len(probes)
        same = True
        for i in range(len(probe)):
            if probes[place, i] != probe[i]:
                same = False
                break
        if same:
            return place
    return -1


@njit(cache=True, nogil=True)
def run(rows: Int, segments: Int, groups: Int, numbers: Int, w: Int, out: Int) -> None:
    """Simulate a launch.

    ``rows``, ``segments``, ``groups``: the table; ``numbers``: of the launch and the chip. ``w`` and ``out``,
    all 0 before, are filled in: ``w`` has a stretch of equal length for each group and holds what each pipe
    has done in the end.
    """
    out[STUCK_GROUP] = out[STUCK_PIPE] = out[STUCK_FLAG] = -1
    if _too_large(rows, segments, groups, numbers):
        out[STATUS] = TOO_LARGE
        return
    many = len(groups)
    flags = (len(w) // many - FLAGS_FROM) // 3
    flows = np.empty((2 * many, FLOW_COLUMNS), np.int64)
    kinds, firsts = np.zeros(len(rows), np.int64), np.empty(len(rows), np.int64)
    _limits(rows, segments, groups, numbers, out, flows, np.empty(5, np.int64))
    _alike(rows, kinds, firsts)
    states = 0
    for segment in range(len(segments)):
        states = min(numbers[REMEMBERED], states + segments[segment, _TRIPS])
    width = 1 + many * (28 + 2 * flags)
    _simulate(
        rows,
        segments,
        groups,
        numbers,
        w,
        out,
        kinds,
        flows,
        np.empty(many, np.int64),
        np.zeros((_RATES, 1 + 4 * many), np.int64),
        np.empty((states, width), np.int64),
        np.empty((states, len(w) + 1), np.int64),
        np.zeros(width, np.int64),
    )

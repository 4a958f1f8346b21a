"""Tables for launches of one kind: recorded, verified and looked up once, computed anew for each.

The kernel is recorded with integers that remember how they came about (:mod:`kernel.trace`), and so are the
checks of :mod:`kernel.verify` and the costs, with the numbers of a chip that does the same. What comes out is
a :class:`Template`: a table as a function of all these numbers, and the conditions under which to record,
check and look up would give just that. For a launch that fulfils those of no template another one is made.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any, cast

import numpy as np

from emulator.device.bound import moved_by
from emulator.device.costs import Costs
from emulator.device.fast.chip import TracedSoc, numbers_of
from emulator.device.fast.run import Cells, Int, NotForThisEngine, Table, array, cells, flags_of
from emulator.device.lower import Irregular, Lowered, lower
from emulator.device.memory import Residency
from kernel.core import Tiles
from kernel.elementwise import Input, Job
from kernel.layout import Layout
from kernel.plan import Sketch
from kernel.program import Starts, TensorArg
from kernel.tiling import Problem
from kernel.trace import Trace, Traced
from kernel.verify import verify
from socs.spec import Soc

KEPT = 512
"""Templates that are kept, of all kinds together; the rest is made anew when it is needed."""

REPAID_BY = 8
"""Launches of a kind for each template that is made for it: to make one takes as long as so many without."""

_OPENED = (Problem, Job, Input)
"""What kernels are recorded for: the integers in it are numbers of the launch. Of whatever else a kernel is
told, each value is a kind of its own."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table, the keys of the chip's numbers that went into it, and whether its programs are in order;
    there is none of programs that are not."""

    table: Table | None
    used: frozenset[str]


@dataclass(slots=True)
class _Kind:
    """The templates for one kind of launch, and how many launches of it there have been."""

    templates: list[Template]
    launches: int = 0


class Templates:
    """All templates that have been made. May be shared by threads."""

    def __init__(self) -> None:
        self._kinds: OrderedDict[object, _Kind] = OrderedDict()
        self._lock = Lock()
        self.made = 0

    def sheet(self, sketch: Sketch, soc: Soc, where: Residency, *, make: bool = False) -> Sheet | None:
        """The table of a launch on a chip; ``None`` where it is not worth a template, unless ``make``.

        Raises what recording it would, and ``NotForThisEngine``.
        """
        numbers: list[int] = []
        name = _kind(sketch, numbers)
        numbers += (where.load_hbm, where.store_hbm, where.load_traffic, where.store_traffic)
        with self._lock:
            kind = self._kinds.get(name)
            if kind is None:
                kind = self._kinds[name] = _Kind([])
            self._kinds.move_to_end(name)
            kind.launches += 1
            known = list(kind.templates)
        for place, template in enumerate(known):
            found = template.sheet(sketch, numbers, soc)
            if found is not None:
                template.used += 1
                if place and template.used > known[place - 1].used:
                    self._prefer(kind, template)
                return found
        if not make and kind.launches < REPAID_BY * (len(known) + 1):
            return None
        template = Template(sketch, numbers, soc)
        found = template.sheet(sketch, numbers, soc)
        assert found is not None, "a launch fulfils the conditions that it has set"
        self._keep(kind, template)
        return found

    def _keep(self, kind: _Kind, template: Template) -> None:
        with self._lock:
            self.made += 1
            kind.templates.append(template)
            while sum([len(each.templates) for each in self._kinds.values()]) > KEPT:
                self._kinds.popitem(last=False)

    def _prefer(self, kind: _Kind, template: Template) -> None:
        """Try this one a little earlier."""
        with self._lock:
            place = kind.templates.index(template)
            if place:
                kind.templates[place - 1 : place + 1] = [template, kind.templates[place - 1]]


class Template:
    """Tables of launches that take the same way through recorder, checks and costs."""

    def __init__(self, sketch: Sketch, numbers: Sequence[int], soc: Soc) -> None:
        trace = Trace()
        given = iter([trace.number(number) for number in numbers])
        traced = _rebuilt(sketch, given)
        where = Residency(*cast(Iterator[int], given))
        chip = TracedSoc(soc, trace)
        used: set[str] = set()
        launch = traced.launch(chip.soc)
        self._clean = not verify(launch, chip.soc)
        outputs: list[object] = []
        if self._clean:
            layouts = {t.name: t.layout for t in launch.tensors if t.layout is not None}
            try:
                lowered = lower(launch, Costs(chip.soc, where, used, layouts))
            except Irregular as error:
                raise NotForThisEngine(str(error)) from None
            outputs = self._filled(lowered)
        # Text that a number has gone into tells nothing about a launch that is in order.
        assert not (self._clean and trace.leaked)
        self.used = 0
        self._keys = frozenset(used)
        self._paths, self._facts = chip.paths, chip.facts
        self._chip: tuple[Soc, tuple[int | float, ...] | None] | None = None
        self.replay = trace.replay(outputs)

    def sheet(self, sketch: Sketch, numbers: Sequence[int], soc: Soc) -> Sheet | None:
        """For a launch of the same kind, if it fulfils the conditions."""
        chip = self._chip
        if chip is None or chip[0] is not soc:
            chip = self._chip = (soc, numbers_of(soc, self._paths, self._facts))
        if chip[1] is None:
            return None
        values = self.replay((*numbers, *chip[1]))
        if values is None:
            return None
        if not self._clean:
            return Sheet(None, self._keys)
        *moved, last = values[:3], values[3:]
        found = array(last)
        rows, segments, groups = [part.filled(found) for part in self._parts]
        first_blocks = [first for _, first, *_ in sketch.groups]
        return Sheet(Table(rows, segments, groups, first_blocks, self._flags, moved[0]), self._keys)

    def _filled(self, lowered: Lowered) -> list[object]:
        """Outputs: the sums of :func:`moved_by`, which may be large, then all numbers of the table once."""
        outputs: list[object] = []
        places: dict[object, int] = {}
        self._parts = [_Part(part, outputs, places) for part in cells(lowered)]
        self._flags = flags_of(lowered)
        return [*moved_by(lowered), *outputs]


class _Part:
    """An array of which some elements are traced numbers."""

    def __init__(self, part: list[Cells], outputs: list[object], places: dict[object, int]) -> None:
        flat: list[Any] = [number for line in part for number in line]
        traced = [place for place, number in enumerate(flat) if isinstance(number, Traced)]
        for place in traced:
            key = (flat[place].terms, flat[place].constant)
            if key not in places:
                places[key] = len(outputs)
                outputs.append(flat[place])
        self._where = np.array(traced, np.int64)
        self._which = np.array([places[flat[p].terms, flat[p].constant] for p in traced], np.int64)
        plain = [0 if isinstance(number, Traced) else number for number in flat]
        self._plain = array(plain).reshape(len(part), -1)

    def filled(self, numbers: Int) -> Int:
        found = self._plain.copy()
        found.reshape(-1)[self._where] = numbers[self._which]
        return found


# ---- a launch as its kind and its numbers -----------------------------------------------------------------


def _kind(sketch: Sketch, numbers: list[int]) -> object:
    """What is no number of a launch; the numbers are appended to ``numbers``."""
    kind: list[object] = [sketch.kernel, sketch.record, _part(sketch.about, numbers)]
    for starts, _, tiles, buffer_length, buffer_num in sketch.groups:
        numbers += (starts.start, starts.step, len(starts), tiles.length, tiles.tile_length)
        numbers += (buffer_length, buffer_num)
    kind.append(len(sketch.groups))
    for tensor in sketch.tensors:
        numbers.append(tensor.length)
        kind += (tensor.name, tensor.dtype, tensor.written)
        layout = tensor.layout
        if layout is not None:
            numbers += (*layout.shape, *layout.strides, layout.offset)
            kind.append(len(layout.shape))
    return tuple(kind)


def _part(value: object, numbers: list[int]) -> object:
    if type(value) is int:
        numbers.append(value)
        return int
    if isinstance(value, tuple):
        return tuple([_part(item, numbers) for item in value])
    if isinstance(value, _OPENED):
        return (type(value), *[_part(getattr(value, name), numbers) for name in _names(type(value))])
    return value


def _names(kind: type) -> tuple[str, ...]:
    found = _FIELDS.get(kind)
    if found is None:
        found = _FIELDS[kind] = tuple(field.name for field in fields(kind))
    return found


_FIELDS: dict[type, tuple[str, ...]] = {}


def _rebuilt(sketch: Sketch, numbers: Iterator[Any]) -> Sketch:
    """The same with other numbers, taken in the order in which :func:`_kind` gives them."""
    about = _rebuilt_part(sketch.about, numbers)
    groups = []
    for _, first, *_ in sketch.groups:
        starts = Starts(next(numbers), next(numbers), next(numbers))
        tiles = Tiles(next(numbers), next(numbers))
        groups.append((cast(range, starts), first, tiles, next(numbers), next(numbers)))
    tensors = []
    for tensor in sketch.tensors:
        length, layout = next(numbers), tensor.layout
        if layout is not None:
            shape = tuple(next(numbers) for _ in layout.shape)
            strides = tuple(next(numbers) for _ in layout.strides)
            layout = Layout(shape, strides, next(numbers))
        tensors.append(TensorArg(tensor.name, tensor.dtype, length, tensor.written, layout))
    return replace(sketch, about=about, groups=tuple(groups), tensors=tuple(tensors))


def _rebuilt_part(value: Any, numbers: Iterator[Any]) -> Any:
    if type(value) is int:
        return next(numbers)
    if isinstance(value, tuple):
        return tuple([_rebuilt_part(item, numbers) for item in value])
    if isinstance(value, _OPENED):
        return type(value)(*[_rebuilt_part(getattr(value, name), numbers) for name in _names(type(value))])
    return value


TEMPLATES = Templates()
"""Those of this process: code that was compiled, not results."""

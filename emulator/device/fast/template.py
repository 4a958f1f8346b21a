"""Tables for launches of one kind: recorded, verified and looked up once, computed anew for each.

For each group of equal blocks the kernel is recorded with integers that remember how they came about
(:mod:`kernel.trace`), and so are the checks of :mod:`kernel.verify` and the costs, with the numbers of a chip
that does the same. What comes out is a :class:`Template`: the group's share of a table as a function of all
these numbers, and the conditions under which to record, check and look up would give just that. For a group
that fulfils those of no template another one is made, where that pays.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from threading import Lock
from typing import Any, cast

import numpy as np

from emulator.device.bound import Moved, moved_by
from emulator.device.collection import no_collection
from emulator.device.costs import Costs
from emulator.device.fast.chip import TracedSoc, numbers_of
from emulator.device.fast.run import (
    ROW_WIDTH,
    SEGMENT_WIDTH,
    Int,
    NotForThisEngine,
    Table,
    array,
    cells,
    flags_of,
)
from emulator.device.lower import Irregular, Lowered, lower
from emulator.device.memory import Residency
from kernel.core import Tiles
from kernel.elementwise import Input, Job
from kernel.layout import Layout
from kernel.plan import Sketch
from kernel.program import Starts, TensorArg
from kernel.tiling import Problem
from kernel.trace import Trace, Traced
from kernel.verify import Place, check_blocks, joins
from socs.spec import Soc

KEPT = 512
"""Templates that are kept, of all kinds together; the rest is made anew when it is needed."""

REPAID_BY = 8
"""Groups of a kind for each template that is made for it: to make one takes as long as so many without."""

Group = tuple[range, int, Tiles, int, int]
"""As in :attr:`kernel.plan.Sketch.groups`."""

_OPENED = (Problem, Job, Input)
"""What kernels are recorded for: the integers in it are numbers of the launch. Of whatever else a kernel is
told, each value is a kind of its own."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table and the keys of the chip's numbers that went into it. There is no table of programs that are
    not in order."""

    table: Table | None
    used: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Share:
    """What a template gives of a table: the part of one group of blocks."""

    rows: Int
    segments: Int
    count: int
    moved: Moved


@dataclass(slots=True)
class _Kind:
    """The templates for one kind of group, and how many groups of it there have been."""

    templates: list[Template]
    groups: int = 0


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
        if any(joins(_places(sketch), sketch.tensors)):
            return Sheet(None)
        about: list[int] = []
        kind = (sketch.kernel, sketch.record, _part(sketch.about, about), _tensors(sketch, about))
        about += (where.load_hbm, where.store_hbm, where.load_traffic, where.store_traffic)
        found = []
        made = self.made
        for group in sketch.groups:
            numbers = (*_numbers(group), *about)
            # One is enough for one call to wait for.
            worth = None if make else made == self.made
            template, share = self._share(kind, sketch, group, numbers, soc, worth)
            if template is None:
                return None
            if share is None:
                return Sheet(None)
            found.append((template, share))
        used = frozenset().union(*[template.keys for template, _ in found])
        return Sheet(_joined(sketch, found), used)

    def _share(
        self, name: object, sketch: Sketch, group: Group, numbers: Sequence[int], soc: Soc, worth: bool | None
    ) -> tuple[Template | None, _Share | None]:
        """A template for a group, and what it gives, if the program is in order.

        ``worth``: whether one is made where that pays; ``None`` if in any case.
        """
        with self._lock:
            kind = self._kinds.get(name)
            if kind is None:
                kind = self._kinds[name] = _Kind([])
            self._kinds.move_to_end(name)
            kind.groups += 1
            known = list(kind.templates)
        for place, template in enumerate(known):
            fits, share = template.share(numbers, soc)
            if fits:
                template.used += 1
                if place and template.used > known[place - 1].used:
                    self._prefer(kind, template)
                return template, share
        if worth is not None and (not worth or kind.groups < REPAID_BY * (len(known) + 1)):
            return None, None
        with no_collection():
            template = Template(sketch, group, numbers, soc)
        fits, share = template.share(numbers, soc)
        assert fits, "a group fulfils the conditions that it has set"
        with self._lock:
            self.made += 1
            kind.templates.append(template)
            while sum([len(each.templates) for each in self._kinds.values()]) > KEPT:
                self._kinds.popitem(last=False)
        return template, share

    def _prefer(self, kind: _Kind, template: Template) -> None:
        """Try this one a little earlier."""
        with self._lock:
            place = kind.templates.index(template)
            if place:
                kind.templates[place - 1 : place + 1] = [template, kind.templates[place - 1]]


class Template:
    """Shares of tables for groups that take the same way through recorder, checks and costs."""

    def __init__(self, sketch: Sketch, group: Group, numbers: Sequence[int], soc: Soc) -> None:
        trace = Trace()
        given = iter([trace.number(number) for number in numbers])
        alone = _rebuilt(sketch, group, given)
        where = Residency(*cast(Iterator[int], given))
        chip = TracedSoc(soc, trace)
        used: set[str] = set()
        launch = alone.launch(chip.soc)
        self._clean = not check_blocks(launch.blocks[0], launch, chip.soc)
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
        self.keys = frozenset(used)
        self._paths, self._facts = chip.paths, chip.facts
        self._chip: tuple[Soc, tuple[int | float, ...] | None] | None = None
        self.replay = trace.replay(outputs)

    def share(self, numbers: Sequence[int], soc: Soc) -> tuple[bool, _Share | None]:
        """Whether a group of the same kind fulfils the conditions, and what it gets."""
        chip = self._chip
        if chip is None or chip[0] is not soc:
            chip = self._chip = (soc, numbers_of(soc, self._paths, self._facts))
        if chip[1] is None:
            return False, None
        values = self.replay((*numbers, *chip[1]))
        if values is None:
            return False, None
        if not self._clean:
            return True, None
        filled = self._plain.copy()
        filled[self._where] = array(values[4:])[self._which]
        rows = filled[: self._of_rows].reshape(-1, ROW_WIDTH)
        segments = filled[self._of_rows :].reshape(-1, SEGMENT_WIDTH)
        return True, _Share(rows, segments, values[3], values[:3])

    def _filled(self, lowered: Lowered) -> list[object]:
        """Outputs: the sums of :func:`moved_by`, which may be large, and the number of blocks; then all
        numbers of rows and segments once."""
        rows, segments, _ = cells(lowered)
        self._of_rows = sum(map(len, rows))
        flat: list[Any] = [number for line in (*rows, *segments) for number in line]
        traced = [place for place, number in enumerate(flat) if isinstance(number, Traced)]
        places: dict[object, int] = {}
        outputs: list[object] = []
        for place in traced:
            key = (flat[place].terms, flat[place].constant)
            if key not in places:
                places[key] = len(outputs)
                outputs.append(flat[place])
        self._where = np.array(traced, np.int64)
        self._which = np.array([places[flat[p].terms, flat[p].constant] for p in traced], np.int64)
        self._plain = array([0 if isinstance(number, Traced) else number for number in flat])
        (self.flags,) = flags_of(lowered)
        return [*moved_by(lowered), lowered.groups[0].count, *outputs]


def _joined(sketch: Sketch, found: Sequence[tuple[Template, _Share]]) -> Table:
    """The table of all groups."""
    rows, begin = 0, 0
    groups = []
    moved = [0, 0, 0]
    for template, share in found:
        if rows:
            share.segments[:, :2] += rows
        rows += len(share.rows)
        end = begin + len(share.segments)
        groups.append((begin, end, share.count, len(template.flags)))
        begin = end
        moved = [a + b for a, b in zip(moved, share.moved, strict=True)]
    shares = [share for _, share in found]
    return Table(
        np.concatenate([share.rows for share in shares]) if len(shares) > 1 else shares[0].rows,
        np.concatenate([share.segments for share in shares]) if len(shares) > 1 else shares[0].segments,
        array(groups),
        [first for _, first, *_ in sketch.groups],
        [template.flags for template, _ in found],
        (moved[0], moved[1], moved[2]),
    )


# ---- a group of a launch as its kind and its numbers ------------------------------------------------------


def _places(sketch: Sketch) -> list[Place]:
    return [(s.start, s.step, len(s), tiles.length) for s, _, tiles, _, _ in sketch.groups]


def _numbers(group: Group) -> tuple[int, ...]:
    starts, _, tiles, buffer_length, buffer_num = group
    cut = (tiles.length, tiles.tile_length, buffer_length, buffer_num)
    return (starts.start, starts.step, len(starts), *cut)


def _tensors(sketch: Sketch, numbers: list[int]) -> tuple[object, ...]:
    """What is no number of the tensors; the numbers are appended to ``numbers``."""
    kind: list[object] = []
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


def _rebuilt(sketch: Sketch, group: Group, numbers: Iterator[Any]) -> Sketch:
    """A launch of that group alone with other numbers, in the order in which they were taken from it."""
    starts = Starts(next(numbers), next(numbers), next(numbers))
    tiles = Tiles(next(numbers), next(numbers))
    alone = (cast(range, starts), group[1], tiles, next(numbers), next(numbers))
    about = _rebuilt_part(sketch.about, numbers)
    tensors = []
    for tensor in sketch.tensors:
        length, layout = next(numbers), tensor.layout
        if layout is not None:
            shape = tuple([next(numbers) for _ in layout.shape])
            strides = tuple([next(numbers) for _ in layout.strides])
            layout = Layout(shape, strides, next(numbers))
        tensors.append(TensorArg(tensor.name, tensor.dtype, length, tensor.written, layout))
    return replace(sketch, about=about, groups=(alone,), tensors=tuple(tensors))


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

"""What a call comes to before anything runs, whatever the operator: the plan, and the rules they share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kernel.core import Tiles
from kernel.layout import Layout, broadcast, contiguous_strides
from kernel.program import Blocks, Launch, Program, TensorArg
from kernel.tiling import Tiling, TilingOptions
from kernel.verify import Finding, verify
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc

PARAM_INVALID = 161002
"""ACLNN_ERR_PARAM_INVALID (opbase ``op_errno.h``)."""

MAX_RANK = 8
MAX_ELEMENTS = 1 << 48
"""More than any address space of these chips; keeps byte counts far from int64's end."""

UINT32_ELEMENTS = 1 << 32
"""The real tiling counts elements in uint32."""


EMPTY = "a tensor is empty: nothing is launched"


@dataclass(frozen=True)
class Sketch:
    """A launch that is decided, but whose programs have not been recorded.

    ``record(soc, *about, tiles, buffer_length, buffer_num)`` gives the program of equal blocks; ``groups``
    are those blocks as (starts, first block, tiles, buffer_length, buffer_num).
    """

    kernel: str
    record: Callable[..., Program]
    about: tuple[object, ...]
    groups: tuple[tuple[range, int, Tiles, int, int], ...]
    tensors: tuple[TensorArg, ...]
    scalars: dict[str, float]
    shape: tuple[int, ...]

    def launch(self, soc: Soc) -> Launch:
        """The launch, recorded for ``soc``."""
        blocks = tuple(
            Blocks(self.record(soc, *self.about, tiles, buffer_length, buffer_num), starts, first)
            for starts, first, tiles, buffer_length, buffer_num in self.groups
        )
        return Launch(self.kernel, blocks, self.tensors, self.scalars, self.shape)

    @cached_property
    def block_dim(self) -> int:
        return sum([len(starts) for starts, *_ in self.groups])

    @cached_property
    def bytes_read(self) -> int:
        return sum([t.bytes for t in self.tensors if not t.written])

    @cached_property
    def bytes_written(self) -> int:
        return sum([t.bytes for t in self.tensors if t.written])


@dataclass(frozen=True)
class Plan:
    """What a call comes to: a launch, how it was cut, and what must be said about it.

    ``dtype`` and ``shape`` are the result's. ``sketch`` and ``launch`` are ``None`` where nothing is launched
    (an empty tensor); the launch is recorded when it is asked for, and so is what :func:`verify` finds in it.
    ``stand_in_for`` names the kernel that the chip really runs where the user chose another. ``notes``: what
    must be said besides. ``assumed``: what of the kernel no public source settles. ``reduction``: by its
    name, where the operator has one.
    """

    operator: str
    kernel: str
    soc: Soc
    dtype: DType
    shape: tuple[int, ...]
    sketch: Sketch | None
    tiling: Tiling | None
    stand_in_for: str | None
    notes: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    reduction: str | None = None

    @cached_property
    def launch(self) -> Launch | None:
        """The recorded launch."""
        return None if self.sketch is None else self.sketch.launch(self.soc)

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the launch."""
        return () if self.launch is None else tuple(verify(self.launch, self.soc))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What must be said of the launch. ``AtlasError`` for one that cannot run."""
        return self.warnings_with(self.findings)

    def warnings_with(self, findings: Sequence[Finding]) -> tuple[str, ...]:
        """The same where the findings are known, so that nothing need be recorded for them."""
        if self.sketch is None or self.tiling is None:
            return self.notes
        return (*_warnings(self.sketch, self.soc, self.tiling, findings), *self.notes)

    def checked(self) -> Plan:
        """This plan, recorded and verified. ``AtlasError`` where it cannot run."""
        assert self.warnings is not None
        return self


def dims_of(shape: Sequence[int]) -> tuple[int, ...]:
    """The dimensions as integers. ``AtlasError`` (161002) where one is negative."""
    dims = tuple(map(int, shape))
    for dim in dims:
        if dim < 0:
            raise AtlasError(f"shape {shape_text(dims)}: dimension {dim} is negative", status=PARAM_INVALID)
    return dims


def shape_text(shape: Sequence[int]) -> str:
    """``[2, 3]``."""
    return f"[{', '.join(map(str, shape))}]"


def layout_in(shape: tuple[int, ...], joined: tuple[int, ...]) -> Layout | None:
    """Where a contiguous tensor of ``shape`` lies in the joined index space; ``None`` if that is linear."""
    if shape == joined or math.prod(shape) == math.prod(joined):
        return None
    return Layout(joined, broadcast(shape, contiguous_strides(shape), joined))


def check_block_dim(soc: Soc, options: TilingOptions) -> None:
    """``AtlasError`` where the user asks for more blocks than the chip has vector cores."""
    if options.block_dim is not None and options.block_dim > soc.vector_cores:
        raise AtlasError(
            f"block-dim = {options.block_dim}: {soc.name} has {soc.vector_cores} vector cores "
            f"({soc.origin}: vector_cores)"
        )


def _warnings(launch: Sketch, soc: Soc, cut: Tiling, findings: Sequence[Finding]) -> tuple[str, ...]:
    if findings and cut.chosen_by == "user":
        raise AtlasError(str(findings[0]).removeprefix("capacity: "))
    warnings = []
    for finding in findings:
        if finding.rule != "capacity":
            raise AtlasError(f"{launch.kernel} on {soc.name} is not a valid program: {finding}")
        warnings.append(f"{finding.message}; the real tiling asks for this too (docs/deviations.md)")
    needed = launch.bytes_read + launch.bytes_written
    if soc.memory.bytes is not None and needed > soc.memory.bytes:
        warnings.append(
            f"the tensors need {needed:,} B, {soc.name} has {soc.memory.bytes:,} B "
            f"({soc.origin}: memory.bytes)"
        )
    if cut.total_length >= UINT32_ELEMENTS:
        warnings.append(
            f"{cut.total_length} elements: the real tiling counts in 32 bits and would wrap; "
            "64-bit tiling used here"
        )
    return tuple(dict.fromkeys(warnings))

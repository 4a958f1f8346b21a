"""What a recorded launch computes, derived by following values through the UB.

From the loads to the store of every tile: each element stored must come from the elements at the same
place of the inputs, and all tiles must compute the same. Then tiles and blocks do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernel.interpret import function_name
from kernel.program import Instruction, Launch, Region, Window
from kernel.verify import coverage
from socs.errors import AtlasError
from socs.isa import DType, Op, Pipe
from socs.spec import Numerics


@dataclass(frozen=True, slots=True)
class Load:
    """An input element."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Apply:
    """A function of :mod:`kernel.numerics.vector` applied to expressions and a scalar argument."""

    function: str
    operands: tuple[Expression, ...]
    scalar: str | None = None


Expression = Load | Apply


@dataclass(frozen=True, slots=True)
class Fused:
    """What every element of ``output`` is."""

    output: str
    expression: Expression
    tensors: tuple[tuple[str, DType], ...]
    scalars: tuple[str, ...]


def fuse(launch: Launch, numerics: Numerics, saturate: bool) -> Fused:
    """The one expression that all tiles of ``launch`` compute. ``AtlasError`` where there is none."""
    for finding in coverage(launch):
        raise AtlasError(f"{launch.kernel} cannot be fused: {finding}")
    found: set[tuple[str, Expression]] = set()
    for blocks in launch.blocks:
        flow = _Flow(launch, numerics, saturate)
        for instruction, trip in blocks.program.walk(max_trips=2):
            flow.follow(instruction, trip)
        found |= flow.stored
    if len(found) != 1:
        raise AtlasError(f"{launch.kernel} cannot be fused: its tiles compute {len(found)} different things")
    ((output, expression),) = found
    return Fused(
        output,
        expression,
        tuple((t.name, t.dtype) for t in launch.tensors),
        tuple(sorted(launch.scalars)),
    )


class _Flow:
    """Follows values through the UB: which expression, of which elements, lies where.

    The place of a value that depends on no tensor is ``None``: it is the same everywhere.
    """

    def __init__(self, launch: Launch, numerics: Numerics, saturate: bool) -> None:
        self._launch = launch
        self._numerics = numerics
        self._saturate = saturate
        self._at: dict[int, tuple[Expression, int | None, int, DType]] = {}
        self.stored: set[tuple[str, Expression]] = set()

    def follow(self, instruction: Instruction, trip: int) -> None:
        if instruction.dst is None:
            return
        if instruction.op is Op.COPY_IN:
            window, region = instruction.srcs[0], instruction.dst
            assert isinstance(window, Window)
            assert isinstance(region, Region)
            run = window.at(trip)
            self._put(region.address, Load(run.tensor), run.offset, run.count, run.dtype)
        elif isinstance(instruction.dst, Window):
            (region,) = instruction.srcs
            assert isinstance(region, Region)
            run = instruction.dst.at(trip)
            expression, place = self._get(region.address, run.count, run.dtype, instruction)
            if place not in (run.offset, None):
                raise AtlasError(f"{instruction} stores element {place} at {run.offset}: not elementwise")
            self.stored.add((run.tensor, expression))
        elif instruction.pipe is Pipe.V:
            self._vector(instruction)

    def _vector(self, instruction: Instruction) -> None:
        assert isinstance(instruction.dst, Region)
        name = None
        if instruction.op is not Op.BROADCAST:
            name = function_name(instruction, self._numerics, self._saturate)
        size = instruction.dst.dtype.itemsize
        # A broadcast works in place: what it repeats is one value before and after. Rows of other
        # instructions may be values of their own.
        rows, times = instruction.dst.rows, 1
        if instruction.op is Op.BROADCAST and instruction.dst.pitch == instruction.dst.count:
            rows, times = 1, rows
        for row in range(rows):
            operands, places = [], set()
            for source in instruction.srcs:
                assert isinstance(source, Region)
                address = source.address + row * source.pitch * source.dtype.itemsize
                expression, place = self._get(address, source.count * times, source.dtype, instruction)
                operands.append(expression)
                if place is not None:
                    places.add(place)
            if len(places) > 1:
                raise AtlasError(f"{instruction} combines different elements: not elementwise")
            address = instruction.dst.address + row * instruction.dst.pitch * size
            result = operands[0] if name is None else Apply(name, tuple(operands), instruction.scalar)
            place = places.pop() if places else None
            self._put(address, result, place, instruction.dst.count * times, instruction.dst.dtype)

    def _put(self, address: int, expression: Expression, place: int | None, count: int, dtype: DType) -> None:
        stop = address + count * dtype.itemsize
        # What lay in these bytes before is gone, wholly or in part: forget it.
        self._at = {
            start: value
            for start, value in self._at.items()
            if start >= stop or start + value[2] * value[3].itemsize <= address
        }
        self._at[address] = (expression, place, count, dtype)

    def _get(
        self, address: int, count: int, dtype: DType, instruction: Instruction
    ) -> tuple[Expression, int | None]:
        for start, (expression, place, held, kind) in self._at.items():
            inside = address - start
            if kind is dtype and inside >= 0 and inside + count * dtype.itemsize <= held * dtype.itemsize:
                return expression, None if place is None else place + inside // dtype.itemsize
        raise AtlasError(f"{instruction} reads UB address {address}, which holds no {dtype} value")

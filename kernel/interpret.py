"""The slow, obvious truth: a launch executed instruction by instruction through a modelled UB.

The UB starts poisoned (every byte 0xFF: a NaN in each float format), so that a read of something
unwritten shows in the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from kernel.layout import Layout
from kernel.program import Instruction, Launch, Operand, Region, Window
from socs.errors import AtlasError
from socs.isa import OPS, DType, Op, Pipe
from socs.spec import Numerics, OverflowMode, Soc

Array = np.ndarray[Any, np.dtype[Any]]

CARRIERS: dict[DType, type[np.generic]] = {
    DType.FLOAT32: np.float32,
    DType.FLOAT16: np.uint16,
    DType.BFLOAT16: np.uint16,
    DType.INT64: np.uint64,
    DType.INT32: np.uint32,
    DType.UINT32: np.uint32,
    DType.INT16: np.uint16,
    DType.UINT16: np.uint16,
    DType.INT8: np.uint8,
    DType.UINT8: np.uint8,
    DType.BOOL: np.uint8,
}
"""NumPy dtype that carries a dtype's elements: all but float32 travel as their bits."""


def interpret(
    launch: Launch, soc: Soc, tensors: Mapping[str, Array], *, overflow: OverflowMode | None = None
) -> None:
    """Execute ``launch``; writes into the tensors that the launch marks as written.

    ``tensors``: one-dimensional contiguous arrays by argument name, in the carrier dtypes (float32, else
    unsigned integers). ``overflow`` defaults to the chip's own mode.
    """
    saturate = (overflow or soc.numerics.default_overflow_mode) == "saturation"
    # A program may ask for more UB than there is (the real tiling does, rarely); verify says so.
    size = max(soc.ub.bytes, *(blocks.program.ub_bytes for blocks in launch.blocks))
    views = {t.name: _view(tensors[t.name], launch.layout(t)) for t in launch.tensors}
    for blocks in launch.blocks:
        for start in blocks.starts:
            core = _Core(size, views, start, launch.scalars, soc.numerics, saturate)
            for instruction, trip in blocks.program.walk():
                core.execute(instruction, trip)


class _Core:
    def __init__(
        self,
        ub_bytes: int,
        tensors: Mapping[str, _Elements],
        start: int,
        scalars: Mapping[str, float],
        numerics: Numerics,
        saturate: bool,
    ) -> None:
        self._ub = np.full(ub_bytes, 0xFF, np.uint8)
        self._tensors = tensors
        self._start = start
        self._scalars = scalars
        self._numerics = numerics
        self._saturate = saturate

    def execute(self, instruction: Instruction, trip: int) -> None:
        if OPS[instruction.op].pipe is None or instruction.dst is None:
            return
        sources = [self._rows(source, trip) for source in instruction.srcs]
        if isinstance(instruction.dst, Window):
            run = instruction.dst.at(trip)
            first = self._start + run.offset
            self._tensors[run.tensor][first : first + run.count] = sources[0][0]
            return
        for row, target in enumerate(self._rows(instruction.dst, trip)):
            operands = [source[row] for source in sources]
            if instruction.pipe is Pipe.V:
                self._compute(instruction, target, operands)
            else:
                target[:] = operands[0]

    def _compute(self, instruction: Instruction, target: Array, operands: list[Array]) -> None:
        assert instruction.dst is not None
        if instruction.op is Op.BROADCAST:
            target[:] = operands[0]
            return
        name = function_name(instruction, self._numerics, self._saturate)
        if instruction.scalar is not None:
            operands = [*operands, np.full(1, self._scalars[instruction.scalar], np.float32)]
        if len(operands) == 1:
            _unary(name)(target, operands[0])
        else:
            _binary(name)(target, operands[0], operands[1])

    def _rows(self, operand: Operand, trip: int) -> list[Array]:
        carrier = CARRIERS[operand.dtype]
        if isinstance(operand, Window):
            first = self._start + operand.at(trip).offset
            return [self._tensors[operand.tensor][first : first + operand.count]]
        return [self._ub[start:stop].view(carrier) for start, stop in _spans(operand)]


_Elements = Any
"""A flat array, or the flat iterator of a strided one: sliced by element of the index space."""


def _view(storage: Array, layout: Layout) -> _Elements:
    if layout.is_linear:
        return storage[: layout.elements]
    size = storage.itemsize
    strides = tuple(stride * size for stride in layout.strides)
    return np.ndarray(layout.shape, storage.dtype, storage, layout.offset * size, strides).flat


def _spans(region: Region) -> list[tuple[int, int]]:
    return list(region.spans())


def function_name(instruction: Instruction, numerics: Numerics, saturate: bool) -> str:
    """The function of :mod:`kernel.numerics.vector` that does one element of ``instruction``."""
    from kernel.numerics import vector

    if instruction.dst is None or instruction.pipe is not Pipe.V:
        raise AtlasError(f"{instruction} computes nothing")
    source = instruction.srcs[0] if instruction.srcs else instruction.dst
    return vector.lookup(
        instruction.op,
        instruction.dst.dtype,
        source.dtype,
        mode=instruction.mode,
        saturate=saturate,
        nan=numerics.nan,
        subnormals=numerics.subnormals,
        float32_overflow=numerics.float32_overflow,
    )


def _jit(function: Callable[..., None]) -> Callable[..., None]:
    import numba

    return numba.njit(function, nogil=True)  # type: ignore[no-any-return]


@cache
def _unary(name: str) -> Callable[..., None]:
    from kernel.numerics import vector

    body = vector.function(name)

    def run(out: Array, a: Array) -> None:
        step = 0 if a.size == 1 else 1
        for i in range(out.size):
            out[i] = body(a[i * step])

    return _jit(run)


@cache
def _binary(name: str) -> Callable[..., None]:
    from kernel.numerics import vector

    body = vector.function(name)

    def run(out: Array, a: Array, b: Array) -> None:
        step = 0 if b.size == 1 else 1
        for i in range(out.size):
            out[i] = body(a[i], b[i * step])

    return _jit(run)

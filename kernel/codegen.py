"""The source of a fused loop, from the expression and the way each tensor is walked through.

``run(first, last, low, high, *tensors, *scalars, dims, strides, offsets)`` handles the rows ``first`` ..
``last`` of the index space (all axes but the innermost) and of each the elements ``low`` .. ``high``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from kernel.fuse import Expression, Fused, Load
from kernel.interpret import CARRIERS
from socs.isa import DType

TURN_TILE = 16
"""Rows, in elements, of the band in which a turned tensor is transposed: a cache line of float32."""

TURN_WIDTH = 512
"""Columns of it: long enough for the other tensors' rows to be fetched ahead, short enough for a cache."""


_SETTLED_LATER = tuple(f"{op}_float32" for op in ("add", "sub", "mul", "div", "max", "min", "muls", "relu"))
"""Functions with a variant that leaves the bits of a NaN open (:func:`kernel.numerics.vector.lookup`)."""


class Step(StrEnum):
    """How a tensor is walked along the innermost axis."""

    RUN = "run"
    """Element by element, through consecutive storage."""
    ONE = "one"
    """The same element again and again."""
    STRIDE = "stride"
    """In steps of any size."""
    TURN = "turn"
    """In steps of any size, but consecutively along the axis before: read in squares, transposed."""


@dataclass(frozen=True, slots=True)
class Walk:
    """The steps of the tensors, in the order of ``Fused.tensors``; ``streamed``: past the caches."""

    steps: tuple[Step, ...]
    streamed: bool

    @property
    def turned(self) -> bool:
        return Step.TURN in self.steps


def source_of(fused: Fused, walk: Walk) -> str:
    """A Python module with ``run``; compiled by Numba, or run as it stands without the JIT."""
    names = [name for name, _ in fused.tensors]
    tensors = {name: f"t{i}" for i, name in enumerate(names)}
    steps = dict(zip(names, walk.steps, strict=True))
    scalars = [f"s{i}" for i in range(len(fused.scalars))]
    inputs = [name for name in names if name != fused.output]
    elements = {name: f"x{i}" for i, name in enumerate(inputs)}
    lines, result, used = _statements(fused, elements, dict(zip(fused.scalars, scalars, strict=True)))
    line = _Line(fused, inputs, tensors, steps, scalars)
    carriers = {name: CARRIERS[dtype].__name__ for name, dtype in fused.tensors}
    signature = ", ".join(
        [
            *["types.int64"] * 4,
            *(
                f"types.Array(types.{carriers[name]}, 1, 'C', readonly={name != fused.output})"
                for name in names
            ),
            *["types.float32"] * len(scalars),
            *("types.int64[::1]", "types.int64[:, ::1]", "types.int64[::1]"),
        ]
    )
    head = ["first", "last", "low", "high", *tensors.values(), *scalars, "dims", "strides", "offsets"]
    body = (
        _turned_rows(names, steps, tensors, carriers, line)
        if walk.turned
        else _rows(names, line, tensors[fused.output], walk.streamed)
    )
    return "\n".join(
        [
            '"""Generated from a recorded kernel; safe to delete."""',
            "",
            "import numpy as np",
            "from numba import njit, types",
            "",
            "from kernel.numerics import stream, vector",
            "",
            *(f"{name} = vector.function({name!r})" for name in used),
            "",
            "",
            "@njit(nogil=True)",
            f"def element({', '.join([*elements.values(), *scalars])}):",
            *(f"    {text}" for text in lines),
            f"    return {result}",
            "",
            "",
            "@njit(nogil=True)",
            f"def line({', '.join(line.parameters(streamed=walk.streamed))}):",
            *(f"    {text}" for text in (line.streamed() if walk.streamed else line.plain())),
            "",
            "",
            f"@njit([types.void({signature})], cache=CACHE, nogil=True)",
            f"def run({', '.join(head)}):",
            *(f"    {text}" for text in body),
            "",
        ]
    )


class _Line:
    """The innermost loop: its parameters, its two forms, and the call of it.

    It runs from 0 over whole slices: only then does LLVM see that no index is negative, and makes
    vector code of it.
    """

    def __init__(
        self,
        fused: Fused,
        inputs: list[str],
        tensors: Mapping[str, str],
        steps: Mapping[str, Step],
        scalars: list[str],
    ) -> None:
        self._output = fused.output
        self._inputs = inputs
        self._names = [name for name, _ in fused.tensors]
        self._tensors = tensors
        self._steps = steps
        self._scalars = scalars
        kinds = dict(fused.tensors)
        walked = [name for name in self._names if steps[name] is not Step.ONE]
        self._paired = all(
            kinds[name] is DType.BFLOAT16 and steps[name] in (Step.RUN, Step.TURN) for name in walked
        )

    def parameters(self, *, streamed: bool) -> list[str]:
        found = ["count", "scratch"] if streamed else ["count"]
        for name in self._names:
            tensor = self._tensors[name]
            strided = self._steps[name] is Step.STRIDE
            found += [tensor, f"b{tensor}", f"u{tensor}"] if strided else [tensor]
        return [*found, *self._scalars]

    def call(
        self, base: Mapping[str, str], count: str, given: Mapping[str, str], *, streamed: bool = False
    ) -> str:
        """``line(...)`` for ``count`` elements from ``base``; ``given`` replaces whole arguments."""
        arguments = [count, "scratch"] if streamed else [count]
        for number, name in enumerate(self._names):
            tensor = self._tensors[name]
            step = self._steps[name]
            if name in given:
                arguments.append(given[name])
            elif step is Step.RUN:
                arguments.append(f"{tensor}[{base[name]} : {base[name]} + {count}]")
            elif step is Step.ONE:
                arguments.append(f"{tensor}[{base[name]}]")
            else:
                arguments += [tensor, base[name], f"strides[{number}, rank - 1]"]
        return f"line({', '.join([*arguments, *self._scalars])})"

    def plain(self) -> list[str]:
        one = f"{self._store('i')} = {self._element('i', {})}"
        if not self._paired:
            return ["for i in range(count):", f"    {one}"]
        out = self._tensors[self._output]
        return [
            "for k in range(count >> 1):",
            *(f"    {text}" for text in self._pair(out, {})),
            "for i in range(count & -2, count):",
            f"    {one}",
        ]

    def streamed(self) -> list[str]:
        out = self._tensors[self._output]
        runs = [name for name in self._inputs if self._steps[name] in (Step.RUN, Step.TURN)]
        slices = {name: f"p{self._tensors[name]}" for name in runs}
        return [
            f"begin = stream.until_aligned({out}, 0, count)",
            "for i in range(begin):",
            f"    {out}[i] = {self._element('i', {})}",
            "while begin + scratch.size <= count:",
            *(f"    stream.prefetch({self._tensors[n]}, begin, scratch.size)" for n in runs),
            *(f"    {slices[n]} = {self._tensors[n]}[begin : begin + scratch.size]" for n in runs),
            *(f"    {text}" for text in self._block(slices)),
            f"    stream.store_block({out}, begin, scratch)",
            "    begin += scratch.size",
            *(f"{slices[n]} = {self._tensors[n]}[begin:count]" for n in runs),
            f"rest = {out}[begin:count]",
            "for k in range(count - begin):",
            f"    rest[k] = {self._element('k', slices, 'begin + ')}",
        ]

    def _block(self, slices: Mapping[str, str]) -> list[str]:
        if self._paired:
            return [
                "for k in range(scratch.size >> 1):",
                *(f"    {text}" for text in self._pair("scratch", slices)),
            ]
        return [
            "for k in range(scratch.size):",
            f"    scratch[k] = {self._element('k', slices, 'begin + ')}",
        ]

    def _pair(self, out: str, slices: Mapping[str, str]) -> list[str]:
        """Two elements of each tensor at a time: see :func:`kernel.numerics.stream.pair`."""
        words, low, high = [], [], []
        for name in self._inputs:
            tensor = self._tensors[name]
            if self._steps[name] is Step.ONE:
                low.append(tensor)
                high.append(tensor)
                continue
            words.append(f"w{tensor} = stream.pair({slices.get(name, tensor)}, k)")
            low.append(f"np.uint16(w{tensor} & np.uint32(0xFFFF))")
            high.append(f"np.uint16(w{tensor} >> np.uint32(16))")
        first, second = (f"element({', '.join([*half, *self._scalars])})" for half in (low, high))
        return [*words, f"stream.set_pair({out}, k, {first}, {second})"]

    def _element(self, index: str, slices: Mapping[str, str], ahead: str = "") -> str:
        arguments = []
        for name in self._inputs:
            tensor, step = self._tensors[name], self._steps[name]
            if step is Step.ONE:
                arguments.append(tensor)
            elif step is Step.STRIDE:
                arguments.append(f"{tensor}[b{tensor} + ({ahead}{index}) * u{tensor}]")
            else:
                arguments.append(f"{slices.get(name, tensor)}[{index}]")
        return f"element({', '.join([*arguments, *self._scalars])})"

    def _store(self, index: str) -> str:
        out = self._tensors[self._output]
        if self._steps[self._output] is Step.STRIDE:
            return f"{out}[b{out} + {index} * u{out}]"
        return f"{out}[{index}]"


def _rows(names: list[str], line: _Line, out: str, streamed: bool) -> list[str]:
    base = {name: f"(o{number} + low * strides[{number}, rank - 1])" for number, name in enumerate(names)}
    # Scratch and fence once, not for every row: the fence waits for all streamed stores.
    scratch = [f"scratch = np.empty(stream.BLOCK_BYTES // {out}.itemsize, {out}.dtype)"] if streamed else []
    return [
        "rank = dims.size",
        "count = high - low",
        *scratch,
        "for row in range(first, last):",
        "    rest = row",
        *(f"    o{number} = offsets[{number}]" for number in range(len(names))),
        "    for axis in range(rank - 2, -1, -1):",
        "        place = rest % dims[axis]",
        "        rest //= dims[axis]",
        *(f"        o{number} += place * strides[{number}, axis]" for number in range(len(names))),
        f"    {line.call(base, 'count', {}, streamed=streamed)}",
        *(["stream.drain()"] if streamed else []),
    ]


def _turned_rows(
    names: list[str],
    steps: Mapping[str, Step],
    tensors: Mapping[str, str],
    carriers: Mapping[str, str],
    line: _Line,
) -> list[str]:
    """Rows in bands of :data:`TURN_TILE`; ``first`` and ``last`` count bands."""
    turned = [name for name in names if steps[name] is Step.TURN]
    number = {name: place for place, name in enumerate(names)}
    base = {
        name: f"(o{place} + (band + i) * strides[{place}, rank - 2] + left * strides[{place}, rank - 1])"
        for place, name in enumerate(names)
    }
    given = {name: f"q{number[name]}[i * {TURN_WIDTH} : i * {TURN_WIDTH} + width]" for name in turned}
    gather = []
    for name in turned:
        place = number[name]
        gather += [
            "        for j in range(width):",
            f"            corner = o{place} + band + (left + j) * strides[{place}, rank - 1]",
            f"            column = {tensors[name]}[corner : corner + height]",
            "            for i in range(height):",
            f"                q{place}[i * {TURN_WIDTH} + j] = column[i]",
        ]
    return [
        "rank = dims.size",
        "count = dims[rank - 1]",
        "height_all = dims[rank - 2]",
        f"bands = (height_all + {TURN_TILE - 1}) // {TURN_TILE}",
        *(f"q{number[n]} = np.empty({TURN_TILE * TURN_WIDTH}, np.{carriers[n]})" for n in turned),
        "for unit in range(first, last):",
        "    rest = unit // bands",
        f"    band = unit % bands * {TURN_TILE}",
        f"    height = min({TURN_TILE}, height_all - band)",
        *(f"    o{place} = offsets[{place}]" for place in range(len(names))),
        "    for axis in range(rank - 3, -1, -1):",
        "        place = rest % dims[axis]",
        "        rest //= dims[axis]",
        *(f"        o{place} += place * strides[{place}, axis]" for place in range(len(names))),
        f"    for left in range(0, count, {TURN_WIDTH}):",
        f"        width = min({TURN_WIDTH}, count - left)",
        *gather,
        "        for i in range(height):",
        f"            {line.call(base, 'width', given)}",
    ]


def _statements(
    fused: Fused, elements: Mapping[str, str], scalars: Mapping[str, str]
) -> tuple[list[str], str, list[str]]:
    """One assignment per function applied; the name of the result; the functions used."""
    lines: list[str] = []
    used: set[str] = set()
    values: dict[Expression, str] = {}

    def emit(expression: Expression, *, last: bool) -> str:
        if isinstance(expression, Load):
            return elements[expression.tensor]
        if expression not in values:
            arguments = [emit(operand, last=False) for operand in expression.operands]
            if expression.scalar is not None:
                arguments.append(scalars[expression.scalar])
            # A NaN stays one; which bits it has is settled by the last function, for all of them.
            function = expression.function
            if not last and function in _SETTLED_LATER:
                function = f"{function}_any"
            used.add(function)
            name = f"v{len(values)}"
            lines.append(f"{name} = {function}({', '.join(arguments)})")
            values[expression] = name
        return values[expression]

    result = emit(fused.expression, last=True)
    return lines, result, sorted(used)

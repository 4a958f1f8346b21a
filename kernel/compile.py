"""The same instructions, fused into one loop over whole tensors: the interpreter's bits at memory speed.

The fused expression is *derived* from the record: each tile's vector instructions are followed from the
loads to the store, and every element stored must come from the elements at the same place of the inputs.
Then tiles and blocks do not matter, and one loop may run over everything. The source of that loop is
written to a cache folder and compiled by Numba, with the compiled code kept on disk beside it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kernel.interpret import function_name
from kernel.program import Instruction, Launch, Region, Window
from kernel.verify import coverage
from socs.errors import AtlasError
from socs.isa import DType, Op, Pipe
from socs.spec import Numerics, OverflowMode, Soc

Array = np.ndarray[Any, np.dtype[Any]]

_LOG = logging.getLogger(__name__)

SERIAL_BELOW = 1 << 16
"""Elements below which a second thread costs more than it brings."""

STREAM_FROM_BYTES = 64 << 20
"""Bytes of all tensors from which the loop bypasses the caches: beyond most last-level caches."""


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
    """Follows values through the UB: which expression, of which elements, lies where."""

    def __init__(self, launch: Launch, numerics: Numerics, saturate: bool) -> None:
        self._launch = launch
        self._numerics = numerics
        self._saturate = saturate
        self._at: dict[int, tuple[Expression, int, int, DType]] = {}
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
            if place != run.offset:
                raise AtlasError(f"{instruction} stores element {place} at {run.offset}: not elementwise")
            self.stored.add((run.tensor, expression))
        elif instruction.pipe is Pipe.V:
            self._vector(instruction)

    def _vector(self, instruction: Instruction) -> None:
        assert isinstance(instruction.dst, Region)
        name = function_name(instruction, self._numerics, self._saturate)
        size = instruction.dst.dtype.itemsize
        for row in range(instruction.dst.rows):
            operands, places = [], set()
            for source in instruction.srcs:
                assert isinstance(source, Region)
                address = source.address + row * source.pitch * source.dtype.itemsize
                expression, place = self._get(address, source.count, source.dtype, instruction)
                operands.append(expression)
                places.add(place)
            if len(places) != 1:
                raise AtlasError(f"{instruction} combines different elements: not elementwise")
            address = instruction.dst.address + row * instruction.dst.pitch * size
            result = Apply(name, tuple(operands), instruction.scalar)
            self._put(address, result, places.pop(), instruction.dst.count, instruction.dst.dtype)

    def _put(self, address: int, expression: Expression, place: int, count: int, dtype: DType) -> None:
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
    ) -> tuple[Expression, int]:
        for start, (expression, place, held, kind) in self._at.items():
            inside = address - start
            if kind is dtype and inside >= 0 and inside + count * dtype.itemsize <= held * dtype.itemsize:
                return expression, place + inside // dtype.itemsize
        raise AtlasError(f"{instruction} reads UB address {address}, which holds no {dtype} value")


def source_of(fused: Fused, *, streamed: bool) -> str:
    """The Python source of the fused loop: ``run(start, stop, *tensors, *scalars)``.

    ``streamed``: in blocks that bypass the caches (:mod:`kernel.numerics.stream`); the same elements.
    """
    inputs = [name for name, _ in fused.tensors if name != fused.output]
    tensors = {name: f"t{i}" for i, (name, _) in enumerate(fused.tensors)}
    scalars = [f"s{i}" for i in range(len(fused.scalars))]
    elements = {name: f"x{i}" for i, name in enumerate(inputs)}
    lines, result, used = _statements(fused, elements, dict(zip(fused.scalars, scalars, strict=True)))
    out = tensors[fused.output]

    def call(index: str, arrays: Mapping[str, str]) -> str:
        return f"element({', '.join([*(f'{arrays[n]}[{index}]' for n in inputs), *scalars])})"

    if streamed:
        slices = {name: f"b{i}" for i, name in enumerate(inputs)}
        loop = [
            f"scratch = np.empty(stream.BLOCK_BYTES // {out}.itemsize, {out}.dtype)",
            f"begin = start + stream.until_aligned({out}, start, stop)",
            "for i in range(start, begin):",
            f"    {out}[i] = {call('i', tensors)}",
            "while begin + scratch.size <= stop:",
            *(f"    stream.prefetch({tensors[n]}, begin, scratch.size)" for n in inputs),
            *(f"    {slices[n]} = {tensors[n]}[begin : begin + scratch.size]" for n in inputs),
            "    for k in range(scratch.size):",
            f"        scratch[k] = {call('k', slices)}",
            f"    stream.store_block({out}, begin, scratch)",
            "    begin += scratch.size",
            "for i in range(begin, stop):",
            f"    {out}[i] = {call('i', tensors)}",
            "stream.drain()",
        ]
    else:
        loop = ["for i in range(start, stop):", f"    {out}[i] = {call('i', tensors)}"]
    arrays = [
        f"types.Array(types.{'float32' if dtype is DType.FLOAT32 else 'uint16'}, 1, 'C', "
        f"readonly={name != fused.output})"
        for name, dtype in fused.tensors
    ]
    signature = ", ".join(["types.int64", "types.int64", *arrays, *("types.float32" for _ in scalars)])
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
            *(f"    {line}" for line in lines),
            f"    return {result}",
            "",
            "",
            f"@njit([types.void({signature})], cache=CACHE, nogil=True)",
            f"def run({', '.join(['start', 'stop', *tensors.values(), *scalars])}):",
            *(f"    {line}" for line in loop),
            "",
        ]
    )


def _statements(
    fused: Fused, elements: Mapping[str, str], scalars: Mapping[str, str]
) -> tuple[list[str], str, list[str]]:
    """One assignment per function applied; the name of the result; the functions used."""
    lines: list[str] = []
    used: set[str] = set()
    values: dict[Expression, str] = {}

    def emit(expression: Expression) -> str:
        if isinstance(expression, Load):
            return elements[expression.tensor]
        if expression not in values:
            arguments = [emit(operand) for operand in expression.operands]
            if expression.scalar is not None:
                arguments.append(scalars[expression.scalar])
            used.add(expression.function)
            name = f"v{len(values)}"
            lines.append(f"{name} = {expression.function}({', '.join(arguments)})")
            values[expression] = name
        return values[expression]

    result = emit(fused.expression)
    return lines, result, sorted(used)


def cache_dir() -> Path:
    """Where compiled kernels are kept: ``ATLAS_EMU_CACHE``, else the user's cache folder."""
    chosen = os.environ.get("ATLAS_EMU_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "atlas-emulator"


@cache
def _compiled(source: str) -> Callable[..., None]:
    import numba

    from kernel.numerics import vector

    version = f"{numba.__version__} {sys.version_info[:2]} {vector.source_digest()}"
    key = hashlib.sha256(f"{version}\n{source}".encode()).hexdigest()[:24]
    # Numba's own cache only sees this file, so its name has to change with everything it inlines.
    name = f"atlas_kernel_{key}"
    try:
        folder = cache_dir() / "kernels"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.py"
        text = source.replace("cache=CACHE", "cache=True")
        if not path.exists() or path.read_text() != text:
            _write(path, text)
    except OSError as error:
        _LOG.info("no cache of compiled kernels: %s", error)
        return _in_memory(name, source)
    try:
        return _load(name, path)
    except Exception as error:
        # Numba trusts what it finds. Whatever is wrong with it, it can be made again.
        _LOG.warning("compiled kernel %s is unusable (%s): compiling it again", path, error)
        for stale in (folder / "__pycache__").glob(f"{name}.*"):
            stale.unlink(missing_ok=True)
    try:
        return _load(name, path)
    except Exception:
        return _in_memory(name, source)


def _in_memory(name: str, source: str) -> Callable[..., None]:
    with tempfile.TemporaryDirectory(prefix="atlas-emulator-") as temporary:
        path = Path(temporary) / f"{name}.py"
        path.write_text(source.replace("cache=CACHE", "cache=False"))
        return _load(name, path)


def _write(path: Path, text: str) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
    os.replace(temporary, path)


def _load(name: str, path: Path) -> Callable[..., None]:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Numba's cached code names its module and imports it again.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    run: Callable[..., None] = module.run
    return run


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="atlas-emu")


def available_threads() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def execute(
    launch: Launch,
    soc: Soc,
    tensors: Mapping[str, Array],
    *,
    overflow: OverflowMode | None = None,
    threads: int | None = None,
) -> None:
    """Execute ``launch`` with the fused loop; same arguments and same bits as ``interpret``.

    Allocates nothing of the tensors' size. ``threads`` defaults to the CPUs of this process.
    """
    saturate = (overflow or soc.numerics.default_overflow_mode) == "saturation"
    fused = fuse(launch, soc.numerics, saturate)
    arguments = [tensors[name] for name, _ in fused.tensors]
    streamed = sum(array.nbytes for array in arguments) >= STREAM_FROM_BYTES
    run = _compiled(source_of(fused, streamed=streamed))
    scalars = [np.float32(launch.scalars[name]) for name in fused.scalars]
    total = next(t.length for t in launch.tensors if t.name == fused.output)
    workers = max(1, min(threads or available_threads(), -(-total // SERIAL_BELOW)))
    if workers == 1:
        run(0, total, *arguments, *scalars)
        return
    step = -(-total // workers)
    parts = [(low, min(low + step, total)) for low in range(0, total, step)]
    futures = [_pool(workers).submit(run, low, high, *arguments, *scalars) for low, high in parts]
    for future in futures:
        future.result()

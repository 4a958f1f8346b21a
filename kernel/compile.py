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
from kernel.verify import _coverage
from socs.errors import AtlasError
from socs.isa import DType, Op, Pipe
from socs.spec import Numerics, OverflowMode, Soc

Array = np.ndarray[Any, np.dtype[Any]]

_LOG = logging.getLogger(__name__)

SERIAL_BELOW = 1 << 16
"""Elements below which a second thread costs more than it brings."""


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
    for finding in _coverage(launch):
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


def source_of(fused: Fused) -> str:
    """The Python source of the fused loop: ``run(start, stop, *tensors, *scalars)``."""
    names = {name: f"t{i}" for i, (name, _) in enumerate(fused.tensors)}
    scalars = {name: f"s{i}" for i, name in enumerate(fused.scalars)}
    lines: list[str] = []
    used: set[str] = set()
    values: dict[Expression, str] = {}

    def emit(expression: Expression) -> str:
        if expression in values:
            return values[expression]
        if isinstance(expression, Load):
            text = f"{names[expression.tensor]}[i]"
        else:
            arguments = [emit(operand) for operand in expression.operands]
            if expression.scalar is not None:
                arguments.append(scalars[expression.scalar])
            used.add(expression.function)
            text = f"vector.{expression.function}({', '.join(arguments)})"
        values[expression] = f"v{len(values)}"
        lines.append(f"        {values[expression]} = {text}")
        return values[expression]

    result = emit(fused.expression)
    types = [
        f"types.Array(types.{'float32' if dtype is DType.FLOAT32 else 'uint16'}, 1, 'C', "
        f"readonly={name != fused.output})"
        for name, dtype in fused.tensors
    ]
    signature = ", ".join(["types.int64", "types.int64", *types, *("types.float32" for _ in scalars)])
    imports = "\n".join(f"{name} = vector.function({name!r})" for name in sorted(used))
    body = "\n".join(lines).replace("vector.", "")
    parameters = ", ".join(["start", "stop", *names.values(), *scalars.values()])
    return (
        '"""Generated from a recorded kernel; safe to delete."""\n\n'
        "from numba import njit, types\n\n"
        "from kernel.numerics import vector\n\n"
        f"{imports}\n\n\n"
        f"@njit([types.void({signature})], cache=CACHE, nogil=True)\n"
        f"def run({parameters}):\n"
        "    for i in range(start, stop):\n"
        f"{body}\n"
        f"        {names[fused.output]}[i] = {result}\n"
    )


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
    run = _compiled(source_of(fused))
    arguments = [tensors[name] for name, _ in fused.tensors]
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

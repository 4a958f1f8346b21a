"""The same instructions, fused into one loop over whole tensors: the interpreter's bits at memory speed.

The expression is derived from the record (:mod:`kernel.fuse`), the loop generated from it and from the
way the tensors are laid out (:mod:`kernel.codegen`). Its source is written to a cache folder and compiled
by Numba, with the compiled code kept on disk beside it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import math
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from kernel.codegen import TURN_TILE, Step, Walk, source_of
from kernel.fuse import Fused, fuse
from kernel.interpret import CARRIERS
from kernel.layout import Layout, broadcast, coalesce, storage_of
from kernel.program import Launch
from kernel.remember import remembered
from socs.errors import AtlasError
from socs.spec import OverflowMode, Soc

Array = np.ndarray[Any, np.dtype[Any]]

_LOG = logging.getLogger(__name__)

SERIAL_BELOW = 1 << 16
"""Elements below which a second thread costs more than it brings."""

STREAM_FROM_BYTES = 64 << 20
"""Bytes of all tensors from which the loop bypasses the caches: beyond most last-level caches."""

STREAM_ROW_BYTES = 2048
"""Bytes of an output row below which a row is too short to be streamed."""


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
    layouts = {tensor.name: launch.layout(tensor) for tensor in launch.tensors}
    run_fused(fused, layouts, tensors, launch.scalars, threads=threads)


def run_fused(
    fused: Fused,
    layouts: Mapping[str, Layout],
    tensors: Mapping[str, Array],
    scalars: Mapping[str, float],
    *,
    threads: int | None = None,
) -> None:
    """Compute ``fused`` over the index space of ``layouts``, one for each tensor, all of one shape.

    ``tensors``: flat storage by name, in the carrier dtypes.
    """
    names = [name for name, _ in fused.tensors]
    prepared = _prepare(fused, [layouts[name] for name in names], [tensors[name].itemsize for name in names])
    prepared.run([tensors[name] for name in names], _float32(fused, scalars), threads)


class Computation:
    """One launch, to be computed often: what depends on the arrays' shapes alone is kept.

    ``scalars`` are the launch's own.
    """

    def __init__(self, launch: Launch, soc: Soc, overflow: OverflowMode) -> None:
        self._fused = fuse(launch, soc.numerics, overflow == "saturation")
        self._scalars = _float32(self._fused, launch.scalars)
        self._carriers = [CARRIERS[dtype] for _, dtype in self._fused.tensors]
        self._prepared: dict[object, _Prepared] = {}

    def run(self, tensors: Mapping[str, Array], shape: tuple[int, ...], threads: int | None = None) -> None:
        """Compute over ``shape``. ``tensors``: arrays of any strides that broadcast to it, the output too."""
        arrays = [np.asarray(tensors[name]) for name, _ in self._fused.tensors]
        if not tensors[self._fused.output].flags.aligned:
            # The loop would write into an aligned copy, and the result would be lost.
            raise AtlasError(f"{self._fused.output} is not aligned in memory: it cannot be written into")
        # An array that is not aligned is copied, and so walked in other strides than its own.
        key = (shape, *[(array.shape, array.strides, array.flags.aligned) for array in arrays])
        flat = [
            (array.reshape(-1) if array.flags.c_contiguous and array.flags.aligned else storage_of(array)[0])
            for array in arrays
        ]
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self._prepare(arrays, shape)
        flat = [array.view(carrier) for array, carrier in zip(flat, self._carriers, strict=True)]
        prepared.run(flat, self._scalars, threads)

    def _prepare(self, arrays: Sequence[Array], shape: tuple[int, ...]) -> _Prepared:
        layouts = []
        for array in arrays:
            _, strides, offset = storage_of(array)
            layouts.append(Layout(shape, broadcast(array.shape, strides, shape), offset))
        return _prepare(self._fused, layouts, [array.itemsize for array in arrays])


@remembered(64)
def computation(launch: Launch, soc: Soc, overflow: OverflowMode) -> Computation:
    """The computation of ``launch``; the same one for the same launch."""
    return Computation(launch, soc, overflow)


class _Prepared:
    """A compiled loop and the numbers it walks by."""

    def __init__(
        self,
        run: Callable[..., None],
        walk: Walk,
        dims: Sequence[int],
        strides: Sequence[Sequence[int]],
        offsets: Sequence[int],
    ) -> None:
        self._run = run
        self._walk = walk
        self._total = math.prod(dims)
        self._count = dims[-1]
        self._rows = self._total // dims[-1]
        if walk.turned:
            self._rows = self._total // (dims[-1] * dims[-2]) * -(-dims[-2] // TURN_TILE)
        self._numbers = (
            np.array(dims, np.int64),
            np.array(strides, np.int64).reshape(len(offsets), len(dims)),
            np.array(offsets, np.int64),
        )

    def run(self, arrays: Sequence[Array], scalars: Sequence[np.float32], threads: int | None) -> None:
        arguments = (*arrays, *scalars, *self._numbers)
        if self._total <= SERIAL_BELOW:
            workers = 1
        else:
            workers = max(1, min(threads or available_threads(), -(-self._total // SERIAL_BELOW)))
        if workers == 1:
            self._run(0, self._rows, 0, self._count, *arguments)
            return
        # Few long rows are cut along the row, many short ones by rows.
        if self._rows >= 4 * workers or self._walk.turned:
            parts = [(low, high, 0, self._count) for low, high in _cut(self._rows, workers)]
        else:
            parts = [(0, self._rows, low, high) for low, high in _cut(self._count, workers)]
        futures = [_pool(workers).submit(self._run, *part, *arguments) for part in parts]
        for future in futures:
            future.result()


def _prepare(fused: Fused, layouts: Sequence[Layout], itemsizes: Sequence[int]) -> _Prepared:
    place = [name for name, _ in fused.tensors].index(fused.output)
    dims, strides = _ordered(layouts, place)
    steps = _steps(dims, strides, place)
    moved = sum(layout.distinct * size for layout, size in zip(layouts, itemsizes, strict=True))
    walk = Walk(
        steps,
        streamed=moved >= STREAM_FROM_BYTES
        and steps[place] is Step.RUN
        and Step.TURN not in steps
        and dims[-1] * itemsizes[place] >= STREAM_ROW_BYTES,
    )
    run = _compiled(source_of(fused, walk))
    return _Prepared(run, walk, dims, strides, [layout.offset for layout in layouts])


def _float32(fused: Fused, scalars: Mapping[str, float]) -> tuple[np.float32, ...]:
    return tuple(np.float32(scalars[name]) for name in fused.scalars)


def _cut(total: int, workers: int) -> list[tuple[int, int]]:
    step = -(-total // workers)
    return [(low, min(low + step, total)) for low in range(0, total, step)]


def _ordered(layouts: Sequence[Layout], output: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Dimensions and strides with few axes, in the order in which the output lies in memory.

    The order of elements is free, for each is computed by itself.
    """
    dims, strides = coalesce(layouts[0].shape, [layout.strides for layout in layouts])
    order = sorted(range(len(dims)), key=lambda axis: -abs(strides[output][axis]))
    if order == list(range(len(dims))):
        return dims, strides
    return coalesce([dims[axis] for axis in order], [[s[axis] for axis in order] for s in strides])


def _steps(dims: Sequence[int], strides: Sequence[Sequence[int]], output: int) -> tuple[Step, ...]:
    return tuple(_step(dims, stride, is_output=number == output) for number, stride in enumerate(strides))


def _step(dims: Sequence[int], stride: Sequence[int], *, is_output: bool) -> Step:
    if stride[-1] == 1 or (dims[-1] == 1 and not is_output):
        return Step.RUN
    if is_output:
        return Step.RUN if dims[-1] == 1 else Step.STRIDE
    if stride[-1] == 0:
        return Step.ONE
    # Read in squares only if both edges of the square are worth it.
    if len(dims) > 1 and stride[-2] == 1 and min(dims[-2:]) >= TURN_TILE // 4:
        return Step.TURN
    return Step.STRIDE

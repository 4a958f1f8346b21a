"""The same instructions, fused into one loop over whole tensors: the interpreter's bits at memory speed.

The expression is derived from the record (:mod:`kernel.fuse`), the loop generated from it and from the
way the tensors are laid out (:mod:`kernel.codegen`). Its source is written to a cache folder and compiled
by Numba, with the compiled code kept on disk beside it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
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
from kernel.layout import Layout, coalesce
from kernel.program import Launch
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
    """Compute ``fused`` over the index space of ``layouts``, one for each tensor, all of one shape."""
    names = [name for name, _ in fused.tensors]
    place = names.index(fused.output)
    dims, strides = _ordered([layouts[name] for name in names], place)
    steps = _steps(dims, strides, place)
    arrays = [tensors[name] for name in names]
    itemsize = arrays[place].itemsize
    moved = sum(layouts[name].distinct * array.itemsize for name, array in zip(names, arrays, strict=True))
    walk = Walk(
        steps,
        streamed=moved >= STREAM_FROM_BYTES
        and steps[place] is Step.RUN
        and Step.TURN not in steps
        and dims[-1] * itemsize >= STREAM_ROW_BYTES,
    )
    run = _compiled(source_of(fused, walk))
    total = layouts[fused.output].elements
    rows, count = total // dims[-1], dims[-1]
    if walk.turned:
        rows = total // (dims[-1] * dims[-2]) * -(-dims[-2] // TURN_TILE)
    arguments = (
        *arrays,
        *(np.float32(scalars[name]) for name in fused.scalars),
        np.array(dims, np.int64),
        np.array(strides, np.int64).reshape(len(names), len(dims)),
        np.array([layouts[name].offset for name in names], np.int64),
    )
    workers = max(1, min(threads or available_threads(), -(-total // SERIAL_BELOW)))
    if workers == 1:
        run(0, rows, 0, count, *arguments)
        return
    # Few long rows are cut along the row, many short ones by rows.
    if rows >= 4 * workers or walk.turned:
        parts = [(low, high, 0, count) for low, high in _cut(rows, workers)]
    else:
        parts = [(0, rows, low, high) for low, high in _cut(count, workers)]
    futures = [_pool(workers).submit(run, *part, *arguments) for part in parts]
    for future in futures:
        future.result()


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

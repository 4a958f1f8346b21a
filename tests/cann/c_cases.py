"""Calls on which C and Python must agree: dtypes, reductions, shapes, views, overlaps and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from c_library import Library
from numpy.typing import NDArray

from emulator import aclnn
from emulator.aclnn import AclTensor

Array = NDArray[Any]

DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)
SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 1e-40, 6e-8, 1e-5, 65504.0, 65520.0, 3.39e38, np.inf, -np.inf, np.nan], np.float32
)


def wild(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    """Random numbers of any magnitude, some of them special."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=np.int64))
    plain = random.standard_normal(count).astype(np.float32)
    with np.errstate(all="ignore"):
        large = np.ldexp(plain, random.integers(-50, 60, count)).astype(np.float32)
        kind = random.random(count)
        mixed = np.where(kind < 0.15, random.choice(SPECIAL, count), np.where(kind < 0.4, large, plain))
        return mixed.astype(np.float32).astype(dtype).reshape(shape)


Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

SHAPES: tuple[Shapes, ...] = (
    ((), (), ()),
    ((1,), (1,), (1,)),
    ((5,), (5,), (5,)),
    ((4, 8), (4, 8), (4, 8)),
    ((), (4, 8), (4, 8)),
    ((1,), (3, 100), (3, 100)),
    ((7, 1, 33), (7, 5, 33), (5, 33)),
    ((8,), (3, 1), (4, 1, 1)),
    ((0, 3), (0, 3), (0, 3)),
    ((0,), (1,), (1,)),
    ((1, 2, 1, 2, 1, 2, 3, 1), (2, 2, 1, 2, 1, 2, 3, 5), (1,)),
    ((70001,), (70001,), (70001,)),
    ((), (300, 300), (300, 300)),
    ((3, 4), (5, 4), (5, 4)),
    ((2,) * 9, (2,) * 9, (2,) * 9),
)


def plain_calls() -> Iterator[tuple[str, Callable[[], list[AclTensor]], int]]:
    """Every dtype, reduction and shape; ``out`` of every dtype."""
    for shapes, dtype, reduction in itertools.product(SHAPES, DTYPES, (0, 1, 2)):
        for out in DTYPES if len(shapes[1]) in (1, 2) else (dtype,):

            def make(shapes: Shapes = shapes, dtype: Any = dtype, out: Any = out) -> list[AclTensor]:
                arrays = [wild(shape, dtype, seed) for seed, shape in enumerate(shapes)]
                try:
                    joined = np.broadcast_shapes(*shapes)
                except ValueError:
                    joined = shapes[1]
                return [AclTensor.from_array(a) for a in (*arrays, np.full(joined, 7, out))]

            yield f"{shapes} {np.dtype(dtype)} {reduction} to {np.dtype(out)}", make, reduction


def _views(dtype: Any) -> dict[str, Callable[[], list[Array]]]:
    def big(seed: int) -> Array:
        return wild((24, 40), dtype, seed)

    def shared() -> Array:
        return wild((3000,), dtype, 9)

    return {
        "transposed": lambda: [big(0).T, big(1).T, big(2).T, np.zeros((24, 40), dtype).T],
        "target transposed": lambda: [big(0), big(1), wild((40, 24), dtype, 2).T, np.zeros((24, 40), dtype)],
        "reversed": lambda: [big(0)[::-1], big(1)[:, ::-1], big(2)[::-1, ::-1], np.zeros((24, 40), dtype)],
        "steps": lambda: [big(0)[::2, ::3], big(1)[::2, ::3], big(2)[::2, ::3], np.zeros((12, 14), dtype)],
        "out in steps": lambda: [big(0), big(1), big(2), np.zeros((48, 80), dtype)[::2, ::-2]],
        "out reversed": lambda: [big(0), big(1), big(2), np.zeros((24, 40), dtype)[::-1]],
        "offset": lambda: [a[3:, 1:] for a in (big(0), big(1), big(2), np.zeros((24, 40), dtype))],
        "grad repeated": lambda: [
            np.broadcast_to(wild((40,), dtype, 0), (24, 40)),
            big(1),
            big(2),
            np.zeros((24, 40), dtype),
        ],
        "grad a column": lambda: [wild((24, 1), dtype, 0), big(1), big(2), np.zeros((24, 40), dtype)],
        "in place": lambda: (lambda a: [big(0), a, big(2), a])(big(1)),
        "shifted overlap": lambda: (lambda m: [m[0:960], m[40:1000], m[80:1040], m[41:1001]])(shared()),
        "reversed overlap": lambda: (lambda m: [m[:960], m[960:1920], m[:960], m[:960][::-1]])(shared()),
        "overlapping inputs": lambda: (
            lambda m: [np.lib.stride_tricks.as_strided(m, (30, 40), (m.itemsize, m.itemsize)), *_pair(dtype)]
        )(shared()),
        "three axes": lambda: (
            [wild((6, 5, 7), dtype, s).transpose(2, 0, 1) for s in range(3)]
            + [np.zeros((6, 5, 7), dtype).transpose(2, 0, 1)]
        ),
        "three axes, out another way": lambda: (
            [wild((6, 5, 7), dtype, s).transpose(2, 0, 1) for s in range(3)]
            + [np.zeros((5, 7, 6), dtype).transpose(1, 2, 0)]
        ),
        "many rows": lambda: (
            [wild((3000, 40), dtype, s)[:, :37] for s in range(3)] + [np.zeros((3000, 40), dtype)[:, :37]]
        ),
    }


def _pair(dtype: Any) -> list[Array]:
    return [wild((30, 40), dtype, 1), wild((30, 40), dtype, 2), np.zeros((30, 40), dtype)]


def view_calls() -> Iterator[tuple[str, Callable[[], list[AclTensor]], int]]:
    for dtype in DTYPES:
        for name, arrays in _views(dtype).items():
            for reduction in (0, 1):
                yield (
                    f"{name} {np.dtype(dtype)} {reduction}",
                    lambda arrays=arrays: [AclTensor.from_array(a) for a in arrays()],
                    reduction,
                )


def odd_calls() -> Iterator[tuple[str, Callable[[], list[AclTensor]], int]]:
    """Formats, storages, strides and numbers that are refused, or nearly."""

    def tensors(**changes: Any) -> list[AclTensor]:
        made = []
        for place in range(4):
            options = {"view_dims": (4, 6), "dtype": "float32", **changes.get(f"t{place}", {})}
            made.append(AclTensor(np.arange(64, dtype=np.float32).view(np.uint8).copy(), **options))
        return made

    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "format NCHW": {f"t{i}": {"format": "NCHW"} for i in range(4)},
        "formats differ": {"t1": {"format": "NCHW"}},
        "private format": {"t0": {"format": "FRACTAL_NZ", "strides": (1, 9)}},
        "storage is flat": {f"t{i}": {"storage_dims": (64,)} for i in range(4)},
        "storage is the view": {f"t{i}": {"storage_dims": (4, 6)} for i in range(4)},
        "leaves its storage": {"t2": {"strides": (6, 2), "storage_dims": (24,)}},
        "before its storage": {"t2": {"strides": (-6, 1), "storage_dims": (24,)}},
        "out leaves its storage": {"t3": {"strides": (1, 40)}},
        "integers": {f"t{i}": {"dtype": "int32"} for i in range(3)},
        "out of integers": {"t3": {"dtype": "int8"}},
        "an unknown dtype": {"t1": {"dtype": 99}, "t0": {"dtype": 99}, "t2": {"dtype": 99}},
        "target of halves": {"t2": {"dtype": "float16"}},
        "negative dimensions": {f"t{i}": {"view_dims": (-4, 6)} for i in range(4)},
        "out of another rank": {"t3": {"view_dims": (1, 4, 6)}},
        "offset": {f"t{i}": {"offset": 9} for i in range(4)},
        "out repeats one element": {"t3": {"strides": (0, 0)}},
        "huge": {f"t{i}": {"view_dims": (1 << 31, 1 << 31)} for i in range(4)},
    }
    for name, change in changes.items():
        yield name, lambda change=change: tensors(**change), 1
    for reduction in (-1, 3, 1 << 40):
        yield f"reduction {reduction}", tensors, reduction


def compare(library: Library, soc: str) -> dict[str, Any]:
    """How many calls were made, how many of them succeeded, and those on which C and Python differ."""
    from socs import load

    modes = load(soc).numerics.overflow_modes
    made, succeeded, differ = 0, 0, []
    for name, make, reduction in itertools.chain(plain_calls(), view_calls(), odd_calls()):
        for saturate in (None, True) if "saturation" in modes else (None,):
            ours, theirs = make(), make()
            if saturate:
                aclnn.aclrtSetDeviceSatMode(0)
            stream = aclnn.aclrtCreateStream()[1] if saturate else None
            status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(
                *theirs[:3], reduction, theirs[3], soc=soc
            )
            if status == 0:
                status = aclnn.aclnnMseLossBackward(0x1000 if size else None, size, executor, stream)
            text = aclnn.aclGetRecentErrMsg()
            message = text.split("\n")[0].split("): ", 1)[1] if text else None
            found = library.call(ours, reduction, saturate)
            same = [
                bytes(a.storage.view(np.uint8)) == bytes(b.storage.view(np.uint8))  # type: ignore[union-attr]
                for a, b in zip(ours, theirs, strict=True)
            ]
            made += 1
            succeeded += status == 0
            if found != (status, size, message) or not all(same):
                differ.append([name, saturate, found, (status, size, message), same])
    return {"made": made, "succeeded": succeeded, "differ": differ}

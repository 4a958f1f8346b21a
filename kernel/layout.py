"""Where the elements of an index space lie in storage: strides, broadcasting, and fewer axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class Layout:
    """Element ``(i0, i1, ...)`` of an index space lies at ``offset + sum(i * stride)`` of a storage.

    In elements. A stride of 0 repeats one element along its axis; strides may be negative.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def elements(self) -> int:
        """Elements of the index space."""
        return math.prod(self.shape)

    @property
    def distinct(self) -> int:
        """Elements of the storage that are read (views that overlap themselves counted once per axis)."""
        return math.prod(n for n, stride in zip(self.shape, self.strides, strict=True) if stride)

    def distinct_in_run(self, count: int) -> int:
        """Elements of the storage behind ``count`` consecutive elements of the index space.

        For a run that starts at the beginning of its rows; others touch at most a row more.
        """
        found = 1
        for n, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if count <= 1:
                break
            found *= min(n, count) if stride else 1
            count = -(-count // n)
        return found

    @property
    def is_linear(self) -> bool:
        """Whether element *i* of the index space is element *i* of the storage."""
        return self.offset == 0 and self.strides == contiguous_strides(self.shape)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements; 0 along an axis of one element."""
    strides = []
    step = 1
    for dim in reversed(shape):
        strides.append(step if dim > 1 else 0)
        step *= dim
    return tuple(reversed(strides))


def broadcast(shape: Sequence[int], strides: Sequence[int], to: Sequence[int]) -> tuple[int, ...]:
    """Strides over ``to`` of a tensor of ``shape``: right-aligned, 0 where an axis is repeated."""
    lead = len(to) - len(shape)
    return (0,) * lead + tuple(
        stride if dim == target and dim > 1 else 0
        for dim, stride, target in zip(shape, strides, to[lead:], strict=True)
    )


def coalesce(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The same index space with as few axes as all tensors allow, in the same order of elements.

    Axes of one element go; neighbours join where every tensor walks through both in one stride. There is
    always at least one axis left.
    """
    axes = [axis for axis, dim in enumerate(shape) if dim != 1]
    dims: list[int] = []
    found: list[list[int]] = [[] for _ in strides]
    for axis in axes:
        dim = shape[axis]
        if dims and all(f[-1] == s[axis] * dim for f, s in zip(found, strides, strict=True)):
            dims[-1] *= dim
            for f, s in zip(found, strides, strict=True):
                f[-1] = s[axis]
        else:
            dims.append(dim)
            for f, s in zip(found, strides, strict=True):
                f.append(s[axis])
    if not dims:
        return (1,), [(0,) for _ in strides]
    return tuple(dims), [tuple(f) for f in found]


def element_strides(array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> tuple[int, ...]:
    """The strides of an array in elements; 0 along an axis of one element."""
    return tuple(
        stride // array.itemsize if dim > 1 else 0
        for dim, stride in zip(array.shape, array.strides, strict=True)
    )


def storage_of(
    array: np.ndarray[tuple[int, ...], np.dtype[Any]],
) -> tuple[np.ndarray[tuple[int], np.dtype[Any]], tuple[int, ...], int]:
    """The stretch of memory under a view: (flat array, strides, offset), in elements, without a copy.

    A view whose strides are no whole elements is copied. The flat array is writeable if the view is.
    """
    array = np.asarray(array)
    if array.size == 0:
        return array.reshape(-1), (0,) * array.ndim, 0
    if any(stride % array.itemsize for stride in array.strides) or not array.flags.aligned:
        array = array.copy()
    if array.flags.c_contiguous:
        return array.reshape(-1), element_strides(array), 0
    strides = element_strides(array)
    lowest = array[tuple(slice(None, None, -1) if stride < 0 else slice(None) for stride in strides)]
    reach = [(dim - 1) * abs(stride) for dim, stride in zip(array.shape, strides, strict=True)]
    backwards = sum(r for r, stride in zip(reach, strides, strict=True) if stride < 0)
    flat = np.lib.stride_tricks.as_strided(
        lowest, (sum(reach) + 1,), (array.itemsize,), writeable=array.flags.writeable
    )
    return flat, strides, backwards

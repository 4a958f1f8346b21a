"""NumPy views and the libraries' tensors over them: strides and offsets as they are."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.aclnn import AclTensor
from emulator.backends.npu.held import Held
from emulator.backends.npu.libraries import Libraries
from emulator.backends.npu.memory import Bytes

ALIGNMENT_BYTES = 32
"""What the start of a tensor's memory is a multiple of, so that a vector instruction takes whole blocks."""

INT64S = range(-(1 << 63), 1 << 63)


def described(array: NDArray[Any]) -> AclTensor:
    """An array as a tensor over the part of its memory that it reaches, from a block's start on.

    So a slice of a large array brings its strides and an offset along, but not the rest of the array.
    """
    tensor = AclTensor.from_array(array)
    storage = tensor.storage
    assert storage is not None
    if tensor.is_empty:
        return AclTensor(storage[:0], tensor.view_dims, tensor.dtype)
    first, last = tensor.extent
    start = first - first % (ALIGNMENT_BYTES // storage.itemsize)
    return AclTensor(
        storage[start : last + 1], tensor.view_dims, tensor.dtype, tensor.strides, tensor.offset - start
    )


def memory_of(tensor: AclTensor) -> Bytes:
    """The bytes of a tensor's storage; none where its data pointer is null."""
    storage = tensor.storage
    return np.empty(0, np.uint8) if storage is None else storage.view(np.uint8)


def create(libraries: Libraries, held: Held, tensor: AclTensor, data: int | None) -> int:
    """``aclCreateTensor`` over device memory at ``data``, destroyed with ``held``; its handle."""
    view, strides, storage = map(_numbers, (tensor.view_dims, tensor.strides, tensor.storage_dims))
    handle = libraries.pointer(
        "aclCreateTensor",
        *(view, len(tensor.view_dims), tensor.dtype, strides, tensor.offset, tensor.format),
        *(storage, len(tensor.storage_dims), data),
    )
    held.keep("aclDestroyTensor", handle)
    return handle


def _numbers(values: Sequence[int]) -> Any:
    # One number at least: a scalar's dimensions are a pointer too, not null.
    return (ctypes.c_int64 * max(len(values), 1))(*values)

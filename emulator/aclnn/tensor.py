"""``AclTensor``: a descriptor over memory, as ``aclCreateTensor`` makes one."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.aclnn.codes import DTYPE_NAMES, DTYPES, NUMPY_DTYPES, PRIVATE_FORMATS
from emulator.aclnn.descriptor import Descriptor, contiguous_strides
from emulator.arrays import bfloat16
from socs.errors import AtlasError

Array = NDArray[Any]

POISON = 0xFF
"""Byte that fresh memory is filled with: a NaN in every float format."""


class AclTensor(Descriptor):
    """A view of ``view_dims`` elements in one-dimensional memory.

    ``storage``: a contiguous 1-D NumPy array or any buffer, which is shared, not copied, and may hold bytes
    of another dtype; ``None`` is a null data pointer. ``dtype``: an ``aclDataType`` by number or by
    lower-case name (``float32``, ``bfloat16``, ``int4``). ``strides`` (default: contiguous) and ``offset``
    count elements; strides may be zero or negative. ``format``: an ``aclFormat`` by number or name; it is
    carried, not obeyed. ``storage_dims``: default ``view_dims`` where the view is all of the storage, in
    order, else the elements of the storage.

    Views that leave their storage can be made, as in C; phase 1 or 2 refuses them. A tensor never
    changes, what lies in its memory may. Raises ``AtlasError`` for an unknown name, for storage that is no
    one-dimensional contiguous buffer, and for numbers that are no 64-bit integers.
    """

    def __init__(
        self,
        storage: object,
        view_dims: Iterable[int],
        dtype: str | int | np.dtype[Any] | type[np.generic],
        strides: Iterable[int] | None = None,
        offset: int = 0,
        format: str | int = "ND",
        storage_dims: Iterable[int] | None = None,
    ) -> None:
        super().__init__(view_dims, _dtype(dtype), strides, offset, format, storage_dims)
        self._storage = None if storage is None else _elements(storage, self.dtype)
        self._view: Array | None = None
        self._lazy = False
        if storage_dims is None and self._storage is not None:
            whole = self.offset == 0 and self.is_contiguous and self.count == self._storage.size
            if not whole:
                self.key = self.key._replace(storage_dims=(self._storage.size,))

    @classmethod
    def empty(cls, dims: Iterable[int], dtype: str | int | np.dtype[Any] | type[np.generic]) -> AclTensor:
        """A contiguous ND tensor of ``dims``, with memory of its own from the moment it is needed.

        That memory is filled with NaN (bytes 0xFF). Any ``aclDataType`` and any dimensions are fine as long
        as nobody looks inside.
        """
        tensor = cls(None, dims, dtype)
        tensor._lazy = True
        return tensor

    @classmethod
    def from_array(cls, array: object) -> AclTensor:
        """A tensor over the memory of a NumPy array (any strides, negative too) or a torch CPU tensor.

        The storage is all the memory of the array's base (of a torch tensor the part that it reaches), so
        that views of one array share it. Raises ``AtlasError`` for anything else, for dtypes that ACL has
        not, foreign byte order, and strides that are no whole elements.
        """
        view = _plain_view(array)
        size = view.dtype.itemsize
        number = _dtype(view.dtype)
        if any(stride % size for stride in view.strides):
            raise AtlasError(
                f"strides {view.strides} in bytes are no multiples of the {size} B of an element"
            )
        base = view
        while isinstance(base.base, np.ndarray):
            base = base.base
        first, end = _bounds(base)
        place = view.__array_interface__["data"][0]
        if view.size == 0:
            first = end = place  # an empty view may stand anywhere
        first += (place - first) % size
        memory = np.asarray(_Memory(base, first, max(end - first, 0) // size * size, view.flags.writeable))
        strides = [stride // size for stride in view.strides]
        return cls(memory, view.shape, number, strides, (place - first) // size)

    @property
    def storage(self) -> Array | None:
        """The memory as a 1-D array: elements, or bytes where NumPy has no such dtype; ``None`` if null."""
        if self._lazy and self._storage is None:
            self._storage = _allocate(self)
        return self._storage

    def to_numpy(self) -> Array:
        """The view as an array that shares the memory: its shape, its strides.

        Of a private format the elements as they lie, whatever the strides: that is what kernels read.
        Raises ``AtlasError`` where there is no memory, the view leaves it, or NumPy has no such dtype.
        """
        if self._view is None:
            self._view = self._make_view()
        return self._view

    def __repr__(self) -> str:
        name = DTYPE_NAMES.get(self.dtype, self.dtype)
        return (
            f"AclTensor({list(self.view_dims)}, {name}, strides={list(self.strides)}, offset={self.offset})"
        )

    def _make_view(self) -> Array:
        dtype = _numpy_dtype(self.dtype)
        if dtype is None:
            raise AtlasError(f"NumPy has no {DTYPE_NAMES.get(self.dtype, self.dtype)}")
        storage = self.storage
        if storage is None:
            raise AtlasError("the data pointer is null")
        rows = contiguous_strides(self.view_dims) if self.format in PRIVATE_FORMATS else self.strides
        if min(self.view_dims, default=0) < 0 or len(rows) != len(self.view_dims):
            raise AtlasError(f"dimensions {self.view_dims} with strides {self.strides} are no view")
        if not self.is_empty:
            first, last = self.extent
            if first < 0 or last >= storage.size:
                raise AtlasError(f"elements {first} to {last} leave a memory of {storage.size}")
        # One element or none may carry any stride; such a stride is never walked.
        size = dtype.itemsize
        walked = not self.is_empty and self.count > 1
        strides = [s * size if walked and d > 1 else 0 for d, s in zip(self.view_dims, rows, strict=True)]
        start = storage[0 if self.is_empty else self.offset :]
        try:
            return np.lib.stride_tricks.as_strided(start, self.view_dims, strides)
        except (ValueError, OverflowError) as error:
            raise AtlasError(f"NumPy cannot hold a view of {self.view_dims}: {error}") from None


class _Memory:
    """A stretch of memory for NumPy to wrap; keeps its owner alive."""

    def __init__(self, owner: object, address: int, size: int, writeable: bool) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, not writeable),
        }


def _dtype(dtype: str | int | np.dtype[Any] | type[np.generic]) -> int | str:
    if isinstance(dtype, (str, int)):
        return dtype
    try:
        name = np.dtype(dtype).name
    except TypeError:
        raise AtlasError(f"dtype = {dtype!r}: must be a name or a number of a dtype") from None
    if name not in DTYPES:
        raise AtlasError(f"ACL has no dtype for NumPy's {name}")
    return DTYPES[name]


def _numpy_dtype(number: int) -> np.dtype[Any] | None:
    name = DTYPE_NAMES.get(number)
    if name == "bfloat16":
        return bfloat16()
    return np.dtype(name) if name in NUMPY_DTYPES else None


def _elements(storage: object, number: int) -> Array:
    """The storage as whole elements of its dtype; as bytes where NumPy has no such dtype."""
    if isinstance(storage, np.ndarray):
        array: Array = storage
    else:
        try:
            array = np.frombuffer(storage, np.uint8)  # type: ignore[call-overload]
        except (TypeError, ValueError, BufferError) as error:
            raise AtlasError(
                f"storage is a {type(storage).__name__}, no contiguous buffer ({error})"
            ) from None
    if array.ndim != 1 or not array.flags.c_contiguous or array.dtype.hasobject:
        raise AtlasError("storage must be a contiguous one-dimensional array of numbers")
    dtype = _numpy_dtype(number)
    raw = np.asarray(array).view(np.uint8) if array.size else np.empty(0, np.uint8)
    if dtype is None:
        return raw
    return raw[: raw.size // dtype.itemsize * dtype.itemsize].view(dtype)


def _allocate(tensor: AclTensor) -> Array:
    dtype = _numpy_dtype(tensor.dtype)
    if dtype is None or min(tensor.view_dims, default=0) < 0:
        raise AtlasError(f"no memory can be made for {tensor}")
    try:
        return np.full(tensor.count * dtype.itemsize, POISON, np.uint8).view(dtype)
    except (MemoryError, ValueError, OverflowError):
        raise AtlasError(
            f"there is no memory of {tensor.count * dtype.itemsize} bytes for {tensor}"
        ) from None


def _plain_view(array: object) -> Array:
    from emulator.arrays import _is_torch, _torch_view

    if _is_torch(array):
        tensor: Any = array
        if tensor.device.type != "cpu" or tensor.layout != sys.modules["torch"].strided:
            raise AtlasError(f"a torch tensor must be dense and on the CPU, this one is on {tensor.device}")
        try:
            return _torch_view(tensor.detach())
        except Exception as error:
            raise AtlasError(f"the torch tensor has no NumPy view ({error})") from error
    if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
        raise AtlasError(f"a {type(array).__name__} is no NumPy array or torch tensor")
    if not array.dtype.isnative:
        raise AtlasError(f"dtype {array.dtype.str} has a foreign byte order")
    return array


def _bounds(array: Array) -> tuple[int, int]:
    """First address of an array's memory, and the one behind its last."""
    place: int = array.__array_interface__["data"][0]
    if array.size == 0:
        return place, place
    reaches = [(dim - 1) * stride for dim, stride in zip(array.shape, array.strides, strict=True)]
    below, above = sum(min(r, 0) for r in reaches), sum(max(r, 0) for r in reaches)
    return place + below, place + above + array.dtype.itemsize

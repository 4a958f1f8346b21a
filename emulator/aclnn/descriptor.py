"""A tensor as phase 1 sees it: dimensions, strides, dtype and format, but no memory."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

from emulator.aclnn import texts
from emulator.aclnn.codes import DTYPES, FORMAT_ND, FORMATS, PRIVATE_FORMATS
from socs.errors import AtlasError

INT64_MAX = (1 << 63) - 1


class Key(NamedTuple):
    """What tells two descriptors apart, for the operator cache."""

    view_dims: tuple[int, ...]
    dtype: int
    strides: tuple[int, ...]
    offset: int
    format: int
    storage_dims: tuple[int, ...]


class Descriptor:
    """An ``aclTensor`` without its memory. Nothing but the types is checked, as in ``aclCreateTensor``.

    ``view_dims``: dimensions in elements, of any rank and sign. ``dtype``: an ``aclDataType`` number (any)
    or a name in :data:`~emulator.aclnn.codes.DTYPES`. ``strides`` (default: contiguous) and ``offset``:
    elements. ``format``: an ``aclFormat`` number (any) or name. ``storage_dims``: default ``view_dims``.

    Raises ``AtlasError`` for what C could not express: an unknown name, or no 64-bit integer.
    """

    def __init__(
        self,
        view_dims: Iterable[int],
        dtype: str | int,
        strides: Iterable[int] | None = None,
        offset: int = 0,
        format: str | int = "ND",
        storage_dims: Iterable[int] | None = None,
    ) -> None:
        dims = _integers("view_dims", view_dims)
        self.key = Key(
            dims,
            number_of("dtype", dtype, DTYPES),
            contiguous_strides(dims) if strides is None else _integers("strides", strides),
            _integers("offset", (offset,))[0],
            number_of("format", format, FORMATS),
            dims if storage_dims is None else _integers("storage_dims", storage_dims),
        )

    @property
    def view_dims(self) -> tuple[int, ...]:
        return self.key.view_dims

    @property
    def dtype(self) -> int:
        return self.key.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.key.strides

    @property
    def offset(self) -> int:
        return self.key.offset

    @property
    def format(self) -> int:
        return self.key.format

    @property
    def storage_dims(self) -> tuple[int, ...]:
        return self.key.storage_dims

    @cached_property
    def count(self) -> int:
        """Elements of the view; negative dimensions are multiplied as they are."""
        return math.prod(self.view_dims)

    @cached_property
    def is_empty(self) -> bool:
        return 0 in self.view_dims

    @cached_property
    def is_contiguous(self) -> bool:
        """Whether the view's elements follow each other, so that no kernel has to gather them.

        So are at most one element, and a private format, whatever its strides. The stride of a
        dimension of 1 does not count.
        """
        if self.format in PRIVATE_FORMATS or self.count <= 1:
            return True
        if len(self.strides) != len(self.view_dims):
            return False
        expected = contiguous_strides(self.view_dims)
        rows = zip(self.view_dims, self.strides, expected, strict=True)
        return all(dim == 1 or stride == wanted for dim, stride, wanted in rows)

    @cached_property
    def extent(self) -> tuple[int, int]:
        """First and last element of the storage that the view reaches, of a view that is not empty."""
        strides = contiguous_strides(self.view_dims) if self.is_contiguous else self.strides
        reaches = [(dim - 1) * stride for dim, stride in zip(self.view_dims, strides, strict=True)]
        return self.offset + sum(min(r, 0) for r in reaches), self.offset + sum(max(r, 0) for r in reaches)

    def reason_against_strides(self) -> str | None:
        """Why a strided view is not valid, or ``None``: rank and strides agree, range inside the storage."""
        if len(self.strides) != len(self.view_dims):
            return f"it has {len(self.view_dims)} dimensions and {len(self.strides)} strides"
        first, last = self.extent
        elements = math.prod(self.storage_dims)
        if first < 0 or last >= elements:
            return texts.LEAVES_STORAGE.format(first, last, elements)
        return None


def contiguous_strides(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a contiguous tensor of ``dims``."""
    strides, step = [], 1
    for dim in reversed(dims):
        strides.append(step)
        step *= dim
    return tuple(reversed(strides))


def number_of(what: str, value: str | int, names: dict[str, int]) -> int:
    """The number that a name stands for; a number stands for itself."""
    if isinstance(value, str):
        if value in names:
            return names[value]
        raise AtlasError(f"{what} = {value!r}: there are {', '.join(names)}")
    return _integers(what, (value,))[0]


def _integers(what: str, values: Iterable[int]) -> tuple[int, ...]:
    try:
        numbers = tuple(map(operator.index, values))
    except TypeError:
        raise AtlasError(f"{what} = {values!r}: must be whole numbers") from None
    for number in numbers:
        if not -INT64_MAX - 1 <= number <= INT64_MAX:
            raise AtlasError(f"{what}: {number} is no 64-bit integer")
    return numbers


__all__ = ["FORMAT_ND", "INT64_MAX", "Descriptor", "Key", "contiguous_strides", "number_of"]

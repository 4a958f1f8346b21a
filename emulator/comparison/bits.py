"""How two results differ, in bits and in units of the last place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_INTEGERS: dict[int, Any] = {2: np.int16, 4: np.int32}


@dataclass(frozen=True, slots=True)
class Difference:
    """``elements``: how many there are; ``differing``: how many have other bits.

    Among these: ``both_nan``, where only the bits of the NaN differ; ``one_nan``, where one alone is NaN.
    ``max_ulp``: the most that two numbers are apart, in units of the last place (infinity follows the
    largest number; zeros of different sign are 0 apart); ``None`` where no two numbers differ. ``first``: the
    index of the first difference, ``bits`` what stands there on either side.
    """

    elements: int
    differing: int = 0
    both_nan: int = 0
    one_nan: int = 0
    max_ulp: int | None = None
    first: tuple[int, ...] | None = None
    bits: tuple[str, str] | None = None

    @property
    def equal(self) -> bool:
        return self.differing == 0


def difference(ours: NDArray[Any], theirs: NDArray[Any]) -> Difference:
    """Between two arrays of one shape and one floating dtype of 2 or 4 bytes."""
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    a, b = (np.ascontiguousarray(array).reshape(-1) for array in (ours, theirs))
    kind = _INTEGERS[ours.dtype.itemsize]
    places = np.flatnonzero(a.view(kind) != b.view(kind))
    if not places.size:
        return Difference(a.size)
    a, b = a[places], b[places]
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    numbers = ~(nan_a | nan_b)
    apart = np.abs(_ordered(a[numbers], kind) - _ordered(b[numbers], kind))
    digits = 2 * ours.dtype.itemsize
    unsigned = np.dtype(f"u{ours.dtype.itemsize}")
    return Difference(
        elements=ours.size,
        differing=int(places.size),
        both_nan=int((nan_a & nan_b).sum()),
        one_nan=int((nan_a ^ nan_b).sum()),
        max_ulp=int(apart.max()) if apart.size else None,
        first=tuple(int(i) for i in np.unravel_index(int(places[0]), ours.shape)) if ours.ndim else (),
        bits=(
            f"0x{int(a[:1].view(unsigned)[0]):0{digits}x}",
            f"0x{int(b[:1].view(unsigned)[0]):0{digits}x}",
        ),
    )


def _ordered(values: NDArray[Any], kind: Any) -> NDArray[np.int64]:
    """Whole numbers in the order of the floating ones, one apart for neighbours."""
    bits = values.view(kind).astype(np.int64)
    ordered: NDArray[np.int64] = np.where(bits >= 0, bits, np.iinfo(kind).min - bits)
    return ordered

"""Host memory on the device: which stretches, and the copies there and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.backends.npu.functions import D2H, H2D, HUGE_FIRST
from emulator.backends.npu.held import Held
from emulator.backends.npu.libraries import Libraries

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Stretch:
    """``size`` bytes from ``host`` on, and where they lie on the device."""

    host: int
    size: int
    device: int


class Mirror:
    """Device memory for pieces of host memory. Pieces that overlap share theirs, as they do on the host."""

    def __init__(self, libraries: Libraries, held: Held, pieces: Sequence[Bytes]) -> None:
        self._libraries = libraries
        self._stretches = [
            Stretch(first, end - first, allocate(libraries, held, end - first))
            for first, end in _joined([(address(piece), piece.size) for piece in pieces])
        ]

    def on_device(self, piece: Bytes) -> int | None:
        """The device's address of a piece; ``None``, a null pointer, of one without bytes."""
        if not piece.size:
            return None
        place = address(piece)
        for stretch in self._stretches:
            if stretch.host <= place < stretch.host + stretch.size:
                return stretch.device + place - stretch.host
        raise AssertionError("a piece that is not mirrored")

    def upload(self, piece: Bytes) -> None:
        """Copy a piece to the device; done when it returns."""
        self._copy(self.on_device(piece), address(piece), piece.size, H2D)

    def download(self, piece: Bytes) -> None:
        """Copy a piece back from the device; done when it returns."""
        self._copy(address(piece), self.on_device(piece), piece.size, D2H)

    def _copy(self, target: int | None, source: int | None, size: int, kind: int) -> None:
        if size:
            self._libraries.call("aclrtMemcpy", target, size, source, size, kind)


def allocate(libraries: Libraries, held: Held, size: int) -> int:
    """Device memory of ``size`` > 0 bytes, freed with ``held``; its address."""
    found = libraries.made("aclrtMalloc", size, HUGE_FIRST)
    held.keep("aclrtFree", found)
    return found


def address(array: NDArray[Any]) -> int:
    """Where an array's first byte lies."""
    return int(array.__array_interface__["data"][0])


def _joined(pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The stretches (first, end) that pieces (first, size) cover."""
    found: list[tuple[int, int]] = []
    for first, size in sorted(pieces):
        if size and found and first < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], first + size)
        elif size:
            found.append((first, first + size))
    return found

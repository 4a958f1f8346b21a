"""Two 16-bit elements as one word: the same bits, wherever the array begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

from kernel.numerics.stream import pair, set_pair


@njit
def _exchanged(source: Any, target: Any) -> None:
    for k in range(source.size >> 1):
        word = pair(source, k)
        set_pair(target, k, np.uint16(word >> np.uint32(16)), np.uint16(word & np.uint32(0xFFFF)))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_pair_is_two_neighbours_at_any_address(compiled: bool, start: int) -> None:
    source = np.arange(0xFFE0, 0xFFE0 + 27, dtype=np.uint32).astype(np.uint16)[start : start + 20]
    target = np.zeros(27, np.uint16)[start : start + 20]
    (_exchanged if compiled else _exchanged.py_func)(source, target)
    np.testing.assert_array_equal(target.reshape(-1, 2), source.reshape(-1, 2)[:, ::-1])

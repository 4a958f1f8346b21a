"""Many inequalities of integers at once: whether sums are not negative."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int = NDArray[np.int64]
_LARGEST = (1 << 63) - 1


class Inequalities:
    """``constant + sum(factor * value)`` is not negative, for each of a number of such sums.

    ``rows``: of each sum its constant, and (place of the value, factor) of its terms.
    """

    def __init__(self, rows: Sequence[tuple[int, Sequence[tuple[int, int]]]]) -> None:
        self._rows = rows
        # Up to here no sum leaves 64 bits.
        self._most = _LARGEST // max([1, *(abs(c) + sum(abs(f) for _, f in terms) for c, terms in rows)])
        places = [place for _, terms in rows for place, _ in terms]
        ends = np.cumsum([len(terms) for _, terms in rows])
        self._known = self._most > 1
        if self._known:
            self._constants = np.array([constant for constant, _ in rows], np.int64)
            self._ends = np.array(ends, np.int64)
            self._places = np.array(places, np.int64)
            self._factors = np.array([factor for _, terms in rows for _, factor in terms], np.int64)

    def hold(self, values: Sequence[int]) -> bool:
        """Whether none is broken by ``values``."""
        if self._known:
            try:
                held: int = _hold(
                    self._constants,
                    self._ends,
                    self._places,
                    self._factors,
                    np.array(values, np.int64),
                    self._most,
                )
            except OverflowError:
                held = _TOO_LARGE
            if held != _TOO_LARGE:
                return held == 1
        return all(
            constant + sum([factor * values[place] for place, factor in terms]) >= 0
            for constant, terms in self._rows
        )


_TOO_LARGE = -1


@njit(cache=True, nogil=True)
def _hold(constants: Int, ends: Int, places: Int, factors: Int, values: Int, most: int) -> int:
    """1 if none is broken, 0 if one is, -1 for values that 64 bits may not be enough for."""
    for i in range(len(values)):
        if values[i] > most or values[i] < -most:
            return -1
    term = 0
    for row in range(len(constants)):
        total = constants[row]
        while term < ends[row]:
            total += factors[term] * values[places[term]]
            term += 1
        if total < 0:
            return 0
    return 1

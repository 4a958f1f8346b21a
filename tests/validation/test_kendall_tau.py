"""Kendall's tau-b against the definition, pair by pair."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.validation.kendall import kendall_tau


def by_pairs(a: list[float], b: list[float]) -> float | None:
    """(concordant - discordant) / sqrt((pairs - tied in a) * (pairs - tied in b))."""
    score = untied_a = untied_b = 0
    for (x0, y0), (x1, y1) in combinations(zip(a, b, strict=True), 2):
        sign_a, sign_b = (x1 > x0) - (x1 < x0), (y1 > y0) - (y1 < y0)
        score += sign_a * sign_b
        untied_a += sign_a != 0
        untied_b += sign_b != 0
    return score / math.sqrt(untied_a * untied_b) if untied_a and untied_b else None


PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=60)


@given(PAIRS)
def test_tau_is_what_counting_all_pairs_gives(pairs: list[tuple[int, int]]) -> None:
    a, b = ([float(value) for value in column] for column in zip(*pairs, strict=True))
    found, expected = kendall_tau(np.array(a), np.array(b)), by_pairs(a, b)
    assert (found is None) == (expected is None)
    assert found is None or found == pytest.approx(expected, abs=1e-12)


def test_the_same_order_is_one_and_the_reverse_is_minus_one() -> None:
    values = np.array([3.0, 1.0, 2.0, 7.5, 6.0])
    assert kendall_tau(values, 10 * values) == pytest.approx(1)
    assert kendall_tau(values, -values) == pytest.approx(-1)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_there_is_no_order_among_equal_values(count: int) -> None:
    assert kendall_tau(np.ones(count), np.arange(count, dtype=float)) is None


def test_a_textbook_example_with_ties() -> None:
    """4 concordant, 0 discordant, one pair tied in each: 4 / sqrt(5 * 5)."""
    assert kendall_tau(np.array([1.0, 2, 2, 3]), np.array([1.0, 1, 2, 3])) == pytest.approx(4 / 5)


def test_a_hundred_thousand_rows_agree_with_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    generator = np.random.default_rng(7)
    a = generator.integers(0, 5000, 100_000).astype(float)
    b = a + generator.integers(0, 3000, 100_000)
    assert kendall_tau(a, b) == pytest.approx(scipy_stats.kendalltau(a, b).statistic, abs=1e-12)

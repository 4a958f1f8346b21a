"""The statistics of a summary, against figures worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from emulator.validation import sizes
from emulator.validation.naive import launch_us, naive_us
from emulator.validation.statistics import Summary, summary
from socs import load


def column(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)


def test_every_figure_of_a_small_table() -> None:
    """Errors: +10 %, -20 %, 0, +40 %; baseline: 100 %, 0, 50 %, 0."""
    found = summary(
        measured=column(10, 10, 20, 40),
        predicted=column(11, 8, 20, 56),
        bound=column(9, 10.5, 20, 30),
        naive=column(20, 10, 30, 40),
        ids=["a", "b", "c", "d"],
    )
    assert found == Summary(
        n=4,
        median_abs_error=pytest.approx(0.15),
        mean_abs_error=pytest.approx(0.175),
        signed_mean=pytest.approx(0.075),
        within_10pct=0.5,
        within_20pct=0.75,
        worst_abs_error=pytest.approx(0.4),
        worst_row="d",
        # 5 pairs in the same order, one tied in measured: 5 / sqrt(5 * 6).
        kendall_tau=pytest.approx(5 / 30**0.5),
        bound_violations=0.25,
        naive_median_abs_error=pytest.approx(0.25),
    )


def test_an_error_of_exactly_the_limit_is_within_it() -> None:
    found = summary(column(10, 10), column(11, 8), column(1, 1), column(4, 8), ["a", "b"])
    assert (found.within_10pct, found.within_20pct) == (0.5, 1)
    assert summary(column(1), column(1.1001), column(1), column(1), ["a"]).within_10pct == 0


def test_no_rows_have_no_statistics() -> None:
    empty = column()
    assert summary(empty, empty, empty, empty, []) == Summary(0)


def test_one_row_has_no_order() -> None:
    found = summary(column(2), column(3), column(1), column(2), ["only"])
    assert (found.n, found.kendall_tau, found.worst_abs_error) == (1, None, 0.5)


def test_a_class_of_size_begins_at_its_lower_edge() -> None:
    edges = {1 << 20: 1, 64 << 20: 2}
    assert [sizes.size_index(edge) for edge in edges] == list(edges.values())
    assert [sizes.size_index(edge - 1) for edge in edges] == [place - 1 for place in edges.values()]
    assert sizes.size_class(0) == sizes.SIZES[0]
    assert sizes.size_class(1 << 62) == sizes.SIZES[-1]


def test_the_baseline_is_bytes_over_bandwidth_and_a_launch_on_all_cores() -> None:
    soc = load("Ascend910B3", {"launch.task_s": 1e-6, "launch.entry_s": 2e-6, "launch.block_s": 1e-7})
    assert soc.vector_cores == 40
    assert launch_us(soc) == pytest.approx(1 + 2 + 4)
    rate = soc.memory.hbm_bytes_per_s
    assert naive_us(soc, int(rate)) == pytest.approx(1e6 + 7)

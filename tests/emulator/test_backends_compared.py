"""Comparisons of backends: the measure of a difference, the cases, what is written and what is said."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import emulator
from emulator.backend import Call
from emulator.backends.emulated import Emulated
from emulator.backends.npu import NpuError
from emulator.comparison import cases, compare, data, table
from emulator.comparison.bits import difference
from emulator.measured import Measured
from emulator.report.comparison import comparison_json
from emulator.result import Result

CHIP = emulator.soc("Ascend910B3")


class Card(Emulated):
    """The emulator with made-up times, and other bits at certain places."""

    def __init__(self, *wrong: int, fails: bool = False) -> None:
        self._wrong = wrong
        self._fails = fails

    def run(self, call: Call) -> Result:
        if self._fails:
            raise NpuError("aclrtMalloc", 207001, "no memory")
        result = super().run(call)
        assert call.out is not None
        for place in self._wrong:
            call.out.reshape(-1).view(np.uint16)[place] ^= 1
        times = Measured((3.0, 1.0, 2.0), 0.5, 1, "hot", emulated=False)
        return replace(result, measured=times, cycles=0, time_us=0.0)


def compared(card: Card, *wanted: cases.Case, **options: Any) -> list[compare.Compared]:
    return list(compare.compare(wanted, [("emulated", Emulated()), ("card", card)], CHIP, **options))


def case(shape: tuple[int, ...], dtype: str = "float16", reduction: str = "mean", **other: Any) -> cases.Case:
    return cases.Case(other.get("grad", shape), shape, shape, dtype, reduction)


NEIGHBOURS = (
    (0.0, -0.0, 0),
    (1.0, float(np.nextafter(np.float32(1), np.float32(2))), 1),
    (-1.0, float(np.nextafter(np.float32(-1), np.float32(0))), 1),
    (1e-45, -1e-45, 2),
    (float(np.finfo(np.float32).max), np.inf, 1),
)


@pytest.mark.parametrize(("one", "other", "apart"), NEIGHBOURS)
def test_numbers_are_apart_by_the_numbers_between_them(one: float, other: float, apart: int) -> None:
    found = difference(np.float32([[3, one]]), np.float32([[3, other]]))
    assert (found.differing, found.max_ulp, found.first) == (1, apart, (0, 1))


@given(
    st.sampled_from((np.float16, ml_dtypes.bfloat16)),
    st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), min_size=1, max_size=40),
)
def test_a_difference_is_that_of_each_element_by_itself(dtype: Any, pairs: list[tuple[int, int]]) -> None:
    ours, theirs = (np.array(side, np.uint16).view(dtype) for side in zip(*pairs, strict=True))
    found = difference(ours, theirs)
    unequal = [(a, b) for a, b in pairs if a != b]
    infinity = int(np.array(np.inf, dtype).view(np.uint16))
    nan = [(a & 0x7FFF > infinity, b & 0x7FFF > infinity) for a, b in unequal]
    value = [tuple((-1 if x >> 15 else 1) * (x & 0x7FFF) for x in pair) for pair in unequal]
    apart = [abs(a - b) for (a, b), which in zip(value, nan, strict=True) if which == (False, False)]
    assert (found.elements, found.differing) == (len(pairs), len(unequal))
    assert (found.both_nan, found.one_nan) == (nan.count((True, True)), sum(a != b for a, b in nan))
    assert found.max_ulp == max(apart, default=None)
    if unequal:
        assert found.bits == tuple(f"0x{x:04x}" for x in unequal[0])


def test_every_shape_comes_in_every_dtype_by_every_reduction() -> None:
    made = cases.made([(2, 3), ()], ["float32", "bfloat16"], ["sum", "NONE"], grad_shape=())
    assert len(made) == 8
    assert made[3] == cases.Case((), (2, 3), (2, 3), "bfloat16", "none")


def test_a_file_of_cases_says_what_it_wants_and_the_options_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "cases.csv"
    path.write_text('\ufeffshape,Dtype,grad_shape\n"4,8",float16,\n\n"()",,()\n[7],bfloat16,1\n', "utf-8")
    found = cases.read(path, ["float32", "float16"], ["sum"])
    assert [(c.self, c.grad_output, c.dtype) for c in found] == [
        ((4, 8), (4, 8), "float16"),
        ((), (), "float32"),
        ((), (), "float16"),
        ((7,), (1,), "bfloat16"),
    ]
    assert {c.reduction for c in found} == {"sum"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its columns are none"),
        ("dtype\nfloat32\n", "its columns are dtype"),
        ("shape,colour\n4,red\n", "colour"),
        ("shape\n", "no rows"),
        ("shape,dtype\n4\n", "line 2: has 1 cells"),
        ("shape\nfour\n", "line 2: shape 'four'"),
        ("shape,dtype\n4,float64\n", "line 2: dtype = 'float64'"),
        ("shape,reduction\n4,max\n", "line 2: reduction"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_refused_with_line_and_cell(
    tmp_path: Path, text: str | None, words: str
) -> None:
    path = tmp_path / "cases.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(emulator.AtlasError, match=words):
        cases.read(path, ["float32"], ["mean"])


@pytest.mark.parametrize("kind", data.KINDS)
def test_tensors_are_the_same_every_time_and_differ_by_case(kind: str) -> None:
    one = data.tensors(case((50,)), kind, 1, 0)
    again, other = data.tensors(case((50,)), kind, 1, 0), data.tensors(case((50,)), kind, 1, 1)
    assert [array.tobytes() for array in one.values()] == [array.tobytes() for array in again.values()]
    assert len({array.tobytes() for array in (*one.values(), *other.values())}) == 6
    assert data.tensors(case((), "bfloat16"), kind, 1, 0)["self"].dtype == ml_dtypes.bfloat16


def test_equal_bits_are_equal_and_the_times_stand_side_by_side() -> None:
    (found,) = compared(Card(), case((4, 8)))
    ours, theirs = found.outcomes
    assert found.equal
    assert (ours.kind, theirs.kind, theirs.time_us) == ("predicted", "measured", 2.0)
    expected = emulator.predict("mse_loss_backward", shape=(4, 8), dtype="float16", l2="hot").time_us
    assert ours.time_us == expected
    assert theirs.result is not None
    assert theirs.result.output is None, "tensors are not kept"


def test_other_bits_are_counted_and_the_first_is_shown() -> None:
    (found,) = compared(Card(5, 9), case((4, 8)))
    differs = found.outcomes[1].difference
    assert differs is not None
    assert not found.equal
    assert (differs.differing, differs.max_ulp, differs.first) == (2, 1, (0, 5))


def test_a_failure_of_the_card_is_an_outcome_and_the_other_cases_go_on() -> None:
    found = compared(Card(fails=True), case((4,)), case((8,)))
    assert [one.outcomes[1].failed for one in found] == [
        "aclrtMalloc failed: 207001 (ACL_ERROR_RT_MEMORY_ALLOCATION): no memory"
    ] * 2
    assert not any(one.equal for one in found)
    document = comparison_json(found, CHIP, "hot", None)
    assert document["equal"] is False
    assert document["cases"][0]["backends"][1]["measured"] is None


def test_the_table_has_a_row_for_each_measured_time_in_the_vendors_order() -> None:
    found = compared(Card(), case((4, 8), grad=()), case((0, 3)))
    text = table.measurements(found[:1])
    (row,) = csv.DictReader(io.StringIO(text))
    assert row["in_shapes"] == "4,8;4,8;"
    assert (row["soc"], row["op"], row["l2_state"], row["duration_us"]) == (
        *("Ascend910B3", "MseLossGrad", "hot", "2"),
    )
    assert "a card" in row["source"]
    assert "quartiles 1.5 and 2.5" in row["note"]


@pytest.mark.parametrize("names", [["emulated"], ["emulated", "emulated"], ["emulated", "nothing"]])
def test_two_backends_are_needed_and_each_has_to_be_known(names: list[str]) -> None:
    with pytest.raises(emulator.AtlasError):
        compare.chosen(names, None, None)


@pytest.mark.parametrize("options", [{"data": "zeros"}, {"seed": -1}, {"l2": "warm"}])
def test_words_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(emulator.AtlasError, match=next(iter(options))):
        compared(Card(), case((4,)), **options)


def test_quartiles_hold_half_of_the_times() -> None:
    times = Measured(tuple(float(n) for n in range(1, 102)), 0.0, 3, "hot", emulated=True)
    assert (times.median_us, times.quartiles_us, times.repeats) == (51, (26, 76), 101)
    assert Measured((4.0,), 0.0, 0, "hot", emulated=True).quartiles_us == (4, 4)

"""Predictions beside measurements: which are made, what they are, and what is summed up."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from measured_files import write

import emulator
from emulator.validation.compare import Comparison, check_usable, compare, measure, stated
from emulator.validation.document import document
from emulator.validation.summaries import summaries
from socs.errors import AtlasError

MSE = {"in_shapes": "128,96;128,96;128,96"}
MUL = {"op": "Mul", "in_dtypes": "float16;float16", "out_dtypes": "float16", "in_shapes": "64,80;80"}


def us(l2: str, **options: object) -> float:
    chosen: dict[str, object] = {"soc": "Ascend910B4-1", "shape": (128, 96), "dtype": "float32"} | options
    return emulator.predict("mse_loss_backward", l2=l2, **chosen).time_us  # type: ignore[arg-type]


def compared(path: Path) -> Comparison:
    return compare(measure(path))


def json_of(comparison: Comparison) -> dict[str, object]:
    found = json.loads("".join(document(comparison, summaries(comparison), "file")))
    assert isinstance(found, dict)
    return found


def test_a_row_is_predicted_as_predict_does_it(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "m.csv", {**MSE, "l2_state": "hot"}, {**MSE, "l2_state": "cold"}))
    assert found.predicted.tolist() == [us("hot"), us("cold")]
    hot = emulator.predict(
        "mse_loss_backward", soc="Ascend910B4-1", shape=(128, 96), dtype="float32", l2="hot"
    )
    assert found.bound[0] == pytest.approx(hot.us(hot.bound_cycles))


def test_only_the_state_that_was_measured_is_predicted(tmp_path: Path) -> None:
    found = compared(write(tmp_path / "m.csv", {**MSE, "l2_state": "hot"}, {**MUL, "l2_state": "cold"}))
    assert [math.isnan(value) for value in found.hot] == [False, True]
    assert [math.isnan(value) for value in found.cold] == [True, False]
    assert not found.inside.any()


def test_an_unknown_state_is_predicted_between_hot_and_cold(tmp_path: Path) -> None:
    hot, cold = us("hot"), us("dirty")
    assert hot < cold
    between, below, above = (hot + cold) / 2, hot * 0.99, cold * 1.01
    path = write(
        tmp_path / "m.csv",
        *(
            {**MSE, "l2_state": "trace", "duration_us": str(value)}
            for value in (between, below, above, hot, cold)
        ),
    )
    found = compared(path)
    assert found.predicted.tolist() == pytest.approx([math.sqrt(hot * cold)] * 5)
    assert found.inside.tolist() == [True, False, False, True, True]
    band = summaries(found).trace
    assert band.inside_band == pytest.approx(0.6)
    assert band.median_hot_to_cold == pytest.approx(cold / hot)


def test_a_row_is_a_bound_violation_only_below_the_bound_of_the_faster_state(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", {**MSE, "l2_state": "trace"})
    found = compared(path)
    hot, cold = (
        emulator.predict("mse_loss_backward", soc="Ascend910B4-1", shape=(128, 96), dtype="float32", l2=state)
        for state in ("hot", "dirty")
    )
    assert found.bound[0] == pytest.approx(min(hot.us(hot.bound_cycles), cold.us(cold.bound_cycles)))


def test_each_call_is_predicted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from emulator.validation import compare as module

    made: list[tuple[str, str]] = []
    real: Callable[..., object] = module.time_of

    def counted(plan: object, l2: str, engine: str) -> object:
        made.append((str(plan.operator), l2))  # type: ignore[attr-defined]
        return real(plan, l2, engine)

    monkeypatch.setattr(module, "time_of", counted)
    states = ("hot", "hot", "trace", "hot")
    compared(
        write(
            tmp_path / "m.csv", *({**MSE, "l2_state": state} for state in states), {**MUL, "l2_state": "hot"}
        )
    )
    assert sorted(made) == [("mse_loss_backward", "dirty"), ("mse_loss_backward", "hot"), ("mul", "hot")]


def test_the_overall_figures_are_of_vendor_kernels_whose_state_is_known(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.csv",
        {**MSE, "id": "a"},
        {**MUL, "id": "b", "l2_state": "cold"},
        {**MSE, "id": "c", "l2_state": "trace"},
        {**MSE, "id": "d", "kernel": "triton"},
        {**MSE, "id": "e", "kernel": "triton", "l2_state": "unknown"},
        {**MSE, "id": "f", "kernel": ""},
    )
    found = summaries(compared(path))
    assert found.overall.n == 3
    assert {name: one.n for name, one in found.by_op.items()} == {"MseLossGrad": 2, "Mul": 1}
    assert {name: one.n for name, one in found.by_kernel.items()} == {"vendor": 3, "triton": 1}
    assert found.trace.summary.n == 1
    assert {name: one.summary.n for name, one in found.trace_by_kernel.items()} == {
        "vendor": 1,
        "triton": 1,
    }
    assert sum(one.n for one in found.by_size.values()) == 3
    assert sum(one.n for one in found.groups.values()) == 3


def test_a_call_that_cannot_be_timed_takes_its_rows_out(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.csv", {"id": "a"}, {"id": "b", "in_shapes": "3;4;5"}, {"id": "c", "in_shapes": "3;4;5"}
    )
    found = compared(path)
    assert found.ids == ["a"]
    (why,) = found.skipped.reasons.values()
    assert (why.count, why.ids) == (2, ["b", "c"])
    assert "broadcast" in why.detail


def test_nothing_usable_is_an_error_that_counts_the_reasons(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", {"soc": "x"}, {"op": "Y"}, {"op": "Y"})
    found = measure(path)
    with pytest.raises(
        AtlasError, match=r"none of its 3 rows .*: 2 unknown operator 'Y'; 1 unknown SoC 'x'$"
    ):
        check_usable(found, len(found.ids), path)
    empty = write(tmp_path / "e.csv")
    with pytest.raises(AtlasError, match="column names and no rows"):
        check_usable(measure(empty), 0, empty)


def test_another_state_than_hot_or_cold_is_refused() -> None:
    assert [stated(word) for word in ("hot", "cold", "band")] == ["hot", "cold", None]
    with pytest.raises(AtlasError, match="l2 = 'warm': must be hot, cold or band"):
        stated("warm")


SUMMARY = {
    *("n", "median_abs_error", "mean_abs_error", "signed_mean", "within_10pct", "within_20pct"),
    *("worst_abs_error", "worst_row", "kendall_tau", "bound_violations", "naive_median_abs_error"),
}


def test_the_keys_of_the_document_are_these(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.csv",
        {**MSE, "id": "a"},
        {**MSE, "id": "b", "l2_state": "trace"},
        {"id": "c", "op": "Z"},
    )
    found = json_of(compared(path))
    assert list(found) == [
        *("source", "engine", "scope", "naive", "overall", "by_soc", "by_op", "by_size", "by_kernel"),
        *("groups", "trace", "skipped", "rows"),
    ]
    band = {*SUMMARY, "inside_band", "median_hot_to_cold"}
    assert set(found["overall"]) == SUMMARY  # type: ignore[call-overload]
    assert set(found["by_soc"]["Ascend910B4-1"]) == SUMMARY  # type: ignore[index]
    assert set(found["by_op"]["MseLossGrad"]) == SUMMARY  # type: ignore[index]
    parts = {"scope", "by_soc", "by_op", "by_size", "by_kernel"}
    assert set(found["trace"]) == band | parts  # type: ignore[call-overload]
    assert set(found["trace"]["by_soc"]["Ascend910B4-1"]) == band  # type: ignore[index]
    known, unknown = found["rows"]  # type: ignore[misc]
    assert (known["id"], known["l2_state"], known["inside_band"]) == ("a", "hot", None)
    assert (known["predicted_hot_us"], known["predicted_cold_us"]) == (known["predicted_us"], None)
    assert known["error"] == pytest.approx(known["predicted_us"] / known["measured_us"] - 1)
    assert (unknown["id"], unknown["l2_state"]) == ("b", "trace")
    assert unknown["predicted_hot_us"] < unknown["predicted_us"] < unknown["predicted_cold_us"]
    assert (
        set(known)
        == set(unknown)
        == {
            *("id", "soc", "kernel", "op", "operator", "shapes", "dtypes", "l2_state", "size", "bytes"),
            *("measured_us", "predicted_us", "error", "bound_us", "naive_us"),
            *("predicted_hot_us", "predicted_cold_us", "inside_band"),
        }
    )
    assert found["skipped"] == {
        "total": 1,
        "of_rows": 3,
        "reasons": [{"reason": "unknown operator 'Z'", "count": 1, "first_ids": ["c"], "detail": None}],
    }


def test_a_document_without_rows_of_a_kind_has_nulls(tmp_path: Path) -> None:
    found = json_of(compared(write(tmp_path / "m.csv", {**MSE, "l2_state": "trace"})))
    assert found["overall"] == {**dict.fromkeys(SUMMARY), "n": 0}
    assert found["by_soc"] == {}

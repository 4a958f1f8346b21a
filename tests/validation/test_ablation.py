"""What the table of mechanisms says is what predictions without them say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from measured_files import write
from typer.testing import CliRunner

import emulator
from emulator.cli import app
from emulator.device.mechanisms import MECHANISMS
from emulator.validation.ablation import ablation
from emulator.validation.compare import measure

MSE = {"in_shapes": "128,96;128,96;128,96"}
MUL = {"op": "Mul", "in_dtypes": "float16;float16", "out_dtypes": "float16", "in_shapes": "64,80;80"}

ROWS = (
    {**MSE, "id": "a", "l2_state": "hot", "duration_us": "3.0"},
    {**MUL, "id": "b", "l2_state": "cold", "duration_us": "4.0"},
    {**MSE, "id": "c", "l2_state": "trace", "duration_us": "3.0"},
    {**MSE, "id": "d", "l2_state": "hot", "kernel": "triton", "duration_us": "9.0"},
)


def test_the_figures_are_those_of_predict_without_the_mechanism(tmp_path: Path) -> None:
    found = ablation(measure(write(tmp_path / "m.csv", *ROWS[:1])))
    assert found[0].name == ""
    assert {one.name for one in found[1:]} == set(MECHANISMS)
    for one in found:
        time = emulator.predict(
            "mse_loss_backward",
            soc="Ascend910B4-1",
            shape=(128, 96),
            dtype="float32",
            l2="hot",
            without=[one.name] if one.name else [],
        ).time_us
        assert one.rows == 1
        assert one.median_abs_error == pytest.approx(abs(time / 3.0 - 1))
        assert one.signed_mean == pytest.approx(time / 3.0 - 1)


def test_rows_of_unknown_state_count_by_their_band_and_other_kernels_not_at_all(tmp_path: Path) -> None:
    whole = ablation(measure(write(tmp_path / "m.csv", *ROWS)))[0]
    assert (whole.rows, whole.band_rows) == (2, 1)
    ends = [
        emulator.predict(
            "mse_loss_backward", soc="Ascend910B4-1", shape=(128, 96), dtype="float32", l2=l2
        ).time_us
        for l2 in ("hot", "dirty")
    ]
    assert whole.median_hot_to_dirty == pytest.approx(max(ends) / min(ends))
    assert whole.inside_band == float(min(ends) <= 3.0 <= max(ends))
    assert whole.changed == 0


def test_the_dearest_mechanism_comes_first(tmp_path: Path) -> None:
    found = ablation(measure(write(tmp_path / "m.csv", *ROWS[:2])))
    errors = [one.mean_abs_error or 0 for one in found[1:]]
    assert errors == sorted(errors, reverse=True)
    assert np.ptp(errors) > 0


def test_the_command_prints_the_table_and_puts_it_into_the_document(tmp_path: Path) -> None:
    path = str(write(tmp_path / "m.csv", *ROWS))
    text = CliRunner().invoke(app, ["validate", path, "--ablate"])
    assert text.exit_code == 0
    assert all(name in text.stdout for name in MECHANISMS)
    told = json.loads(CliRunner().invoke(app, ["validate", path, "--ablate", "--json"]).stdout)
    assert {one["name"] for one in told["ablation"]} == {"", *MECHANISMS}
    assert "ablation" not in json.loads(CliRunner().invoke(app, ["validate", path, "--json"]).stdout)

"""Fitting a chip: known numbers come back, what cannot be known is left alone, and the file is a chip."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from measured_files import write

import emulator
import socs
from emulator.validation.calibrate import Calibration, calibrate, calibrated_text, recipes
from emulator.validation.compare import measure
from emulator.validation.fit import fit
from emulator.validation.free import FREE, free_of, number, with_numbers
from emulator.validation.observations import Observation, Observations, observations
from emulator.validation.shipped import CALIBRATION, MEASUREMENTS
from socs.errors import AtlasError
from socs.spec import Soc

pytest.importorskip("scipy")

CHIP = "Ascend910B4-1"
SHAPES = ("64,64", "300,1000", "1024,1024", "2048,4096")
TRUE = {
    "launch.task_s": 0.9e-6,
    "launch.block_s": 45e-9,
    "memory.hbm_bytes_per_s": 0.9e12,
    "dma.load.l2.stream_latency_cycles": 350,
}
"""What the chip that the rows are made with has instead."""


def other(numbers: Mapping[str, float] = TRUE) -> Soc:
    return socs.load(CHIP, dict(numbers))


def rows(
    chip: Soc, *, states: tuple[str, ...] = ("hot", "cold"), kernel: str | None = None
) -> list[dict[str, str]]:
    """Rows that ``chip`` would be measured to have."""
    made = []
    for shape in SHAPES:
        dims = tuple(map(int, shape.split(",")))
        for dtype in ("float32", "float16"):
            for state in states:
                us = emulator.predict(
                    "mse_loss_backward", soc=chip, shape=dims, dtype=dtype, l2=state, kernel=kernel
                ).time_us
                made.append(
                    {
                        "id": str(len(made)),
                        "in_dtypes": ";".join([dtype] * 3),
                        "out_dtypes": dtype,
                        "in_shapes": ";".join([shape] * 3),
                        "out_shapes": shape,
                        "l2_state": state,
                        "duration_us": repr(us),
                    }
                )
    return made


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("rows") / "rows.csv", *rows(other()))


@pytest.fixture(scope="module")
def calibration(table: Path) -> Calibration:
    chip = socs.load(CHIP)
    return calibrate(measure(table, soc=chip), chip, keys=TRUE)


def test_the_numbers_that_made_the_rows_come_back(calibration: Calibration) -> None:
    found = {one.key: one.after for one in calibration.fit.numbers}
    assert found.keys() == TRUE.keys()
    for key, value in TRUE.items():
        assert found[key] == pytest.approx(value, rel=0.05), key
    assert calibration.fit.rms_after < calibration.fit.rms_before / 10


def test_before_and_after_are_what_validate_says_of_both_chips(calibration: Calibration) -> None:
    before, after = calibration.before.fitted, calibration.after.fitted
    assert (before.n, after.n, calibration.rows, calibration.calls) == (16, 16, 16, 16)
    assert before.median_abs_error is not None
    assert after.median_abs_error is not None
    assert before.median_abs_error > 0.1
    assert after.median_abs_error < 0.01


def test_the_same_rows_give_the_same_numbers(table: Path, calibration: Calibration) -> None:
    chip = socs.load(CHIP)
    again = calibrate(measure(table, soc=chip), chip, keys=TRUE)
    assert again.fit.numbers == calibration.fit.numbers


def test_the_file_is_the_chip_that_was_fitted(tmp_path: Path, calibration: Calibration) -> None:
    path = tmp_path / "fitted.toml"
    path.write_text(calibrated_text(calibration, CHIP, "rows.csv"), encoding="utf-8")
    soc = socs.load(path)
    assert soc.name == CHIP
    for one in calibration.fit.numbers:
        assert number(soc, one.key) == one.after
        source = soc.source(one.key)
        assert (source.tier, source.ref) == ("measured", "fitted to 16 rows of rows.csv")
        assert [other.value for other in source.alternatives] == [one.before]
    changed = {one.key for one in calibration.fit.numbers}
    shipped = socs.load(CHIP)
    assert {key for key, value in soc.numbers() if value != dict(shipped.numbers())[key]} == changed
    # How far predictions with these numbers are from the rows goes with them.
    assert {(one.operator, one.l2) for one in soc.validation} >= {("mse_loss_backward", "hot")}
    assert all(one.worst_error < 0.02 for one in soc.validation)
    assert all(one.fitted == one.rows for one in soc.validation)
    found = emulator.predict("mse_loss_backward", soc=soc, shape=(64, 64), dtype="float32", l2="hot")
    assert found.accuracy.validated


def test_a_file_can_extend_a_users_file_and_odd_names_stay_text(
    tmp_path: Path, calibration: Calibration
) -> None:
    base = tmp_path / 'my "chip".toml'
    base.write_text('extends = "Ascend910B4-1"\nname = "Ascend910B4-1"\n')
    text = calibrated_text(calibration, base.name, "rows\n\x7f\"'.csv")
    assert tomllib.loads(text)["sources"]["launch.task_s"]["ref"].endswith("rows\n\x7f\"'.csv")
    (tmp_path / "fitted.toml").write_text(text)
    assert socs.load(tmp_path / "fitted.toml").launch.task_s == number(calibration.fit.soc, "launch.task_s")


# ---- what is fitted -----------------------------------------------------------------------------


def test_numbers_that_no_row_depends_on_are_left_alone(tmp_path: Path) -> None:
    """Rows of one block that hit L2 say nothing of HBM."""
    chip = socs.load(CHIP)
    made = [
        row for row in rows(other({"launch.entry_s": 0.8e-6}), states=("hot",)) if "64,64" in row["in_shapes"]
    ]
    keys = ("launch.entry_s", "memory.hbm_bytes_per_s", "dma.load.hbm.latency_cycles")
    found = measure(write(tmp_path / "m.csv", *made), soc=chip)
    result = calibrate(found, chip, keys=keys).fit
    assert [one.key for one in result.numbers] == ["launch.entry_s"]
    assert result.left == dict.fromkeys(keys[1:], "no row depends on it")
    assert number(result.soc, "memory.hbm_bytes_per_s") == number(chip, "memory.hbm_bytes_per_s")


def test_of_two_numbers_that_the_rows_do_not_tell_apart_one_is_fitted(tmp_path: Path) -> None:
    """A task's head and a block's entry are one sum in every row."""
    chip = socs.load(CHIP)
    made = rows(other({"launch.entry_s": 1.5e-6}), states=("hot",))
    keys = ("launch.task_s", "launch.entry_s")
    result = calibrate(measure(write(tmp_path / "m.csv", *made), soc=chip), chip, keys=keys).fit
    assert len(result.numbers) == 1
    assert list(result.left.values()) == ["the rows do not tell it from the numbers that are fitted"]
    total = number(result.soc, "launch.task_s") + number(result.soc, "launch.entry_s")
    assert total == pytest.approx(1.5e-6 + number(chip, "launch.task_s"), rel=0.03)


def test_rows_that_determine_nothing_are_an_error(tmp_path: Path) -> None:
    chip = socs.load(CHIP)
    path = write(tmp_path / "m.csv", *rows(chip, states=("hot",))[:2])
    with pytest.raises(AtlasError, match=r"2 calls determine none of the numbers .*no row depends on it"):
        calibrate(measure(path, soc=chip), chip, keys=["dma.load.hbm.latency_cycles"])


def test_an_outlier_hardly_moves_the_fit(tmp_path: Path) -> None:
    chip = socs.load(CHIP)
    made = rows(other({"launch.task_s": 0.9e-6}), states=("hot",))
    made[0]["duration_us"] = repr(3 * float(made[0]["duration_us"]))
    found = measure(write(tmp_path / "m.csv", *made), soc=chip)
    (with_it,) = calibrate(found, chip, keys=["launch.task_s"]).fit.numbers
    (without,) = calibrate(found, chip, keys=["launch.task_s"], exclude=["0"]).fit.numbers
    assert without.after == pytest.approx(0.9e-6, rel=0.02)
    assert with_it.after == pytest.approx(0.9e-6, rel=0.25)


def test_an_excluded_row_is_reported_and_not_fitted(table: Path) -> None:
    chip = socs.load(CHIP)
    found = calibrate(measure(table, soc=chip), chip, keys=["launch.task_s"], exclude=["3", "5"])
    assert (found.excluded, found.rows) == (("3", "5"), 14)
    assert (found.after.fitted.n, found.after.held_out.n) == (14, 2)
    with pytest.raises(AtlasError, match="no usable row has the id '99'"):
        calibrate(measure(table, soc=chip), chip, exclude=["99"])


def test_other_kernels_are_fitted_only_if_one_says_so(tmp_path: Path) -> None:
    chip = socs.load(CHIP)
    true = other({"launch.task_s": 0.9e-6})
    made = [{**row, "kernel": "triton"} for row in rows(true, states=("hot",), kernel="mse_loss_grad_triton")]
    found = measure(write(tmp_path / "m.csv", *made), soc=chip)
    with pytest.raises(AtlasError, match="no row of a vendor kernel on Ascend910B4-1"):
        calibrate(found, chip)
    (one,) = calibrate(found, chip, kernels=["triton"], keys=["launch.task_s"]).fit.numbers
    assert one.after == pytest.approx(0.9e-6, rel=0.02)


def test_a_key_that_cannot_be_fitted_is_refused(table: Path) -> None:
    chip = socs.load(CHIP)
    with pytest.raises(AtlasError, match=r"^vector_cores: no number .* there are launch\.task_s"):
        calibrate(measure(table, soc=chip), chip, keys=["vector_cores"])


def test_a_fit_stops_at_its_limit(tmp_path: Path) -> None:
    chip = socs.load(CHIP)
    made = [
        {**row, "duration_us": repr(100 * float(row["duration_us"]))}
        for row in rows(chip, states=("hot",))[:4]
    ]
    (one,) = calibrate(
        measure(write(tmp_path / "m.csv", *made), soc=chip), chip, keys=["launch.entry_s"]
    ).fit.numbers
    assert one.at_limit
    assert one.after == pytest.approx(one.high, rel=1e-3)


# ---- rows whose state of L2 is not known --------------------------------------------------------


def test_inside_the_band_a_row_pulls_weakly_to_its_middle_and_outside_fully_to_it() -> None:
    of = Observations(
        [Observation(None, None, np.log(value), ("a",)) for value in (3.0, 1.0, 8.0)],  # type: ignore[arg-type]
        "simpy",
    )
    band = (float(np.log(2.0)), float(np.log(4.0)))
    middle = np.log(8) / 2
    inside, below, above = (of.residual(place, band) for place in range(3))
    assert inside == pytest.approx(0.25 * (middle - np.log(3)))
    assert below == pytest.approx(np.log(2) + 0.25 * (middle - np.log(1)))
    assert above == pytest.approx(np.log(4) - np.log(8) + 0.25 * (middle - np.log(8)))


def middles(folder: Path, true: Soc) -> Path:
    """Rows of unknown state, each measured in the middle of the band that ``true`` gives."""
    made = []
    for cold, hot in zip(rows(true, states=("dirty",)), rows(true, states=("hot",)), strict=True):
        middle = (float(cold["duration_us"]) * float(hot["duration_us"])) ** 0.5
        made.append({**cold, "l2_state": "trace", "duration_us": repr(middle)})
    return write(folder / "m.csv", *made)


def test_rows_of_unknown_state_are_fitted_as_a_band(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emulator.validation.observations.WIDTH_WEIGHT", 0.0)
    chip = socs.load(CHIP)
    table = measure(middles(tmp_path, other({"launch.task_s": 2e-6})), soc=chip)
    found = calibrate(table, chip, keys=["launch.task_s"])
    (one,) = found.fit.numbers
    # What it was before, a quarter of this, pulls by 2.5 %.
    assert one.after == pytest.approx(2e-6, rel=0.03)
    before, after = found.before.trace, found.after.trace
    assert before.inside_band < after.inside_band
    assert after.summary.worst_abs_error < 0.02


def test_the_weight_of_the_width_narrows_bands_at_little_cost(tmp_path: Path) -> None:
    chip = socs.load(CHIP)
    table = measure(middles(tmp_path, other({"launch.task_s": 2e-6})), soc=chip)
    (one,) = calibrate(table, chip, keys=["launch.task_s"]).fit.numbers
    # A longer launch makes all bands narrower. All that holds it back here is the weak pull to their middles.
    assert 2e-6 < one.after < 2.2e-6


def test_repeated_rows_of_a_call_are_one_observation(tmp_path: Path) -> None:
    chip = socs.load(CHIP)
    path = write(
        tmp_path / "m.csv",
        *({"id": str(k), "duration_us": str(us)} for k, us in enumerate((2.0, 4.5))),
        {"id": "x", "l2_state": "cold"},
        {"id": "y", "l2_state": "trace"},
        {"id": "z", "l2_state": "unknown"},
    )
    of = observations(measure(path, soc=chip), chip, "simpy", kernels=["vendor"])
    assert [(one.l2, one.ids, one.width) for one in of.all] == [
        ("hot", ("0", "1"), False),
        ("cold", ("x",), False),
        (None, ("y", "z"), False),
        (None, ("y", "z"), True),
    ]
    assert of.calls == 3
    assert of.all[0].log_measured == pytest.approx(np.log(3.0))
    assert of.rows == 5


# ---- the table of free numbers ------------------------------------------------------------------


@pytest.mark.parametrize("soc", socs.all_socs(), ids=lambda soc: soc.name)
def test_the_numbers_of_every_chip_lie_within_their_limits(soc: Soc) -> None:
    for free in free_of(soc):
        low, high = free.limits(soc)
        value = number(soc, free.key)
        assert 0 < low < high, free.key
        assert value <= high * (1 + 1e-9), free.key
        assert value == 0 or value >= low, free.key


def test_no_free_number_belongs_to_a_kernel_a_shape_or_a_dtype() -> None:
    for free in FREE:
        assert free.key.split(".")[0] in {"launch", "memory", "dma", "scalar"}


def test_replaced_numbers_keep_their_kind_and_their_sources() -> None:
    chip = socs.load(CHIP)
    made = with_numbers(
        chip, {"scalar.loop_cycles": 30.6, "launch.task_s": 1e-6, "dma.load.l2.latency_cycles": 7}
    )
    assert (made.scalar.loop_cycles, made.launch.task_s, made.dma.load.l2.latency_cycles) == (31, 1e-6, 7)
    assert type(made.scalar.loop_cycles) is int
    assert made.sources == chip.sources
    assert chip.launch.task_s != 1e-6


# ---- the shipped numbers ------------------------------------------------------------------------


def test_the_recipes_of_the_shipped_numbers_name_rows_and_numbers_that_there_are() -> None:
    ids = set(measure(MEASUREMENTS).ids)
    for name, found in recipes(CALIBRATION).items():
        chip = socs.load(name)
        assert set(found) <= {"exclude", "kernels", "free"}
        assert set(found.get("exclude", ())) <= ids
        assert set(found.get("free", ())) <= {free.key for free in free_of(chip)}


@pytest.mark.slow
@pytest.mark.parametrize("name", recipes(CALIBRATION))
def test_the_shipped_numbers_are_those_that_the_shipped_rows_give(name: str) -> None:
    """Within two standard errors; of a number that the rows hold from one side only, on that side."""
    chip, how = socs.load(name), recipes(CALIBRATION)[name]
    found = calibrate(
        measure(MEASUREMENTS, soc=chip), chip, exclude=how.get("exclude", ()), keys=how.get("free", ())
    ).fit
    assert found.numbers
    for one in found.numbers:
        if not one.one_sided:
            assert abs(one.after - one.before) <= 2 * one.standard_error * one.after, one
    assert found.rms_after <= found.rms_before


def test_scipy_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    chip = socs.load(CHIP)
    with pytest.raises(AtlasError, match=r"needs scipy: pip install 'atlas-emulator\[calibrate\]'"):
        fit(Observations([], "simpy"), chip, free_of(chip))

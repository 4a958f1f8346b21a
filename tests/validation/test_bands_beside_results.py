"""The band beside a result: from which rows it comes, and that it comes from them."""

from __future__ import annotations

import json
import runpy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from measured_files import write

import emulator
import socs
from emulator.accuracy import Accuracy
from emulator.validation.bands import bands, bands_text
from emulator.validation.calibrate import fitted_ids
from emulator.validation.compare import Comparison, compare, measure
from emulator.validation.shipped import CALIBRATION, MEASUREMENTS
from emulator.validation.summaries import summaries

ROOT = Path(__file__).parents[2]
BANDS = Path(socs.__file__).parent / "data" / "validation.json"
CHIP = "Ascend910B4-1"


@cache
def shipped() -> Comparison:
    return compare(measure(MEASUREMENTS))


def accuracy(l2: str = "hot", **options: object) -> Accuracy:
    chosen: dict[str, object] = {"soc": CHIP, "shape": (1024, 1024), "dtype": "float32"} | options
    return emulator.predict("mse_loss_backward", l2=l2, **chosen).accuracy  # type: ignore[arg-type]


def test_the_bands_that_come_with_the_chips_are_made_from_the_rows_that_do() -> None:
    """After a change of timing: ``atlas-emu validate --write-bands socs/data/validation.json``."""
    assert BANDS.read_text(encoding="utf-8") == bands_text(
        bands(shipped(), fitted_ids(shipped(), CALIBRATION))
    )


def test_the_page_and_the_readme_tell_the_errors_of_the_shipped_rows() -> None:
    """After a change of timing: ``python tests/bench/accuracy.py``; the README by hand."""
    tables = runpy.run_path(str(ROOT / "tests/bench/accuracy.py"))
    figures = summaries(shipped())
    page = (ROOT / "docs/accuracy.md").read_text(encoding="utf-8")
    assert tables["with_errors"](page, shipped(), figures) == page
    of, fitted = shipped(), fitted_ids(shipped(), CALIBRATION)
    mine = of.point & of.vendor & np.array([identity in fitted for identity in of.ids])
    errors = np.abs(of.predicted[mine] / of.measured[mine] - 1)
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"On {CHIP} the median error over the {len(errors)} runs of vendor kernels that it was calibrated on "
        f"is {np.median(errors):.1%}, the worst {errors.max():.1%}; of {figures.trace.summary.n} runs inside "
        f"training steps on five chips, {figures.trace.inside_band:.0%} lie in the predicted band"
    ) in readme.replace(" %", "%")


def test_a_band_holds_the_rows_that_it_speaks_of() -> None:
    of = shipped()
    entries = json.loads(BANDS.read_text(encoding="utf-8"))[CHIP]
    (entry,) = (
        one
        for one in entries
        if (one["operator"], one["size"], one["l2"]) == ("mse_loss_backward", "1 to 64 MiB", "hot")
    )
    wanted = {"514", "515", "534", "535"}
    places = [place for place, identity in enumerate(of.ids) if identity in wanted]
    ratio = of.measured[places] / of.predicted[places]
    assert (entry["rows"], len(places)) == (4, 4)
    assert [entry["low"], entry["high"]] == pytest.approx([ratio.min() - 1, ratio.max() - 1], abs=1e-4)
    assert entry["worst_error"] == pytest.approx(np.abs(1 / ratio - 1).max(), abs=1e-4)


@pytest.mark.parametrize(("count", "cut"), [(3, 0), (19, 0), (20, 1), (40, 2)])
def test_the_five_percent_furthest_out_on_each_side_are_outside(tmp_path: Path, count: int, cut: int) -> None:
    path = write(tmp_path / "m.csv", *({"duration_us": str(1 + number / 100)} for number in range(count)))
    of = compare(measure(path))
    (entry,) = (one for one in bands(of)[CHIP] if "any" not in (one["operator"], one["size"]))
    ordered = sorted(of.measured / of.predicted)
    assert [entry["low"], entry["high"]] == pytest.approx([ordered[cut] - 1, ordered[-1 - cut] - 1], abs=1e-4)


def test_a_band_says_how_many_of_its_rows_were_fitted() -> None:
    entries = json.loads(BANDS.read_text(encoding="utf-8"))[CHIP]
    mse = [one for one in entries if one["operator"] == "mse_loss_backward" and one["l2"] == "hot"]
    assert {one["size"]: (one["rows"], one["fitted"]) for one in mse} == {
        "any": (12, 10),
        "below 1 MiB": (4, 2),
        "1 to 64 MiB": (4, 4),
        "64 MiB and more": (4, 4),
    }
    assert "4 of which its numbers were fitted to" in accuracy().text


def test_two_rows_make_no_band(tmp_path: Path) -> None:
    assert bands(compare(measure(write(tmp_path / "m.csv", {}, {})))) == {}


def test_rows_of_unknown_state_speak_of_hot_and_of_dirty_predictions(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", *({"l2_state": "trace", "duration_us": "3"} for _ in range(3)))
    of = compare(measure(path))
    found = {
        (one["l2"], one["l2_known"]): one["low"]
        for one in bands(of)[CHIP]
        if "any" not in (one["operator"], one["size"])
    }
    assert found == {
        ("hot", False): pytest.approx(3 / of.hot[0] - 1, abs=1e-4),
        ("dirty", False): pytest.approx(3 / of.cold[0] - 1, abs=1e-4),
    }


def test_other_kernels_than_the_vendors_make_no_band(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", *({"kernel": "triton"} for _ in range(5)))
    assert bands(compare(measure(path))) == {}


def test_the_band_is_what_silicon_did_where_such_a_time_was_predicted() -> None:
    found = accuracy()
    result = emulator.predict("mse_loss_backward", soc=CHIP, shape=(1024, 1024), dtype="float32", l2="hot")
    row = next(
        one
        for one in socs.load(CHIP).validation
        if (one.operator, one.size, one.l2) == ("mse_loss_backward", "1 to 64 MiB", "hot")
    )
    assert (found.validated, found.same_kind, found.rows) == (True, True, row.rows)
    assert found.low_us == pytest.approx(result.time_us * (1 + row.low))
    assert found.high_us == pytest.approx(result.time_us * (1 + row.high))
    assert (found.median_error, found.worst_error) == (row.median_error, row.worst_error)


def test_the_nearest_kind_speaks_for_one_that_was_not_measured_and_is_named() -> None:
    found = accuracy("cold")
    assert (found.validated, found.same_kind) == (True, False)
    assert "the nearest kind that was measured" in found.text
    assert found.band.endswith("measured rows of the nearest kind")


@pytest.mark.parametrize(
    "options",
    [
        {"soc": "Ascend310P3"},
        {"overrides": {"clock_hz": 1.4e9}},
        {"tiling": {"tile_length": 512}},
        {"kernel": "mse_loss_grad"},
        {"shape": (0,)},
    ],
)
def test_what_was_never_compared_says_so(options: dict[str, object]) -> None:
    found = accuracy(**options)
    assert (found.validated, found.rows, found.low_us, found.high_us) == (False, None, None, None)
    assert "never compared with silicon" in found.text
    assert found.band.startswith("never compared")

"""Predictions against the durations that silicon was recorded with."""

from __future__ import annotations

import ast
import csv
import re
from functools import lru_cache
from pathlib import Path

import pytest
from handmade import at, bare, cut, gm, run, spans

import socs
from emulator.device.device import simulate
from kernel import registry
from kernel.core import Core
from socs.isa import DType, Pipe

ROWS = tuple(
    csv.DictReader((Path(__file__).parents[1] / "data" / "mse_loss_grad_rows.csv").open(encoding="utf-8"))
)
OUTLIER = ("float16", "64x64")
DEVICE = sorted((Path(__file__).parents[2] / "emulator" / "device").glob("*.py"))


@lru_cache(maxsize=16)
def predicted_us(name: str, dtype: str, shape: str, l2: str) -> float:
    soc = socs.load(name)
    dims = tuple(int(dim) for dim in shape.split("x"))
    return simulate(cut(name, DType(dtype), dims), soc, l2=l2)[0].cycles / soc.clock_hz * 1e6


def error(row: dict[str, str]) -> float:
    """Predicted over measured, less one."""
    found = predicted_us(row["soc"], row["dtype"], row["shape"], row["l2_state"])
    return found / float(row["duration_us"]) - 1


def usual() -> list[dict[str, str]]:
    return [row for row in ROWS if (row["dtype"], row["shape"]) != OUTLIER]


def test_the_record_is_twelve_runs_of_six_requests_on_two_cards() -> None:
    assert len(ROWS) == 12
    assert len({(row["dtype"], row["shape"]) for row in ROWS}) == 6
    assert len({row["id"] for row in ROWS}) == 12


@pytest.mark.parametrize("row", usual(), ids=lambda row: f"{row['dtype']}-{row['shape']}-{row['id']}")
def test_a_recorded_duration_is_predicted_within_a_quarter(row: dict[str, str]) -> None:
    assert abs(error(row)) <= 0.25


def test_the_worst_of_the_ten_usual_rows_is_within_a_tenth() -> None:
    """0.059 when this was written, the median 0.040."""
    errors = sorted(abs(error(row)) for row in usual())
    assert len(errors) == 10
    assert errors[-1] <= 0.10
    assert (errors[4] + errors[5]) / 2 <= 0.06


def test_the_two_small_float16_rows_are_a_known_gap() -> None:
    """64 x 64 in float16 took 3.58 us where float32 took 2.20 us: no model of this kernel says why."""
    outliers = [row for row in ROWS if (row["dtype"], row["shape"]) == OUTLIER]
    assert len(outliers) == 2
    for row in outliers:
        assert -0.45 <= error(row) <= -0.25


def test_float16_takes_as_long_as_float32_at_1024_by_1024_as_on_silicon() -> None:
    """9.1 us and 8.9 us were recorded, with half the bytes in float16 (timing.md 8)."""
    half, single = (
        predicted_us("Ascend910B4-1", dtype, "1024x1024", "hot") for dtype in ("float16", "float32")
    )
    assert half / single == pytest.approx(9.093 / 8.870, rel=0.10)


# ---- nothing is fitted per request --------------------------------------------------------------


def test_no_number_of_a_chip_is_for_one_kernel_one_shape_or_one_dtype_of_a_tensor() -> None:
    dtypes = "|".join(DType)
    operators = "|".join(["mse", "loss", *registry.KERNELS])
    for soc in socs.all_socs():
        for key, _ in soc.numbers():
            assert not re.search(rf"{operators}|shape|row|tile|\d+x\d+", key), key
            if re.search(dtypes, key):
                # The dtype of an instruction: any kernel that issues it pays the same.
                assert key.startswith(("vector.costs.", "vector.casts.", "numerics.")), key


@pytest.mark.parametrize("path", DEVICE, ids=lambda path: path.stem)
def test_the_model_of_the_device_knows_no_kernel_no_dtype_and_no_chip(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert "DType" not in names
    text = path.read_text(encoding="utf-8")
    found = re.findall(r"(?i)ascend\d\w*|float16|float32|bfloat16|mse_?loss\w*", text)
    assert found == []


def test_transfers_of_equal_bytes_cost_the_same_in_every_dtype() -> None:
    """So float16 has no number of its own in the memory either."""
    soc = bare("Ascend910B4-1")
    for l2 in ("hot", "cold"):
        found = set()
        for dtype in (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16):
            count = 8192 // dtype.itemsize

            def write(core: Core, dtype: DType = dtype, count: int = count) -> None:
                core.copy_in(at(0, count, dtype), gm(count, dtype=dtype))

            (span,) = spans(run(soc, write, l2=l2)[0], Pipe.MTE2, "copy_in")
            found.add(span.end - span.start)
        assert len(found) == 1

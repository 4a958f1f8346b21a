"""``atlas-emu predict``: the time without data, and its report to the letter."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command_inputs import NAMES, Command, tensors

Golden = Callable[[str, str], None]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("predict_910b3_float32_cold.txt", ["--shape", "32,40"]),
        (
            "predict_910b4_1_float16_hot.txt",
            ["--soc", "Ascend910B4-1", "--shape", "1024,65536", "--dtype", "float16", "--l2", "hot"],
        ),
    ],
)
def test_the_report_of_a_prediction_is_the_golden_one(
    command: Command, golden: Golden, name: str, arguments: list[str]
) -> None:
    golden(name, command("predict", *arguments).out)


def test_a_prediction_is_what_a_run_of_that_shape_takes(command: Command, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **tensors((20, 50), np.float16))
    run = json.loads(command("run", tmp_path / "in.npz", "--json").out)
    predicted = json.loads(command("predict", "--shape", "20,50", "--dtype", "float16", "--json").out)
    assert predicted == run
    assert predicted["shapes"] == {name: [20, 50] for name in (*NAMES, "out")}


@pytest.mark.parametrize("text", ["20,50", "20x50", "(20, 50)", "[20,50]", " 20, 50 ", "(20,50,)"])
def test_a_shape_is_read_as_people_write_it(command: Command, text: str) -> None:
    assert json.loads(command("predict", "--shape", text, "--json").out)["shapes"]["self"] == [20, 50]


@pytest.mark.parametrize("text", ["()", "[]", "( )"])
def test_a_scalar_is_written_as_empty_brackets(command: Command, text: str) -> None:
    document = json.loads(command("predict", "--shape", text, "--json").out)
    assert document["shapes"]["self"] == []
    assert document["tiling"]["total_length"] == 1


def test_tiling_options_reach_the_kernel_and_the_report(command: Command) -> None:
    options = ("--shape", "10000", "--tile-length", "512", "--buffer-num", "2", "--block-dim", "5")
    document = json.loads(command("predict", *options, "--json").out)
    tiling = document["tiling"]
    assert (document["block_dim"], tiling["block_length"], tiling["tile_length"]) == (5, 2000, 512)
    assert (tiling["buffer_num"], tiling["chosen_by"]) == (2, "user")
    text = " ".join(command("predict", *options).out.split())
    assert "block_dim 5: blocks of 2,000 elements; 4 tiles of 512, buffer_num 2, chosen by the user" in text


def test_data_in_l2_already_are_faster_to_read(command: Command) -> None:
    cold, hot = (
        json.loads(command("predict", "--shape", "512,512", "--l2", state, "--json").out)
        for state in ("cold", "hot")
    )
    assert (cold["l2"], hot["l2"]) == ("cold", "hot")
    assert hot["cycles"] < cold["cycles"]


def test_the_accuracy_is_that_of_the_chip(command: Command) -> None:
    options = ("predict", "--shape", "4", "--soc", "Ascend910B4-1")
    measured = json.loads(command(*options, "--json").out)["accuracy"]
    assert measured["validated"] is True
    assert 0 < measured["median_error"] <= measured["worst_error"] < 1
    assert measured["text"] in " ".join(command(*options).out.split())
    # It belongs to the numbers that it was measured with.
    changed = json.loads(command(*options, "--set", "clock_hz=1.4e9", "--json").out)["accuracy"]
    assert changed["validated"] is False


def test_a_users_file_is_a_chip(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text('extends = "Ascend910B3"\nclock_hz = 0.9e9\n')
    document = json.loads(command("predict", "--shape", "4", "--soc", path, "--json").out)
    assert (document["soc"], document["clock_hz"]) == ("slow", 0.9e9)
    assert "clock_hz" in [entry["key"] for entry in document["assumed"]]
    assert (
        "chip      slow: 40 vector cores, 900 MHz\n" in command("predict", "--shape", "4", "--soc", path).out
    )


def test_a_chip_named_like_markup_keeps_its_name(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text('extends = "Ascend910A"\nname = "[/x] [red] :smile:"\n')
    text = command("predict", "--shape", "4", "--soc", path, "--kernel", "mse_loss_grad_v2").out
    assert "chip      [/x] [red] :smile:: 32 vector cores" in text
    assert "which [/x] [red] :smile: runs here" in " ".join(text.split())


HUGE = str(1 << 48)


@pytest.mark.parametrize("columns", ["1", "40", "80", "300", "x"])
@pytest.mark.parametrize("shape", ["1024,65536", HUGE])
def test_no_digit_is_lost_on_a_narrow_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch, columns: str, shape: str
) -> None:
    wide = command("predict", "--shape", shape).out
    monkeypatch.setenv("COLUMNS", columns)
    text = command("predict", "--shape", shape).out
    assert "…" not in text
    assert text.split() == wide.split()
    document = json.loads(command("predict", "--shape", shape, "--json").out)
    most = max(row["done_cycles"] for row in document["pipes"])
    assert f"{most:,}" in text.split()


def test_a_report_ends_its_lines_without_blanks_and_fits_its_terminal(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for columns in (60, 80, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = command("predict", "--shape", "4").out.splitlines()
        assert [line for line in lines if line != line.rstrip()] == []
        words = [line for line in lines if not line.startswith((" ", "0", "cores"))]
        assert max(map(len, words)) <= columns


def test_colours_come_when_asked_for_and_go_for_no_color(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = command("predict", "--shape", "4").out
    assert "\x1b" not in plain
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[33m" in command("predict", "--shape", "4").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in command("predict", "--shape", "4").out

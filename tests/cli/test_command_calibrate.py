"""``atlas-emu calibrate``: what it prints, writes, refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_inputs import Command

import emulator
import socs

pytest.importorskip("scipy")

CHIP = "Ascend910B4-1"
HEADER = "id,soc,op,in_dtypes,out_dtypes,in_shapes,out_shapes,l2_state,duration_us,source\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """What a chip with a longer entry would take."""
    slow = socs.load(CHIP, {"launch.entry_s": 1.2e-6})
    lines = [HEADER]
    for identity, rows in enumerate((64, 200, 1000)):
        us = emulator.predict(
            "mse_loss_backward", soc=slow, shape=(rows, 64), dtype="float32", l2="hot"
        ).time_us
        shape = f"{rows},64"
        lines.append(
            f'{identity},{CHIP},MseLossGrad,float32;float32;float32,float32,"{shape};{shape};{shape}",'
            f'"{shape}",hot,{us!r},somebody\n'
        )
    path = tmp_path / "m.csv"
    path.write_text("".join(lines))
    return path


@pytest.fixture
def arguments(table: Path) -> tuple[object, ...]:
    return ("calibrate", table, "--soc", CHIP, "--free", "launch.entry_s")


def test_the_report_has_the_number_before_and_after(command: Command, arguments: tuple[object, ...]) -> None:
    answer = command(*arguments)
    assert (answer.status, answer.err) == (0, "")
    line = next(line for line in answer.out.splitlines() if line.startswith("launch.entry_s"))
    _, before, _, after, _, *_ = line.split()
    assert float(before) == pytest.approx(socs.load(CHIP).launch.entry_s * 1e6, rel=0.01)
    assert float(after) == pytest.approx(1.2, rel=0.005)
    assert "3 rows of 3 calls (vendor); least squares" in answer.out
    lines = answer.out.splitlines()
    assert {line.split()[0] for line in lines if line.startswith(("before ", "after "))} == {
        "before",
        "after",
    }
    assert max(map(len, lines[1:])) <= 80


def test_the_written_chip_is_loaded_and_predicts_what_was_measured(
    command: Command, arguments: tuple[object, ...], table: Path, tmp_path: Path
) -> None:
    path = tmp_path / "fitted.toml"
    answer = command(*arguments, "-o", path)
    assert answer.out.endswith(f"chip: {path}\n")
    shown = command("soc", path)
    assert (shown.status, shown.err) == (0, "")
    assert "fitted to 3 rows of m.csv (somebody)" in " ".join(shown.out.split())
    found = json.loads(command("validate", table, "--soc", path, "--json").out)
    assert found["overall"]["worst_abs_error"] < 0.001
    assert found["by_soc"].keys() == {CHIP}


def test_the_document_is_all_of_standard_output(
    command: Command, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    answer = command(*arguments, "--exclude", "1", "--json", "-o", tmp_path / "x.toml")
    found = json.loads(answer.out)
    assert list(found) == [
        *("soc", "source", "output", "kernels", "rows", "calls", "parameters", "not_determined"),
        *("rms_before", "rms_after", "before", "after", "excluded"),
    ]
    (parameter,) = found["parameters"]
    assert set(parameter) == {
        *("key", "before", "after", "low", "high", "standard_error", "at_limit", "one_sided")
    }
    assert parameter["after"] == pytest.approx(1.2e-6, rel=0.01)
    assert (found["output"], found["rows"]) == (str(tmp_path / "x.toml"), 2)
    assert [one["id"] for one in found["excluded"]] == ["1"]
    assert found["excluded"][0]["after_us"] == pytest.approx(found["excluded"][0]["measured_us"], rel=0.01)
    assert set(found["before"]) == {"fitted", "held_out", "trace"}
    assert (found["after"]["fitted"]["n"], found["after"]["held_out"]["n"]) == (2, 1)


def test_a_users_chip_is_extended_by_its_path(command: Command, table: Path, tmp_path: Path) -> None:
    base = tmp_path / "base.toml"
    base.write_text(f'extends = "{CHIP}"\nname = "{CHIP}"\nlaunch.task_s = 1e-6\n')
    (tmp_path / "out").mkdir()
    path = tmp_path / "out" / "fitted.toml"
    assert command("calibrate", table, "--soc", base, "--free", "launch.entry_s", "-o", path).status == 0
    assert 'extends = "../base.toml"' in path.read_text()
    assert socs.load(path).launch.task_s == 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--soc", "H100"), "no chip or product"),
        ((), "calibrate needs --soc"),
        (("--soc", "Ascend310P3"), "none of its 3 rows can be predicted: 3 measured on another chip"),
        (("--soc", CHIP, "--exclude", "77"), "no usable row has the id '77'"),
        (("--soc", CHIP, "--free", "clock_hz"), "clock_hz: no number of Ascend910B4-1 that can be fitted"),
        (("--soc", CHIP, "--kernel", "triton"), "there is no row of a triton kernel"),
        (("--soc", CHIP, "-o", "fitted.json"), "unknown suffix '.json'; known are .toml"),
        (("--soc", CHIP, "-o", "none/fitted.toml"), "there is no directory"),
        (("--soc", CHIP, "--engine", "magic"), "engine = 'magic'"),
    ],
)
def test_bad_requests_are_refused(
    command: Command, table: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in command("calibrate", table, *options).refusal


def test_a_fit_that_fails_leaves_the_file_as_it_was(command: Command, table: Path, tmp_path: Path) -> None:
    path = tmp_path / "fitted.toml"
    path.write_text("kept")
    refused = command("calibrate", table, "--soc", CHIP, "--free", "dma.load.hbm.latency_cycles", "-o", path)
    assert "determine none of the numbers" in refused.refusal
    assert path.read_text() == "kept"

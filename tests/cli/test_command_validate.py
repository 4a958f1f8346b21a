"""``atlas-emu validate``: what it reads, prints, refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_inputs import Command

HEADER = "id,soc,kernel,op,in_dtypes,out_dtypes,in_shapes,out_shapes,l2_state,duration_us\n"
GOOD = (
    "{id},Ascend910B4-1,vendor,MseLossGrad,float32;float32;float32,float32,"
    '"64,64;64,64;64,64","64,64",{state},{us}\n'
)


def row(identity: str = "a", state: str = "hot", us: str = "2.2") -> str:
    return GOOD.format(id=identity, state=state, us=us)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "m.csv"
    path.write_text(HEADER + row() + row("b", us="1.0") + row("c", "trace") + row("d", us="0"))
    return path


def test_the_report_has_the_figures_the_band_and_what_was_left_out(command: Command, table: Path) -> None:
    answer = command("validate", table)
    assert (answer.status, answer.err) == (0, "")
    assert "\n4 rows, 3 predicted, 1 not\n" in answer.out
    assert answer.out.replace("\n", "").startswith(str(table))
    assert "vendor kernels, state of L2 known (hot or cold)" in answer.out
    assert "geometric mean of the hot and the dirty prediction" in " ".join(answer.out.split())
    assert "1  duration is zero or negative (d)" in answer.out
    # The worst row stands first among the largest errors.
    worst = answer.out.partition("largest errors")[2].splitlines()
    assert next(line for line in worst if "MseLossGrad" in line).startswith("b ")


def test_the_document_is_all_of_standard_output(command: Command, table: Path) -> None:
    answer = command("validate", table, "--json")
    found = json.loads(answer.out)
    assert answer.err == ""
    assert [one["id"] for one in found["rows"]] == ["a", "b", "c"]
    assert (found["overall"]["n"], found["trace"]["n"], found["skipped"]["total"]) == (2, 1, 1)


def test_the_lines_of_the_report_fit_on_80_columns(command: Command, table: Path) -> None:
    assert max(map(len, command("validate", table).out.splitlines())) <= 80


def test_a_row_can_be_left_out(command: Command, table: Path) -> None:
    found = json.loads(command("validate", table, "--exclude", "b", "--json").out)
    assert [one["id"] for one in found["rows"]] == ["a", "c"]
    assert {"excluded", "duration is zero or negative"} == {
        why["reason"] for why in found["skipped"]["reasons"]
    }


def test_an_unknown_state_can_be_said(command: Command, table: Path) -> None:
    found = json.loads(command("validate", table, "--l2", "cold", "--json").out)
    assert [one["l2_state"] for one in found["rows"]] == ["hot", "hot", "cold"]
    assert found["trace"]["n"] == 0


def test_a_number_of_the_chip_can_be_replaced(command: Command, table: Path) -> None:
    def predicted(*options: str) -> float:
        found = json.loads(command("validate", table, "--soc", "Ascend910B4-1", *options, "--json").out)
        return float(found["rows"][0]["predicted_us"])

    assert predicted("--set", "launch.task_s=10e-6") == pytest.approx(predicted() - 0.521 + 10, abs=0.01)


def test_a_profile_needs_a_chip(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "op_summary.csv"
    path.write_text(
        "Op Name,OP Type,Task Type,Task Duration(us),Input Shapes,Input Data Types,Output Data Types\n"
        'a,Mul,AI_VECTOR_CORE,5.0,"""512,64;512,64""",FLOAT16;FLOAT16,FLOAT16\n'
    )
    refused = command("validate", path)
    assert (refused.status, refused.out) == (2, "")
    assert "names no chip: give it with --soc" in refused.err
    # Where every state is unknown, those rows are the ones whose errors are shown.
    shown = command("validate", path, "--soc", "Ascend910B4-1").out.partition("largest errors")[2]
    assert "Mul float16 512,64" in " ".join(shown.split())
    found = json.loads(command("validate", path, "--soc", "Ascend910B4-1", "--json").out)
    assert (found["trace"]["n"], found["rows"][0]["op"], found["rows"][0]["id"]) == (1, "Mul", "line 2")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("soc,op,duration_us\n", "no columns in_dtypes, in_shapes"),
        ("", "is empty"),
        (HEADER, "has column names and no rows"),
        (HEADER + row(us="nan"), "none of its 1 rows can be predicted: 1 duration is not a number"),
        (HEADER + row().replace("Ascend910B4-1", "H100"), "1 unknown SoC 'H100'"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_file_of_which_nothing_can_be_used_is_refused(
    command: Command, tmp_path: Path, content: str, message: str, options: tuple[str, ...]
) -> None:
    path = tmp_path / "m.csv"
    path.write_text(content)
    answer = command("validate", path, *options)
    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--l2", "warm"), "must be hot, cold or band"),
        (("--engine", "magic"), "engine = 'magic'"),
        (("--soc", "H100"), "no chip or product"),
        (("--set", "clock_hz=1e9"), "name it with --soc"),
        (("--exclude", "zz"), "no row has the id 'zz'"),
        (("--report", "x.docx"), "unknown suffix"),
    ],
)
def test_bad_options_are_refused(
    command: Command, table: Path, options: tuple[str, ...], message: str
) -> None:
    answer = command("validate", table, *options)
    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err


def test_a_report_is_saved_and_never_over_the_input(command: Command, table: Path, tmp_path: Path) -> None:
    saved = tmp_path / "r.txt"
    assert command("validate", table, "--report", saved).status == 0
    assert "largest errors" in saved.read_text()
    as_text = tmp_path / "in.txt"
    as_text.write_text(table.read_text())
    assert "is an input" in command("validate", as_text, "--report", as_text).err


def test_names_from_a_file_are_text_and_not_markup(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(HEADER + row() + row().replace("MseLossGrad", "[bold]x[/bold]"))
    assert "unknown operator '[bold]x[/bold]'" in " ".join(command("validate", path).out.split())

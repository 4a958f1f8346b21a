"""``atlas-emu socs`` and ``atlas-emu soc``: the catalogue and one chip of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_inputs import Command

import socs


def test_every_chip_has_a_row_in_the_text_and_an_entry_in_the_json(command: Command) -> None:
    text = command("socs").out
    first = [line.split()[0] for line in text.splitlines() if line.strip()]
    document = json.loads(command("socs", "--json").out)
    assert [entry["name"] for entry in document["socs"]] == list(socs.names())
    assert [name for name in socs.names() if name not in first] == []


def test_the_catalogue_keeps_its_numbers_on_40_columns(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = command("socs").out
    assert "…" not in text
    row = next(line for line in text.splitlines() if line.startswith("Ascend910B3 "))
    memory = f"{socs.load('Ascend910B3').memory.hbm_bytes_per_s / 1e9:g}"
    assert row.split()[-7:] == ["40", "1800", "192", "casts", memory, "192", "inf_nan"]


@pytest.mark.parametrize("name", ["Ascend910B3", "ascend910b3", " ASCEND910B3 "])
def test_a_chip_is_found_by_its_name_in_any_case(command: Command, name: str) -> None:
    assert command("soc", name).out.startswith("Ascend910B3  Atlas A2 series")


def test_a_product_that_has_one_chip_means_that_chip(command: Command) -> None:
    answer = command("soc", "Atlas 300I Pro", "--json")
    assert json.loads(answer.out)["name"] == "Ascend310P3"
    assert command("soc", "300i  pro", "--json").out == answer.out


def test_a_product_that_has_several_chips_is_refused_with_their_names(command: Command) -> None:
    refusal = command("soc", "Atlas 800T A2").refusal
    assert refusal.startswith("'Atlas 800T A2' comes with several chips, name one: ")
    assert "Ascend910B3" in refusal


def test_a_set_number_shows_in_the_chip_with_its_source(command: Command) -> None:
    document = json.loads(command("soc", "Ascend910B3", "--set", "vector_cores = 7", "--json").out)
    number = document["numbers"]["vector_cores"]
    assert (number["value"], number["tier"], number["ref"]) == (7, "assumed", "override")


def test_files_may_extend_files(command: Command, tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text('extends = "Ascend910B3"\nvector_cores = 20\n')
    (tmp_path / "top.toml").write_text('extends = "base.toml"\nclock_hz = 1.0e9\n')
    numbers = json.loads(command("soc", tmp_path / "top.toml", "--json").out)["numbers"]
    assert (numbers["vector_cores"]["value"], numbers["clock_hz"]["value"]) == (20, 1.0e9)
    assert numbers["ub.bytes"]["value"] == 196608


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('extends = "Ascend910B3"\nclock_hz = -1.0\n', ["mine.toml", "clock_hz = -1.0", "greater than 0"]),
        ('extends = "Ascend910B3"\nclok_hz = 1.0\n', ["mine.toml", "clok_hz", "nearest: clock_hz"]),
        ('extends = "mine.toml"\n', ["mine.toml", "extends itself", "mine.toml -> mine.toml"]),
        ('extends = "other.toml"\n', ["mine.toml", "extends itself", "mine.toml -> other.toml -> mine.toml"]),
        ('extends = "Ascend910C"\n', ["mine.toml", "no chip or product 'Ascend910C'", "nearest"]),
        ("clock_hz = \n", ["mine.toml", "is not TOML"]),
        ("name = 1\n", ["mine.toml"]),
        ("", ["mine.toml", "must be given"]),
    ],
)
@pytest.mark.parametrize("use", [("soc",), ("predict", "--shape", "4", "--soc")])
def test_a_bad_file_is_refused_in_one_line_with_its_name(
    command: Command, tmp_path: Path, text: str, parts: list[str], use: tuple[str, ...]
) -> None:
    (tmp_path / "other.toml").write_text('extends = "mine.toml"\n')
    path = tmp_path / "mine.toml"
    path.write_text(text)
    refusal = command(*use, path).refusal
    assert [part for part in parts if part not in refusal] == []

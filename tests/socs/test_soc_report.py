"""The reports show every number of a chip with unit, tier and source, also on a narrow terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console, RenderableType

import socs
from emulator.report.soc import catalogue_json, catalogue_table, human, soc_json, soc_table


def rendered(what: RenderableType, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(what)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def row(text: str, name: str) -> list[str]:
    return next(line.split() for line in text.splitlines() if line.split()[:1] == [name])


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("clock_hz", 1.8e9, "1.8 GHz"),
        ("clock_hz", 9e8, "900 MHz"),
        ("ub.bytes", 196608, "192 KiB"),
        ("ub.reserved_bytes", 0, "0 B"),
        ("memory.bytes", 64 * 2**30, "64 GiB"),
        ("memory.bytes", 24_000_000_000, "22.35 GiB"),
        ("memory.hbm_bytes_per_s", 1.75e12, "1.75 TB/s"),
        ("memory.hbm_bytes_per_s", 2.048e11, "204.8 GB/s"),
        ("dma.load.hbm.port_bytes_per_cycle", 91.5, "91.5 B/cycle"),
        ("dma.load.hbm.latency_cycles", 241, "241 cycles"),
        ("scalar.set_value_cycles_per_element", 34, "34 cycles/element"),
        ("launch.task_s", 0.9e-6, "0.9 us"),
        ("dma.byte_granular", False, "no"),
        ("ub.banks.count", 48, "48"),
        ("numerics.overflow_modes", ("inf_nan", "saturation"), "inf_nan, saturation"),
    ],
)
def test_a_number_is_written_with_its_unit(key: str, value: object, text: str) -> None:
    assert human(key, value) == text


def test_the_catalogue_has_a_row_per_chip_that_fits_on_80_columns() -> None:
    text = rendered(catalogue_table(socs.all_socs()))
    for soc in socs.all_socs():
        assert row(text, soc.name)[-1] == soc.numerics.default_overflow_mode
    assert "…" not in text


def test_a_row_of_the_catalogue_gives_cores_mhz_kib_gb_per_s_and_mib() -> None:
    soc = socs.load("Ascend910B3", {"memory.hbm_bytes_per_s": 1.75e12})
    found = row(rendered(catalogue_table([soc])), "Ascend910B3")
    assert found[-7:] == ["40", "1800", "192", "casts", "1750", "192", "inf_nan"]


@pytest.mark.parametrize(
    ("name", "word"), [("Ascend310P3", "no"), ("Ascend910B4", "casts"), ("Ascend950PR_9589", "yes")]
)
def test_the_catalogue_tells_who_takes_bfloat16(name: str, word: str) -> None:
    assert row(rendered(catalogue_table([socs.load(name)])), name)[-4] == word


def test_the_json_of_the_catalogue_agrees_with_the_chips() -> None:
    entries = json.loads(json.dumps(catalogue_json(socs.all_socs())))["socs"]
    assert [entry["name"] for entry in entries] == list(socs.names())
    entry = next(entry for entry in entries if entry["name"] == "Ascend310P3")
    assert entry["bfloat16"] == {"arithmetic": False, "casts": False}
    assert entry["vector_cores"] == 8
    assert "Atlas 300I Pro" in entry["products"]


@pytest.mark.parametrize("name", ["Ascend910B4-1", "Ascend310P3", "Ascend950PR_9589"])
def test_a_chip_shows_every_number_with_tier_and_source_on_80_columns(name: str) -> None:
    soc = socs.load(name)
    text = rendered(soc_table(soc))
    assert "…" not in text
    table = text[text.index("\nkey ") : text.index("\nsources")].splitlines()
    first = {}
    for line, below in zip(table, [*table[1:], ""], strict=True):
        # A long key continues on the next line with its last part.
        rest = below.split()[0] if below.startswith("  .") else ""
        if line.strip():
            first[line.split()[0] + rest] = line
    for key, _ in soc.numbers():
        line = first[key]
        assert line.split()[-2] == soc.source(key).tier
        number = line.split()[-1]
        legend = next(line for line in text.splitlines() if line.strip().startswith(f"{number} "))
        assert f" {soc.source_key(key)}: {soc.source(key).tier}" in legend


def test_a_chip_stays_whole_on_50_columns() -> None:
    text = rendered(soc_table(socs.load("Ascend910B3")), width=50)
    assert "…" not in text
    assert row(text, "clock_hz")[1:4] == ["1.8", "GHz", "documented"]


def test_a_chip_shows_the_figures_of_other_sources() -> None:
    text = rendered(soc_table(socs.load("Ascend910B4-1")), width=200)
    assert "but 1.65 GHz: Ascend/msopprof@d6c29dfa data_visualize_const.h" in text
    assert "but 800 GB/s:" in text


def test_a_chip_shows_which_dtypes_arithmetic_and_casts_take() -> None:
    assert row(rendered(soc_table(socs.load("Ascend310P3"))), "bfloat16") == ["bfloat16", "no", "-"]
    found = row(rendered(soc_table(socs.load("Ascend910B3"))), "bfloat16")
    assert found == ["bfloat16", "no", "float32,", "int32"]
    assert row(rendered(soc_table(socs.load("Ascend950PR_9589"))), "bfloat16")[1] == "yes"


def test_an_override_is_visible_in_the_report() -> None:
    text = rendered(soc_table(socs.load("Ascend910B3", {"clock_hz": 1e9})))
    assert row(text, "clock_hz")[1:4] == ["1", "GHz", "assumed"]
    assert "clock_hz: assumed, override" in text


def test_square_brackets_in_a_source_are_shown_and_not_read_as_markup() -> None:
    soc = socs.load("Ascend910B3").model_dump()
    soc["sources"]["clock_hz"] = {"tier": "measured", "ref": "[bold]bench[/bold] [3]"}
    assert "clock_hz: measured, [bold]bench[/bold] [3]" in rendered(soc_table(socs.Soc.model_validate(soc)))


def test_the_accuracy_of_a_chip_is_shown_or_its_absence() -> None:
    soc = socs.load("Ascend910B3")
    data = soc.model_dump()
    kind = {"operator": "mul", "size": "1 to 64 MiB", "l2": "hot", "l2_known": True}
    figures = {"rows": 9, "low": -0.1, "high": 0.2, "median_error": 0.051, "worst_error": 0.2}
    data["validation"] = [{**kind, **figures, "ref": "bench"}]
    text = rendered(soc_table(socs.Soc.model_validate(data)))
    assert "mul, 1 to 64 MiB, L2 hot: median error 5.1%, worst 20.0% over 9 measurements" in text
    data["validation"] = []
    assert "never compared with silicon" in rendered(soc_table(socs.Soc.model_validate(data)))


@pytest.mark.parametrize("name", ["Ascend910B4-1", "Ascend310P3", "Ascend950DT_950x"])
def test_the_json_of_a_chip_holds_every_number_with_its_source(name: str) -> None:
    soc = socs.load(name)
    found = json.loads(json.dumps(soc_json(soc)))["numbers"]
    assert found.keys() == dict(soc.numbers()).keys()
    for key, value in soc.numbers():
        assert found[key]["value"] == (list(value) if isinstance(value, tuple) else value)
        assert found[key]["tier"] == soc.source(key).tier
        assert found[key]["ref"] == soc.source(key).ref

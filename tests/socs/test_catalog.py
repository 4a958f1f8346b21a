"""The catalogue says of each chip what the vendor's documents say, with a source for every number."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from pydantic import ValidationError

import socs
from socs.catalog import _DATA
from socs.isa import DType, RoundMode
from socs.spec import Soc

FACTS = tomllib.loads((Path(__file__).parent / "soc_facts.toml").read_text(encoding="utf-8"))
EVERY = pytest.mark.parametrize("name", sorted(FACTS))
FILES = sorted(_DATA.glob("*.toml"))


def bfloat16(soc: Soc) -> str:
    if DType.BFLOAT16 in soc.vector.arithmetic_dtypes:
        return "arithmetic"
    return "casts" if "float32_to_bfloat16" in soc.vector.casts else "no"


def test_the_catalogue_holds_exactly_the_chips_of_the_facts() -> None:
    assert sorted(socs.names()) == sorted(FACTS)
    assert len(socs.names()) == 58


@EVERY
def test_a_chip_agrees_with_the_vendor_documents(name: str) -> None:
    soc = socs.load(name)
    arch, cores, mhz, ub, l2, bf16, overflow = FACTS[name]
    assert soc.name == name
    assert soc.npu_arch == arch
    assert soc.vector_cores == cores
    assert soc.clock_hz == mhz * 1_000_000
    assert soc.ub.bytes == ub
    assert soc.memory.l2.bytes == l2 * 2**20
    assert bfloat16(soc) == bf16
    assert soc.numerics.default_overflow_mode == overflow


@EVERY
def test_every_number_has_a_source_that_says_why(name: str) -> None:
    soc = socs.load(name)
    for key, _ in soc.numbers():
        source = soc.source(key)
        assert source.ref
        if source.tier == "assumed":
            assert source.note, f"{key} is assumed without saying what that rests on"


@EVERY
def test_no_source_speaks_of_a_number_that_does_not_exist(name: str) -> None:
    soc = socs.load(name)
    keys = {key for key, _ in soc.numbers()} | {"memory.bytes"}
    stale = [s for s in soc.sources if not any(key == s or key.startswith(f"{s}.") for key in keys)]
    assert stale == []


def test_a_number_without_a_source_is_refused() -> None:
    data = socs.load("Ascend910B3").model_dump()
    del data["sources"]["clock_hz"]
    with pytest.raises(ValidationError, match="no source for clock_hz"):
        Soc.model_validate(data)


def test_the_longest_matching_source_wins() -> None:
    soc = socs.load("Ascend910B3")
    assert soc.source_key("vector.costs.sub.float32.head_cycles") == "vector.costs.sub.float32"
    assert soc.source_key("vector.costs.sub.int16.head_cycles") == "vector.costs"
    assert soc.source("vector.costs.sub.float32.head_cycles").tier == "measured"


def test_only_the_a2_generation_keeps_256_bytes_of_ub_free() -> None:
    for soc in socs.all_socs():
        assert soc.ub.reserved_bytes == (256 if soc.short_name == "Ascend910B" else 0), soc.name


def test_banks_fill_the_buffer_and_groups_divide_them() -> None:
    for soc in socs.all_socs():
        banks = soc.ub.banks
        assert banks.count % banks.groups == 0
        # On arch 3510 and 3002 the last 8 KiB are not for kernels.
        assert 0 <= banks.count * banks.bank_bytes - soc.ub.bytes <= 8192, soc.name


@EVERY
def test_costs_exist_only_for_what_the_chip_takes(name: str) -> None:
    vector = socs.load(name).vector
    for op, costs in vector.costs.items():
        taken = set(vector.casts) if op == "cast" else set(vector.arithmetic_dtypes)
        if op == "broadcast":  # which moves bits: also of dtypes that can only be cast
            taken = {dtype for pair in vector.casts for dtype in pair.split("_to_")}
        assert set(costs) <= taken, op
    two, others = (
        {"add", "sub", "mul", "div", "max", "min"},
        {"muls", "relu", "duplicate", "cast", "broadcast"},
    )
    assert two | others == set(vector.costs)
    assert all({"float32", "float16"} <= set(vector.costs[op]) for op in (two | others) - {"cast"})
    # One for each dtype that a tensor of the operator may have.
    bfloat16 = {"bfloat16"} & {pair.removeprefix("float32_to_") for pair in vector.casts}
    assert set(vector.costs["broadcast"]) == {"float32", "float16"} | bfloat16


def test_chips_without_bfloat16_have_no_bfloat16_anywhere() -> None:
    for name in ("Ascend310P3", "Ascend910A"):
        vector = socs.load(name).vector
        assert "bfloat16" not in str([*vector.casts, *vector.arithmetic_dtypes, *vector.costs["cast"]])


def test_widening_casts_take_none_and_narrowing_ones_what_the_chip_documents() -> None:
    for soc in socs.all_socs():
        assert soc.vector.casts["float16_to_float32"] == (RoundMode.NONE,)
    odd_or_none = {RoundMode.ODD, RoundMode.NONE}
    assert set(socs.load("Ascend310P3").vector.casts["float32_to_float16"]) == odd_or_none
    assert set(socs.load("Ascend910A").vector.casts["float32_to_float16"]) == odd_or_none
    assert set(socs.load("Ascend910B3").vector.casts["float32_to_float16"]) == set(RoundMode)
    to_bfloat16 = set(RoundMode) - odd_or_none
    assert set(socs.load("Ascend910B3").vector.casts["float32_to_bfloat16"]) == to_bfloat16


def test_the_contested_clock_of_the_910b4_keeps_both_figures() -> None:
    for name in ("Ascend910B4", "Ascend910B4-1"):
        soc = socs.load(name)
        assert soc.clock_hz == 1.5e9
        assert [other.value for other in soc.source("clock_hz").alternatives] == [1.65e9]


@EVERY
def test_memory_rates_keep_the_figures_of_other_sources(name: str) -> None:
    soc = socs.load(name)
    for key in ("memory.hbm_bytes_per_s", "memory.l2.bytes_per_s"):
        value = dict(soc.numbers())[key]
        for other in soc.source(key).alternatives:
            assert isinstance(other.value, (int, float))
            # A slip of three decimal places shows here; real conflicts stay within a factor of 16.
            assert value / 16 < other.value < value * 16, key


def test_memory_whose_size_nobody_states_is_none_and_needs_no_source() -> None:
    unknown = {soc.name for soc in socs.all_socs() if soc.memory.bytes is None}
    assert unknown == {"Ascend910B2C", "Ascend310B2", "Ascend310B3", "Ascend310B4"}


def test_no_chip_of_the_catalogue_claims_to_be_measured_more_than_the_a2_series() -> None:
    # Instruction timing was published for the A2 alone; elsewhere it must not pass as measured.
    for soc in socs.all_socs():
        if soc.npu_arch != 2201:
            tiers = {soc.source(key).tier for key, _ in soc.numbers() if key.startswith("vector.costs")}
            assert tiers <= {"derived", "assumed"}, soc.name


# ---- finding a chip -----------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["Ascend910B4-1", "ascend910b4-1", "ASCEND910B4-1", " Ascend910B4-1 "])
def test_names_are_found_in_any_case(asked: str) -> None:
    assert socs.load(asked).name == "Ascend910B4-1"


def test_ascend910b_is_the_first_generation_chip() -> None:
    soc = socs.load("Ascend910B")
    assert (soc.vector_cores, soc.npu_arch, soc.short_name) == (30, 1001, "Ascend910")


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("Atlas 300I Pro", "Ascend310P3"),
        ("atlas 300i duo", "Ascend310P3"),
        ("300I  PRO", "Ascend310P3"),
        ("Atlas 300T A2", "Ascend910B4"),
    ],
)
def test_a_product_with_one_chip_is_found(asked: str, name: str) -> None:
    assert socs.load(asked).name == name


def test_an_ambiguous_product_lists_its_chips() -> None:
    with pytest.raises(socs.AtlasError) as error:
        socs.load("Atlas 300V Pro")
    assert str(error.value) == (
        "'Atlas 300V Pro' comes with several chips, name one: Ascend310P1, Ascend310P3"
    )


def test_a_short_name_lists_its_chips() -> None:
    with pytest.raises(socs.AtlasError, match=r"Ascend310P1, Ascend310P3$"):
        socs.load("Ascend310P")


def test_an_unknown_chip_names_the_nearest() -> None:
    with pytest.raises(socs.AtlasError, match=r"no chip or product 'Ascend910B5'; nearest: .*Ascend910B3"):
        socs.load("Ascend910B5")
    with pytest.raises(socs.AtlasError, match=r"nearest: .*Atlas 300I Pro"):
        socs.load("Atlas 300I Prow")


def test_what_is_no_name_at_all_is_refused() -> None:
    with pytest.raises(socs.AtlasError, match="910 is not a chip"):
        socs.load(910)  # type: ignore[arg-type]


# ---- the files ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_quick_index_finds_what_a_parser_finds(path: Path) -> None:
    chips = tomllib.loads(path.read_text(encoding="utf-8"))["chips"]
    assert [n for n in socs.names() if socs.load(n).origin == f"socs/data/{path.name}"] == list(chips)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_hold_no_quoted_or_boolean_numbers(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'^\S+(_bytes|_cycles|_hz|_s|count|groups) = ("|true|false)', text, re.MULTILINE)


def test_loading_a_chip_parses_its_own_file_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from socs import catalog

    catalog._generation.cache_clear()
    catalog._chip.cache_clear()
    parsed = []
    loads = tomllib.loads

    def counting(text: str) -> dict[str, object]:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", counting)
    socs.load("Ascend910B3")
    socs.load("Ascend910B1")
    assert len(parsed) == 1


def test_importing_the_catalogue_imports_neither_numba_nor_numpy() -> None:
    code = "import socs, sys; socs.load('Ascend910B3'); print({'numpy', 'numba'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"


def test_a_loaded_chip_cannot_be_changed() -> None:
    soc = socs.load("Ascend910B3")
    with pytest.raises(ValidationError):
        soc.clock_hz = 1.0

"""Users describe a chip of their own as a file that extends a known one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import socs
from socs.spec import Soc

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def inner(text: str | bytes, name: str = "mine.toml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return inner


def refusal(path: Path) -> str:
    with pytest.raises(socs.AtlasError) as error:
        socs.load(path)
    text = str(error.value)
    assert "\n" not in text
    return text.replace(f"{path.parent}/", "")


def changed(soc: Soc, base: str) -> set[str]:
    before, after = dict(socs.load(base).numbers()), dict(soc.numbers())
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}


def test_a_file_changes_what_it_sets_and_inherits_the_rest(write: Write) -> None:
    path = write('extends = "Ascend910B3"\nclock_hz = 2e9\nmemory.l2.bytes = 1_000_000\n')
    soc = socs.load(path)
    assert changed(soc, "Ascend910B3") == {"clock_hz", "memory.l2.bytes"}
    assert (soc.name, soc.short_name, soc.origin) == ("mine", "Ascend910B", str(path))


def test_a_file_is_found_as_text_as_well_as_as_a_path(write: Write) -> None:
    path = write('extends = "Ascend910B3"\nname = "Mine"\n')
    assert socs.load(str(path)) == socs.load(path)
    assert socs.load(str(path)).name == "Mine"


def test_the_ending_toml_counts_in_any_case(write: Write) -> None:
    assert socs.load(str(write('extends = "Ascend910B3"\n', "MINE.TOML"))).name == "MINE"


def test_a_file_can_extend_a_product(write: Write) -> None:
    assert socs.load(write('extends = "Atlas 300I Pro"\n')).vector_cores == 8


def test_numbers_without_a_source_are_assumed_with_the_file_as_reference(write: Write) -> None:
    soc = socs.load(write('extends = "Ascend910B3"\ndma.load.hbm.port_bytes_per_cycle = 64\n'))
    mine, neighbour = (soc.source(f"dma.load.hbm.{k}") for k in ("port_bytes_per_cycle", "latency_cycles"))
    assert (mine.tier, mine.ref, mine.note) == ("assumed", "mine.toml", "")
    assert neighbour == socs.load("Ascend910B3").source("dma.load.hbm.latency_cycles")


def test_a_source_given_for_a_group_reaches_exactly_the_numbers_that_the_file_sets(write: Write) -> None:
    soc = socs.load(
        write(
            'extends = "Ascend910B3"\ndma.load.hbm.port_bytes_per_cycle = 64\n'
            '[sources.dma]\ntier = "measured"\nref = "my bench"\n'
        )
    )
    assert soc.source("dma.load.hbm.port_bytes_per_cycle").ref == "my bench"
    base = socs.load("Ascend910B3")
    for key in ("dma.load.hbm.latency_cycles", "dma.queue_depth"):
        assert soc.source(key) == base.source(key)


def test_a_source_may_comment_on_an_inherited_number(write: Write) -> None:
    soc = socs.load(
        write('extends = "Ascend910B3"\n[sources.clock_hz]\ntier = "measured"\nref = "my bench"\n')
    )
    assert soc.source("clock_hz").ref == "my bench"
    assert changed(soc, "Ascend910B3") == set()


def test_files_extend_files_beside_them(write: Write) -> None:
    write('extends = "Ascend910B4"\nclock_hz = 1.65e9\nvector_cores = 30\n', "base/first.toml")
    soc = socs.load(write('extends = "base/first.toml"\nvector_cores = 20\n'))
    assert changed(soc, "Ascend910B4") == {"clock_hz", "vector_cores"}
    assert (soc.vector_cores, soc.clock_hz) == (20, 1.65e9)
    assert (soc.source("clock_hz").ref, soc.source("vector_cores").ref) == ("first.toml", "mine.toml")


def test_overrides_apply_to_a_file(write: Write) -> None:
    soc = socs.load(write('extends = "Ascend910B3"\nclock_hz = 2e9\n'), {"clock_hz": "1e9"})
    assert (soc.clock_hz, soc.source("clock_hz").ref) == (1e9, "override")


def test_a_changed_file_is_read_again(write: Write) -> None:
    assert socs.load(write('extends = "Ascend910B3"\nclock_hz = 2e9\n')).clock_hz == 2e9
    assert socs.load(write('extends = "Ascend910B3"\nclock_hz = 1e9\n')).clock_hz == 1e9


def test_measured_accuracy_is_not_inherited_by_other_numbers(write: Write) -> None:
    row = (
        '[[validation]]\noperator = "add"\nsize = "any"\nl2 = "hot"\nl2_known = true\nrows = 3\n'
        'low = -0.1\nhigh = 0.2\nmedian_error = 0.05\nworst_error = 0.1\nref = "bench"\n'
    )
    write(f'extends = "Ascend910B3"\n{row}', "base.toml")
    assert socs.load(write('extends = "base.toml"\nname = "same"\n')).validation[0].rows == 3
    assert socs.load(write('extends = "base.toml"\nclock_hz = 1e9\n')).validation == ()


def test_a_cost_for_a_further_dtype_can_be_added(write: Write) -> None:
    soc = socs.load(
        write(
            'extends = "Ascend910B3"\n'
            "[vector.costs.sub]\nbfloat16 = { head_cycles = 22, interval_cycles = 1.0 }\n"
        )
    )
    assert soc.vector.costs["sub"]["bfloat16"].head_cycles == 22
    assert soc.source("vector.costs.sub.bfloat16.head_cycles").tier == "assumed"


B3 = 'extends = "Ascend910B3"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (B3 + "clock_hz = -1\n", "mine.toml: clock_hz = -1: must be greater than 0"),
        (B3 + "clock_hz = 0.0\n", "mine.toml: clock_hz = 0.0: must be greater than 0"),
        (B3 + "clock_hz = inf\n", "mine.toml: clock_hz = inf: must be a finite number"),
        (B3 + 'clock_hz = "1e9"\n', "mine.toml: clock_hz = '1e9': must be a number"),
        (B3 + "vector_cores = true\n", "mine.toml: vector_cores = True: must be a number"),
        (B3 + "vector_cores = 1.5\n", "mine.toml: vector_cores = 1.5: must be a whole number"),
        (B3 + "memory = 5\n", "mine.toml: memory = 5: must be a table"),
        (B3 + "clok_hz = 1\n", "mine.toml: clok_hz: no such key; nearest: clock_hz"),
        (
            B3 + "[ub]\nbites = 1\n",
            "mine.toml: ub.bites: no such key; nearest: ub.bytes, ub.banks, ub.reserved_bytes",
        ),
        (B3 + 'products = "x"\n', "mine.toml: products = 'x': must be a list"),
        (B3 + "sources = 3\n", "mine.toml: sources = 3: must be a table"),
        (
            B3 + "[vector.costs.cats]\nfloat32 = { head_cycles = 1, interval_cycles = 1 }\n",
            "mine.toml: vector.costs.cats.float32: no such key; nearest: vector.costs.sub.float32, "
            "vector.costs.max.float32, vector.costs.add.float32",
        ),
        (
            B3 + "vector.costs.sub.bfloat16.head_cycles = 1\n",
            "mine.toml: vector.costs.sub.bfloat16.interval_cycles: must be given",
        ),
        (
            B3 + "ub.banks.decode = 'low'\n",
            "mine.toml: ub.banks.decode = 'low': must be 'group_low', 'group_bank_depth' or 'unknown'",
        ),
        (
            B3 + "[sources.clok_hz]\ntier = 'measured'\nref = 'x'\n",
            "mine.toml: sources.clok_hz: no number has this key; nearest: clock_hz",
        ),
        (
            B3 + "clock_hz = 1\n[sources.clock_hz]\ntier = 'guessed'\nref = 'x'\n",
            "mine.toml: sources.clock_hz.tier = 'guessed': must be "
            "'documented', 'measured', 'derived' or 'assumed'",
        ),
        (B3 + "[chips.mine]\n", "mine.toml: chips: a file of your own holds one chip, at its top level"),
        (
            "clock_hz = 1\n",
            "mine.toml: short_name: must be given, here or by what the file extends "
            '(extends = "Ascend910B3") (and 12 more)',
        ),
        (
            "extends = 910\n",
            "mine.toml: extends = 910: must be the name of a chip or the path of a .toml file",
        ),
        (
            'extends = "nope.toml"\n',
            "mine.toml: extends = 'nope.toml': nope.toml: there is no such file",
        ),
        (
            'extends = "Atlas 300V"\n',
            "mine.toml: extends = 'Atlas 300V': 'Atlas 300V' comes with several chips, name one: "
            "Ascend310P1, Ascend310P3",
        ),
        ("a = = 3\n", "mine.toml: is not TOML: Invalid value (at line 1, column 5)"),
        (b"\xff\xfe", "mine.toml: byte 0 is not UTF-8, as TOML must be"),
    ],
)
def test_a_bad_file_is_refused_with_file_key_value_and_rule(
    write: Write, text: str | bytes, message: str
) -> None:
    assert refusal(write(text)) == message


def test_further_mistakes_are_counted(write: Write) -> None:
    assert refusal(write(B3 + "clock_hz = -1\nvector_cores = 0\n")).endswith("greater than 0 (and 1 more)")


def test_an_unknown_base_names_the_nearest(write: Write) -> None:
    text = refusal(write('extends = "Ascend910B5"\n'))
    assert text.startswith("mine.toml: extends = 'Ascend910B5': no chip or product 'Ascend910B5'; nearest: ")


def test_a_key_with_a_line_break_stays_on_one_line(write: Write) -> None:
    assert "'a\\nb': no such key" in refusal(write(B3 + '"a\\nb" = 1\n'))


def test_a_mistake_further_down_is_told_in_the_name_of_its_file(write: Write) -> None:
    write(B3 + "clock_hz = -1\n", "base.toml")
    text = refusal(write('extends = "base.toml"\nclock_hz = 1e9\n'))
    assert text == "mine.toml: extends = 'base.toml': base.toml: clock_hz = -1: must be greater than 0"


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_circle_of_files_is_refused(write: Write, length: int) -> None:
    paths = [write(f'extends = "f{(i + 1) % length}.toml"\n', f"f{i}.toml") for i in range(length)]
    circle = " -> ".join(f"f{i % length}.toml" for i in range(length + 1))
    assert refusal(paths[0]).endswith(f"f0.toml: extends itself through {circle}")


def test_a_file_that_is_not_there_and_a_directory_are_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nope.toml") == "nope.toml: there is no such file"
    (tmp_path / "folder.toml").mkdir()
    assert refusal(tmp_path / "folder.toml") == "folder.toml: is a directory, must be a .toml file"
    assert "cannot be read" in refusal(tmp_path / ("x" * 300 + ".toml"))


def test_a_deeply_nested_file_is_refused(write: Write) -> None:
    assert "nested too deeply" in refusal(write(B3 + "x = " + "[" * 20000 + "]" * 20000))

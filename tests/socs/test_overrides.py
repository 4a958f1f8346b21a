"""Single numbers can be overridden; what is not a number of the model is refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import socs


def test_an_override_changes_one_number_and_its_source() -> None:
    plain = socs.load("Ascend910B3")
    soc = socs.load("Ascend910B3", {"memory.hbm_bytes_per_s": 1.2e12})
    before, after = dict(plain.numbers()), dict(soc.numbers())
    assert {key for key in after if after[key] != before[key]} == {"memory.hbm_bytes_per_s"}
    source = soc.source("memory.hbm_bytes_per_s")
    assert (soc.memory.hbm_bytes_per_s, source.tier, source.ref) == (1.2e12, "assumed", "override")
    assert source.alternatives == ()
    assert soc.source("memory.l2.bytes_per_s") == plain.source("memory.l2.bytes_per_s")


def test_an_override_leaves_the_catalogue_alone() -> None:
    socs.load("Ascend910B3", {"vector_cores": 1})
    assert socs.load("Ascend910B3").vector_cores == 40


def test_an_override_of_a_cost_leaves_its_neighbour_the_old_source() -> None:
    soc = socs.load("Ascend910B3", {"vector.costs.sub.float32.head_cycles": 7})
    assert soc.vector.costs["sub"]["float32"].head_cycles == 7
    assert soc.source("vector.costs.sub.float32.head_cycles").tier == "assumed"
    assert soc.source("vector.costs.sub.float32.interval_cycles").tier == "measured"


def test_measured_accuracy_does_not_survive_an_override(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'extends = "Ascend910B3"\n'
        '[[validation]]\noperator = "add"\nsize = "any"\nl2 = "hot"\nl2_known = true\nrows = 3\n'
        'low = -0.1\nhigh = 0.2\nmedian_error = 0.05\nworst_error = 0.1\nref = "bench"\n'
    )
    assert [row.rows for row in socs.load(path).validation] == [3]
    assert socs.load(path, {"vector_cores": 1}).validation == ()


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("memory.hbm_bytes_per_s", "1.2e12", 1.2e12),
        ("vector_cores", "20", 20),
        ("ub.bytes", "131072.0", 131072),
        ("ub.bytes", 1.31072e5, 131072),
        ("dma.byte_granular", "False", False),
        ("dma.byte_granular", True, True),
        ("numerics.float32_overflow", "saturate", "saturate"),
        ("memory.bytes", "1e9", 1_000_000_000),
        ("launch.task_s", 0, 0.0),
    ],
)
def test_overrides_are_read_as_what_the_key_holds(key: str, text: object, value: object) -> None:
    found = dict(socs.load("Ascend910B3", {key: text}).numbers())[key]
    assert found == value
    assert type(found) is type(value)


def test_a_size_that_nobody_knows_can_be_set() -> None:
    soc = socs.load("Ascend910B2C", {"memory.bytes": 64 * 2**30})
    assert soc.memory.bytes == 64 * 2**30
    assert soc.source("memory.bytes").ref == "override"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"memory.hbm_bytes_per_s": -1}, "memory.hbm_bytes_per_s = -1: must be greater than 0"),
        (
            {"dma.load.hbm.latency_cycles": "-1"},
            "dma.load.hbm.latency_cycles = -1: must be greater than or equal to 0",
        ),
        ({"ub.bytes": "1.5"}, "ub.bytes = 1.5: must be a whole number"),
        ({"clock_hz": "fast"}, "clock_hz = 'fast': must be a number"),
        ({"clock_hz": True}, "clock_hz = True: must be a number"),
        ({"clock_hz": [1]}, "clock_hz = [1]: must be a number"),
        ({"clock_hz": "nan"}, "clock_hz = nan: must be a finite number"),
        ({"clock_hz": "inf"}, "clock_hz = inf: must be a finite number"),
        ({"dma.byte_granular": "maybe"}, "dma.byte_granular = 'maybe': must be true or false"),
        ({"memory.kind": 3}, "memory.kind = 3: must be a string"),
        ({"numerics.nan": "loud"}, "numerics.nan = 'loud': must be 'all_ones' or 'quiet'"),
        ({"clock": 1}, "clock: Ascend910B3 has no such number; nearest: clock_hz, launch.block_s"),
        ({"name": "x"}, None),
        ({"memory": 1}, None),
        ({"numerics.overflow_modes": "saturation"}, None),
        ({"sources.clock_hz.tier": "measured"}, None),
        ({"ub.reserved_bytes": 196608}, "ub.reserved_bytes 196608 leaves nothing of ub.bytes 196608"),
        ({"a\nb": 1}, None),
    ],
)
def test_a_bad_override_is_refused_in_one_line(overrides: dict[str, object], message: str | None) -> None:
    with pytest.raises(socs.AtlasError) as error:
        socs.load("Ascend910B3", overrides)
    text = str(error.value)
    assert "\n" not in text
    if message is None:
        assert "has no such number" in text
    else:
        assert text == message


def test_a_misspelt_key_names_the_keys_that_end_alike() -> None:
    with pytest.raises(socs.AtlasError, match=r"nearest: .*memory\.l2\.bytes_per_s"):
        socs.load("Ascend910B3", {"bytes_per_s": 1})

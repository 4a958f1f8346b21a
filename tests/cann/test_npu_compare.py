"""Commands on the emulated card, and what ``validate`` and ``calibrate`` make of its times."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.backends.npu.places import VARIABLES

EMU = (sys.executable, "-m", "emulator.cli")

SHAPES = ("1024,1024", "512", "300,700", "2048,512", "2048,2048")


def ran(home: Path | None, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """``atlas-emu`` with ``home`` as the installation; 100 columns."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("ATLAS_EMU_") and name not in (*VARIABLES, "FORCE_COLOR")
    }
    if home is not None:
        clean["ASCEND_HOME_PATH"] = str(home)
    return subprocess.run(
        [*EMU, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**clean, "COLUMNS": "100", **variables},
    )


@pytest.mark.slow
def test_times_of_another_chip_are_told_by_validate_and_its_numbers_found_by_calibrate(
    root: Path, tmp_path: Path
) -> None:
    """Under ``exec`` the card takes the predicted time: here that of a chip with two numbers changed."""
    measured = tmp_path / "measured.csv"
    changed = ("--set", "launch.task_s=9e-7", "--set", "memory.l2.bytes_per_s=3e12")
    sizes = [part for shape in SHAPES for part in ("--shape", shape)]
    compare = ("compare", *sizes, "--dtype", "float16", "--dtype", "float32", "--csv", str(measured))
    repeats = ("--warm-up", "0", "--repeats", "2")
    done = ran(
        *(None, "exec", "--root", str(root), "--l2", "hot", "--quiet", *changed, "--"),
        *(*EMU, *compare, *repeats),
    )
    assert done.returncode == 0, done.stderr
    assert "bits: equal in all 10 cases" in done.stdout
    with measured.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["l2_state"] for row in rows] == ["hot"] * 10
    assert "emulated libraries" in rows[0]["source"]

    validated = json.loads(ran(None, "validate", str(measured), "--json").stdout)
    assert (len(validated["rows"]), validated["skipped"]["total"]) == (10, 0)
    assert all(-0.4 < row["error"] < -0.1 for row in validated["rows"])

    fitted = json.loads(ran(None, "calibrate", str(measured), "--soc", "Ascend910B3", "--json").stdout)
    found = {one["key"]: one["after"] for one in fitted["parameters"]}
    assert found["launch.task_s"] == pytest.approx(9e-7, rel=0.01)
    assert found["memory.l2.bytes_per_s"] == pytest.approx(3e12, rel=0.01)
    assert fitted["rms_after"] < 1e-4 < fitted["rms_before"]


def test_equal_bits_are_status_0_in_one_table_for_all_cases(root: Path, tmp_path: Path) -> None:
    cases = tmp_path / "cases.csv"
    cases.write_text('shape,dtype,reduction,grad_shape\n"40,8",bfloat16,,()\n7,,sum,\n"0,3",float16,none,\n')
    options = ("--cases", str(cases), "--data", "bits", "--repeats", "2")
    done = ran(root, "compare", *options)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "Ascend910B3: npu beside emulated"
    assert [line.split()[:4] for line in lines[4:7]] == [
        ["[40,8]*", "bfloat16", "mean", "-"],
        ["[7]", "float32", "sum", "-"],
        ["[0,3]", "float16", "none", "-"],
    ]
    assert "predicted µs" in done.stdout
    assert "measured µs" in done.stdout
    assert "these times say nothing about a card" in done.stdout
    assert lines[-1] == "bits: equal in all 3 cases"
    document = json.loads(ran(root, "compare", *options, "--json").stdout)
    assert document["equal"] is True
    ours, theirs = document["cases"][0]["backends"]
    assert (ours["backend"], ours["measured"], theirs["predicted_us"]) == ("emulated", None, None)
    assert theirs["measured"]["repeats"] == 2
    assert theirs["difference"]["differing"] == 0


def test_a_call_that_fails_on_the_card_is_status_1_and_the_others_are_compared(faulty: Path) -> None:
    # Four copies make one case: the sixth belongs to the second.
    done = ran(
        *(faulty, "compare", "--shape", "64,64", "--shape", "8", "--repeats", "1"),
        ATLAS_EMU_FAULT="aclrtMemcpy:507035:6",
    )
    assert done.returncode == 1
    assert "failed" in done.stdout
    assert "aclrtMemcpy failed: 507035 (ACL_ERROR_RT_VECTOR_CORE_EXCEPTION)" in done.stdout
    assert "bits: not equal in 1 of 2 cases" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--shape, once or several times, or --cases"),
        (("--shape", "4", "--dtype", "int8"), "dtype = 'int8'"),
        (("--shape", "four"), "--shape 'four'"),
        (("--shape", "4", "--reduction", "max"), "reduction"),
        (("--shape", "4", "--grad-shape", "3"), "broadcast"),
        (("--shape", "4", "--backends", "npu"), "two or more"),
        (("--shape", "4", "--soc", "Ascend910B2"), "the card is Ascend910B3"),
        (("--shape", "4", "--repeats", "0"), "repeats = 0"),
        (("--shape", "4", "--seed", "x"), "--seed 'x'"),
        (("--shape", "4", "--csv", "/nowhere/m.csv"), "/nowhere"),
    ],
)
def test_bad_input_of_compare_is_status_2(root: Path, arguments: tuple[str, ...], words: str) -> None:
    done = ran(root, "compare", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_a_card_compare_is_status_2_and_names_the_place() -> None:
    done = ran(Path("/nowhere"), "compare", "--shape", "4")
    assert (done.returncode, done.stdout) == (2, "")
    assert "under /nowhere (ASCEND_HOME_PATH)" in done.stderr


def test_backends_says_what_runs_and_why_the_rest_does_not(root: Path, faulty: Path) -> None:
    def told(home: Path, **variables: str) -> str:
        done = ran(home, "backends", **variables)
        assert (done.returncode, done.stderr) == (0, "")
        return " ".join(done.stdout.split())

    assert "npu yes Ascend910B2, device 0 of 1;" in told(root, ATLAS_EMU_SOC="Ascend910B2")
    assert "device 1 of 3" in told(root, ATLAS_EMU_DEVICES="3", ATLAS_EMU_DEVICE="1")
    assert "the emulated libraries, no card" in told(root)
    assert "npu no device 5: the libraries under" in told(root, ATLAS_EMU_DEVICE="5")
    assert "npu no no libascendcl.so or libacl_rt.so" in told(Path("/nowhere"))
    failing = told(faulty, ATLAS_EMU_FAULT="aclrtGetDeviceCount:507899")
    assert "npu no aclrtGetDeviceCount failed: 507899 (ACL_ERROR_RT_DRV_INTERNAL_ERROR)" in failing
    document = json.loads(ran(root, "backends", "--json").stdout)
    assert [one["name"] for one in document["backends"]][:2] == ["emulated", "npu"]
    npu = document["npu"]
    assert (npu["available"], npu["reason"], npu["origin"]) == (True, None, "ASCEND_HOME_PATH")
    assert (npu["soc"], npu["emulated"], npu["devices"], npu["version"]) == (
        "Ascend910B3",
        True,
        1,
        "8.1.RC1",
    )


def test_run_on_the_card_writes_its_bits_and_tells_measured_times(root: Path, tmp_path: Path) -> None:
    written = [tmp_path / "card.npy", tmp_path / "direct.npy"]
    done = ran(root, "run", "--backend", "npu", "--l2", "hot", "--output", str(written[0]))
    assert done.returncode == 0, done.stderr
    assert ran(None, "run", "--output", str(written[1])).returncode == 0
    assert written[0].read_bytes() == written[1].read_bytes()
    assert "measured " in done.stdout
    assert "latency" not in done.stdout
    refused = ran(root, "run", "--backend", "npu", "--trace", str(tmp_path / "trace.json"))
    assert refused.returncode == 2
    assert "a card tells no spans" in refused.stderr
    assert "assumed" not in done.stdout

"""``atlas-emu run``: files in, the gradient, the report, the JSON document and the trace out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from command_inputs import NAMES, Command, tensors

from emulator.files import example_path, load_tensors

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KEYS = {
    *(
        "operator",
        "soc",
        "kernel",
        "dtype",
        "shapes",
        "reduction",
        "block_dim",
        "tiling",
        "cycles",
        "time_us",
    ),
    *("time_us", "bound_cycles", "serial_cycles", "pipes", "launch", "assumed", "accuracy"),
}


def gradient(arrays: dict[str, np.ndarray], factor: float) -> np.ndarray:
    """The formula in double precision; exact for the small numbers of these tests."""
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    return wide["grad_output"] * (wide["self"] - wide["target"]) * factor


@pytest.mark.parametrize(("reduction", "factor"), [("none", 2.0), ("sum", 2.0), ("mean", 2 / 32)])
def test_an_npz_gives_the_gradient_of_its_reduction(
    command: Command, data: Path, tmp_path: Path, reduction: str, factor: float
) -> None:
    out = tmp_path / "out.npy"
    assert command("run", data, "--reduction", reduction, "--output", out).status == 0
    assert np.load(out).dtype == np.float32
    assert np.array_equal(np.load(out), gradient(tensors(), factor))


def test_mean_is_the_reduction_unless_told_otherwise(command: Command, data: Path) -> None:
    assert "reduction mean\n" in command("run", data).out
    assert json.loads(command("run", data, "--reduction", "SUM", "--json").out)["reduction"] == "sum"


def test_safetensors_and_single_arrays_give_what_the_npz_gives(
    command: Command, data: Path, tmp_path: Path
) -> None:
    save_file = pytest.importorskip("safetensors.numpy").save_file
    save_file(tensors(), tmp_path / "data.safetensors")
    for name, array in tensors().items():
        np.save(tmp_path / f"{name}.npy", array)
    single = [(f"--{name.removesuffix('_output')}", tmp_path / f"{name}.npy") for name in NAMES]
    ways = [[data], [tmp_path / "data.safetensors"], [part for pair in single for part in pair]]
    for index, way in enumerate(ways):
        assert command("run", *way, "--output", tmp_path / f"out{index}.npy").status == 0
    first, *others = [(tmp_path / f"out{index}.npy").read_bytes() for index in range(len(ways))]
    assert others == [first, first]


def test_a_single_array_goes_before_the_one_in_the_file(command: Command, data: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "target.npy", tensors()["self"])
    out = tmp_path / "out.npy"
    assert command("run", data, "--target", tmp_path / "target.npy", "--output", out).status == 0
    assert not np.load(out).any()


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_two_byte_void_is_bfloat16_on_the_way_in_and_out(
    command: Command, tmp_path: Path, suffix: str
) -> None:
    arrays = tensors(dtype=BFLOAT16)
    np.savez(tmp_path / "in.npz", **{name: array.view("V2") for name, array in arrays.items()})
    out = tmp_path / f"out{suffix}"
    answer = command("run", tmp_path / "in.npz", "--reduction", "sum", "--output", out, "--json")
    assert json.loads(answer.out)["dtype"] == "bfloat16"
    stored = np.load(out) if suffix == ".npy" else np.load(out)["grad_input"]
    assert stored.dtype == np.dtype("V2")
    assert np.array_equal(stored.view(BFLOAT16).astype(np.float64), gradient(arrays, 2.0))


def test_bfloat16_in_safetensors_is_bfloat16_there(command: Command, tmp_path: Path) -> None:
    load_file = pytest.importorskip("safetensors.numpy").load_file
    arrays = tensors(dtype=BFLOAT16)
    np.savez(tmp_path / "in.npz", **{name: array.view("V2") for name, array in arrays.items()})
    out = tmp_path / "out.safetensors"
    assert command("run", tmp_path / "in.npz", "--reduction", "sum", "--output", out).status == 0
    stored = load_file(out)["grad_input"]
    assert stored.dtype == BFLOAT16
    assert np.array_equal(stored.astype(np.float64), gradient(arrays, 2.0))


def test_memory_order_and_byte_order_of_the_input_do_not_matter(command: Command, tmp_path: Path) -> None:
    plain = tensors()
    odd = {name: np.asfortranarray(array.astype(">f4")) for name, array in plain.items()}
    for name, arrays in (("plain", plain), ("odd", odd)):
        np.savez(tmp_path / f"{name}.npz", **arrays)
        assert command("run", tmp_path / f"{name}.npz", "--output", tmp_path / f"{name}.npy").status == 0
    assert (tmp_path / "odd.npy").read_bytes() == (tmp_path / "plain.npy").read_bytes()


def test_a_tensor_without_dimensions_runs(command: Command, tmp_path: Path) -> None:
    arrays = {name: np.array(value, np.float32) for name, value in zip(NAMES, (3, 5, 1), strict=True)}
    np.savez(tmp_path / "in.npz", **arrays)
    answer = command("run", tmp_path / "in.npz", "--output", tmp_path / "out.npy")
    assert "tensors   [] float32\n" in answer.out
    result = np.load(tmp_path / "out.npy")
    assert (result.shape, float(result)) == ((), 24.0)


def test_an_empty_tensor_launches_nothing_and_says_so(command: Command, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **tensors((0, 3)))
    answer = command("run", tmp_path / "in.npz", "--output", tmp_path / "out.npy")
    assert answer.status == 0
    assert "launch    none: a tensor is empty\n" in answer.out
    assert "nothing is launched" in answer.out
    assert "latency" not in answer.out
    assert np.load(tmp_path / "out.npy").shape == (0, 3)
    document = json.loads(command("run", tmp_path / "in.npz", "--json").out)
    assert set(document) >= KEYS
    assert (document["cycles"], document["block_dim"], document["pipes"]) == (0, 0, [])
    assert document["warnings"] == ["a tensor is empty: nothing is launched"]


def test_the_trace_of_an_empty_tensor_is_refused_before_anything_is_written(
    command: Command, tmp_path: Path
) -> None:
    np.savez(tmp_path / "in.npz", **tensors((0, 3)))
    paths = ("--output", tmp_path / "out.npy", "--trace", tmp_path / "out.json")
    assert "nothing was launched" in command("run", tmp_path / "in.npz", *paths).refusal
    assert [path.name for path in tmp_path.iterdir()] == ["in.npz"]


def test_without_a_file_the_example_runs_from_any_directory(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = command("run", "--output", "out.npy")
    assert answer.status == 0
    assert answer.err.count("\n") == 1
    assert "no file given: the example, diabetes.npz" in answer.err
    arrays = load_tensors(example_path())
    assert np.allclose(np.load("out.npy"), gradient(arrays, 2 / 442), rtol=1e-5)


def test_the_report_names_what_ran_and_every_figure_of_the_json(command: Command, data: Path) -> None:
    text = command("run", data).out
    document = json.loads(command("run", data, "--json").out)
    assert f"kernel    {document['kernel']}\n" in text
    assert f"block_dim {document['block_dim']}: blocks of 32 elements; 1 tile of 32, buffer_num 1\n" in text
    assert f"latency   {document['cycles']:,} cycles = {document['time_us']:.2f} µs, L2 cold\n" in text
    assert f"bound     {document['bound_cycles']:,} cycles = {document['bound_us']:.2f} µs" in text
    assert f"one after another {document['serial_cycles']:,} cycles" in text
    assert document["time_us"] == pytest.approx(document["cycles"] / 1800, rel=1e-12)
    assert document["bound_cycles"] <= document["cycles"] <= document["serial_cycles"]
    table = text[text.index("\ncores ") : text.index("\nlongest")].splitlines()[1:]
    assert table[0].split() == [
        *("cores", "pipe", "busy", "%", "launch", "issue", "flag", "memory", "queue", "done")
    ]
    for line, row in zip(table[1:], document["pipes"], strict=False):
        cells = line.split()[-9:]
        numbers = [0 if cell == "-" else int(cell.replace(",", "")) for cell in cells[1:]]
        assert cells[0] == row["pipe"]
        assert numbers[0] == row["busy_cycles"]
        assert sum(numbers[2:7]) == sum(row["waiting_cycles"].values())
        assert numbers[7] == row["done_cycles"]
        assert numbers[0] + sum(numbers[2:8]) == document["cycles"]


def test_the_report_names_each_assumed_number(command: Command, data: Path) -> None:
    changed = ("--set", "launch.task_s=1e-6")
    document = json.loads(command("run", data, *changed, "--json").out)
    keys = [entry["key"] for entry in document["assumed"]]
    assert "launch.task_s" in keys
    text = " ".join(command("run", data, *changed).out.split())
    assert f"assumed: {len(keys)} numbers that nobody has published: {', '.join(keys)}" in text


def test_one_changed_number_changes_the_latency(command: Command, data: Path) -> None:
    cycles = [
        json.loads(command("run", data, "--json", *extra).out)["cycles"]
        for extra in ((), ("--set", "launch.task_s=1e-3"))
    ]
    assert cycles[1] > cycles[0] + 1_700_000


def test_json_is_one_document_with_the_promised_keys(command: Command, data: Path, tmp_path: Path) -> None:
    paths = ("--output", tmp_path / "out.npy", "--trace", tmp_path / "t.json", "--report", tmp_path / "r.txt")
    answer = command("run", data, "--json", *paths)
    document = json.loads(answer.out)
    assert set(document) >= KEYS
    assert document["shapes"] == {name: [4, 8] for name in (*NAMES, "out")}
    assert document["launch"]["cycles"] > 0
    assert document["accuracy"]["validated"] is False
    assert answer.out.endswith("}\n")
    assert answer.out.isascii()
    # Whatever is said of the example goes to standard error.
    assert json.loads(command("run", "--json").out)["shapes"]["self"] == [442]


def test_outputs_are_listed_below_the_report(command: Command, data: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("out.npz", "t.json", "r.svg")]
    answer = command("run", data, "--output", paths[0], "--trace", paths[1], "--report", paths[2])
    lines = answer.out.splitlines()[-3:]
    assert [line.split()[:2] for line in lines] == [
        [word, str(path)] for word, path in zip(("gradient:", "trace:", "report:"), paths, strict=True)
    ]


def test_a_saved_report_is_the_report(command: Command, data: Path, tmp_path: Path) -> None:
    text = command("run", data, "--report", tmp_path / "r.txt").out
    saved = (tmp_path / "r.txt").read_text(encoding="utf-8")
    assert saved.split() == text.split("report: ")[0].split()
    assert command("run", data, "--report", tmp_path / "r.html").status == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "mse_loss_grad_v2" in page
    assert not re.search(r"(src|href)=.?http", page)


def test_interpreted_and_compiled_bits_agree_on_the_command_line(
    command: Command, data: Path, tmp_path: Path
) -> None:
    for way in ("compiled", "interpreted"):
        assert command("run", data, "--bits", way, "--output", tmp_path / f"{way}.npy").status == 0
    assert (tmp_path / "compiled.npy").read_bytes() == (tmp_path / "interpreted.npy").read_bytes()


STAND_INS = {
    "Ascend910A": "mse_loss_grad",
    "Ascend310B1": "mse_loss_grad",
    "Ascend950PR_9589": "mse_loss_grad_v2_950",
    "Ascend910B3": None,
    "Ascend310P3": None,
}


@pytest.mark.parametrize("soc", STAND_INS)
def test_every_output_says_where_the_kernel_stands_in_for_another(
    command: Command, data: Path, tmp_path: Path, soc: str
) -> None:
    trace, report = tmp_path / "t.json", tmp_path / "r.txt"
    chosen = ("--kernel", "mse_loss_grad_v2")
    text = command("run", data, "--soc", soc, *chosen, "--trace", trace, "--report", report).out
    document = json.loads(command("run", data, "--soc", soc, *chosen, "--json").out)
    other = STAND_INS[soc]
    assert document["kernel"] == "mse_loss_grad_v2"
    assert document["stand_in_for"] == other
    assert json.loads(trace.read_text())["otherData"]["stand_in_for"] == other
    for shown in (text, report.read_text(encoding="utf-8")):
        words = " ".join(shown.split())
        assert ("standing in for" in words) is (other is not None)
        if other is not None:
            assert f"standing in for {other}, which {soc} runs here" in words


@pytest.mark.parametrize("soc", STAND_INS)
def test_no_chips_own_kernel_stands_in_for_another(command: Command, data: Path, soc: str) -> None:
    document = json.loads(command("run", data, "--soc", soc, "--json").out)
    assert document["kernel"] == (STAND_INS[soc] or "mse_loss_grad_v2")
    assert document["stand_in_for"] is None
    assert "standing in for" not in " ".join(command("run", data, "--soc", soc).out.split())

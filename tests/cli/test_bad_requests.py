"""What cannot be done is refused in one line that names the value and the rule, and nothing is written."""

from __future__ import annotations

import io
import json
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from command_inputs import Command, tensors

REQUESTS = {
    "shape word": (["--shape", "junk"], ["'junk'", "integers separated by commas"]),
    "shape float": (["--shape", "3.5"], ["'3.5'", "integers"]),
    "shape gap": (["--shape", "4,,4"], ["'4,,4'", "integers"]),
    "shape empty": (["--shape", ""], ["''", "integers"]),
    "shape half bracket": (["--shape", "(4"], ["'(4'", "integers"]),
    "shape of an option": (["--shape", "--json"], ["--shape"]),
    "shape negative": (["--shape", "-4"], ["[-4]", "-4 is negative"]),
    "shape 2^63": (["--shape", str(1 << 63)], [f"dimension {1 << 63}", f"more than {1 << 48}"]),
    "shape product": (["--shape", f"{1 << 40},{1 << 40}"], [str(1 << 80), f"more than {1 << 48}"]),
    "shape 10 dimensions": (["--shape", ",".join("1" * 10)], ["10 dimensions", "at most 8"]),
    "grad shape": (["--shape", "4", "--grad-shape", "5"], ["[5]", "[4]", "cannot be broadcast"]),
    "grad shape word": (["--shape", "4", "--grad-shape", "x"], ["--grad-shape 'x'", "integers"]),
    "broadcast": (
        ["--shape", "4", "--grad-shape", "1", "--kernel", "mse_loss_grad_v2"],
        ["[1]", "[4]", "mse_loss_grad_v2 takes equal shapes", "Ascend910B3 runs mse_loss_grad for them"],
    ),
    "dtype case": (["--shape", "4", "--dtype", "Float32"], ["Float32", "float32, float16, bfloat16"]),
    "dtype ACL": (["--shape", "4", "--dtype", "FP16"], ["FP16", "float32, float16, bfloat16"]),
    "dtype int8": (["--shape", "4", "--dtype", "int8"], ["int8", "Ascend910B3", "npu_arch 2201"]),
    "dtype float64": (["--shape", "4", "--dtype", "float64"], ["float64", "float32, float16, bfloat16"]),
    "dtype empty": (["--shape", "4", "--dtype", ""], ["dtype = ''", "float32"]),
    "dtype of the chip": (
        ["--shape", "4", "--dtype", "bfloat16", "--soc", "Ascend310P3"],
        ["bfloat16", "Ascend310P3", "float32, float16"],
    ),
    "reduction number": (["--shape", "4", "--reduction", "3"], ["'3'", "none, mean or sum"]),
    "reduction word": (["--shape", "4", "--reduction", "avg"], ["'avg'", "none, mean or sum"]),
    "l2": (["--shape", "4", "--l2", "warm"], ["l2 = 'warm'", "cold or hot"]),
    "kernel": (["--shape", "4", "--kernel", "mse"], ["'mse'", "mse_loss_grad_v2"]),
    "engine": (["--shape", "4", "--engine", "x"], ["engine = 'x'", "simpy"]),
    "tile 0": (["--shape", "4", "--tile-length", "0"], ["tile-length = 0", "at least 1"]),
    "tile word": (["--shape", "4", "--tile-length", "big"], ["--tile-length 'big'", "whole number"]),
    "tile float": (["--shape", "4", "--tile-length", "7.5"], ["--tile-length '7.5'", "whole number"]),
    "tile too long": (
        ["--shape", "40000000", "--tile-length", "1000000"],
        ["32,000,000 B of UB", "Ascend910B3 has 196,608 B", "socs/data/ascend910b.toml: ub.bytes"],
    ),
    "buffers negative": (["--shape", "4", "--buffer-num", "-1"], ["buffer-num = -1", "at least 1"]),
    "buffers 99": (["--shape", "4", "--buffer-num", "99"], ["buffer", "8 events"]),
    "blocks of nothing": (["--shape", "4", "--block-dim", "5"], ["block-dim = 5", "only 4 elements"]),
    "blocks without cores": (
        ["--shape", "401", "--block-dim", "41"],
        ["block-dim = 41", "40 vector cores", "socs/data/ascend910b.toml: vector_cores"],
    ),
    "soc empty": (["--shape", "4", "--soc", ""], ["''", "chips are known"]),
    "soc near": (["--shape", "4", "--soc", "Ascend910B33"], ["'Ascend910B33'", "nearest: Ascend910B3"]),
    "soc folder": (["--shape", "4", "--soc", "/"], ["'/'"]),
    "soc no file": (["--shape", "4", "--soc", "none.toml"], ["none.toml", "no such file"]),
    "soc two lines": (["--shape", "4", "--soc", "a\nb"], ["'a\\nb'"]),
    "set without =": (["--shape", "4", "--set", "clock_hz"], ["--set 'clock_hz'", "KEY=VALUE"]),
    "set empty": (["--shape", "4", "--set", ""], ["--set ''", "KEY=VALUE"]),
    "set no key": (["--shape", "4", "--set", "=1"], ["--set '=1'", "KEY=VALUE"]),
    "set no value": (["--shape", "4", "--set", "clock_hz="], ["clock_hz = ''", "a number"]),
    "set unknown": (["--shape", "4", "--set", "clok_hz=1"], ["clok_hz", "nearest: clock_hz"]),
    "set nan": (["--shape", "4", "--set", "clock_hz=nan"], ["clock_hz = nan", "finite"]),
    "set inf": (["--shape", "4", "--set", "clock_hz=-inf"], ["clock_hz = -inf", "finite"]),
    "set 1e999": (["--shape", "4", "--set", "clock_hz=1e999"], ["clock_hz", "finite"]),
    "set 0": (["--shape", "4", "--set", "clock_hz=0"], ["clock_hz = 0", "greater than 0"]),
    "set negative": (["--shape", "4", "--set", "clock_hz=-1e9"], ["clock_hz = -1000000000", "greater than"]),
    "set fraction": (["--shape", "4", "--set", "vector_cores=1.5"], ["vector_cores = 1.5", "whole number"]),
    "set no rate": (["--shape", "4", "--set", "clock_hz=1e300"], ["1e+300 Hz", "no finite number of cycles"]),
    "set no end": (["--shape", "4", "--set", "launch.task_s=1e300"], ["no finite number of cycles"]),
    "set nothing": (["--shape", "4", "--set", "memory.hbm_bytes_per_s=1e-300"], ["no finite number"]),
    "option": (["--shape", "4", "--bogus"], ["--bogus"]),
    "option of another command": (["--shape", "4", "--output", "x.npy"], ["--output"]),
    "argument": (["--shape", "4", "extra"], ["extra"]),
    "no shape": ([], ["--shape"]),
    "no value": (["--shape"], ["--shape"]),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_an_impossible_prediction_is_refused_in_one_line(command: Command, case: str) -> None:
    arguments, parts = REQUESTS[case]
    for extra in ((), ("--json",)):
        refusal = command("predict", *extra, *arguments).refusal
        assert [part for part in parts if part not in refusal] == []


def test_a_wrong_command_is_refused_in_one_line(command: Command) -> None:
    assert "'bogus'" in command("bogus").refusal
    assert "--bogus" in command("--bogus").refusal
    assert "name" in command("soc").refusal.lower()


def test_no_command_at_all_is_answered_with_the_help(command: Command) -> None:
    answer = command()
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("Usage: atlas-emu ")
    assert "predict" in answer.err


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--backend", "nope"], ["'nope'", "emulated"]),
        (["--overflow", "wrap"], ["overflow = 'wrap'", "inf_nan, saturation"]),
        (["--bits", "fast"], ["bits = 'fast'", "compiled or interpreted"]),
        (["--soc", "Ascend310P3", "--overflow", "inf_nan"], ["inf_nan", "Ascend310P3 has saturation"]),
    ],
)
def test_a_run_that_cannot_be_is_refused_in_one_line(
    command: Command, data: Path, arguments: list[str], parts: list[str]
) -> None:
    refusal = command("run", data, *arguments).refusal
    assert [part for part in parts if part not in refusal] == []


def test_a_backend_of_the_environment_is_refused_like_one_of_the_option(
    command: Command, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATLAS_EMU_BACKEND", "nope")
    assert "unknown backend 'nope'" in command("run", data).refusal
    assert command("run", data, "--backend", "emulated").status == 0


def other(**changed: np.ndarray) -> dict[str, np.ndarray]:
    return {**tensors(), **changed}


ARRAYS = {
    "missing": ({"self": tensors()["self"]}, ["grad_output, target", "the file has self"]),
    "unequal": (other(target=np.ones((4, 7), np.float32)), ["target [4, 7]", "[4, 8]", "broadcast"]),
    "mixed": (other(target=np.ones((4, 8), np.float16)), ["target is float16", "self is float32"]),
    "float64": (tensors(dtype=np.float64), ["float64", "float32, float16, bfloat16"]),
    "int8": (tensors(dtype=np.int8), ["int8", "float32, float16, bfloat16"]),
    "bool": (tensors(dtype=np.bool_), ["bool", "float32, float16, bfloat16"]),
    "text": (other(target=np.full((4, 8), "x")), ["target", "<U1", "numbers"]),
    "ranks": (other(target=np.ones((1,) * 9, np.float32)), ["target", "9 dimensions", "at most 8"]),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_do_not_fit_are_refused_in_one_line(command: Command, tmp_path: Path, case: str) -> None:
    arrays, parts = ARRAYS[case]
    np.savez(tmp_path / "in.npz", **arrays)
    out = tmp_path / "out.npy"
    out.write_bytes(b"old")
    refusal = command("run", tmp_path / "in.npz", "--output", out).refusal
    assert [part for part in parts if part not in refusal] == []
    assert out.read_bytes() == b"old"


def test_a_chosen_kernel_that_cannot_broadcast_refuses_arrays_that_need_it(
    command: Command, tmp_path: Path
) -> None:
    np.savez(tmp_path / "in.npz", **other(grad_output=np.float32(1)))
    chosen = ("--kernel", "mse_loss_grad_v2", "--output", tmp_path / "out.npy")
    refusal = command("run", tmp_path / "in.npz", *chosen).refusal
    assert "mse_loss_grad_v2 takes equal shapes" in refusal
    assert "grad_output []" in refusal
    assert not (tmp_path / "out.npy").exists()
    assert command("run", tmp_path / "in.npz", "--output", tmp_path / "out.npy").status == 0


def test_a_chip_without_bfloat16_refuses_it_by_name(command: Command, tmp_path: Path) -> None:
    arrays = {name: array.view("V2") for name, array in tensors(dtype=np.float16).items()}
    np.savez(tmp_path / "in.npz", **arrays)
    refusal = command("run", tmp_path / "in.npz", "--soc", "Ascend310P3").refusal
    assert "self is bfloat16: Ascend310P3" in refusal


def test_an_array_that_no_option_and_no_file_gives_is_named(command: Command, tmp_path: Path) -> None:
    np.save(tmp_path / "self.npy", tensors()["self"])
    refusal = command("run", "--self", tmp_path / "self.npy").refusal
    assert "grad_output, target" in refusal
    assert "--grad, --target" in refusal


class Bomb:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("exploded",)


def test_broken_and_malicious_files_are_refused_and_never_run(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    payload = pickle.dumps(Bomb())
    objects = io.BytesIO()
    np.save(objects, np.array([Bomb()], dtype=object), allow_pickle=True)
    with zipfile.ZipFile("pickled.npz", "w") as file:
        for name in tensors():
            file.writestr(f"{name}.npy", objects.getvalue())
    whole = io.BytesIO()
    np.savez(whole, **tensors())
    contents = {
        "pickle.npz": payload,
        "pickle.npy": payload,
        "cut.npz": whole.getvalue()[:-30],
        "text.npz": b"1 2 3",
        "empty.npz": b"",
        "x.safetensors": b"\xff" * 64,
        "x.csv": b"1,2,3",
    }
    for name, content in contents.items():
        Path(name).write_bytes(content)
    for name in ("pickled.npz", *contents, "none.npz", ".", "/", ""):
        refusal = command("run", name).refusal
        assert name in refusal
    assert not Path("exploded").exists()


def test_a_file_name_that_is_no_text_is_refused_in_one_line(command: Command) -> None:
    assert command("run", "\udcff.npz").refusal.startswith("\\udcff.npz: ")
    assert "No such file" in command("run", "a\nb.npz").refusal


@pytest.mark.parametrize("option", ["--output", "--trace", "--report"])
def test_a_path_that_cannot_be_written_is_refused_before_anything_is(
    command: Command, data: Path, tmp_path: Path, option: str
) -> None:
    suffix = {"--output": ".npy", "--trace": ".json", "--report": ".txt"}[option]
    (tmp_path / f"folder{suffix}").mkdir()
    before = sorted(tmp_path.rglob("*"))
    for path, part in {
        tmp_path / "none" / f"x{suffix}": "there is no directory",
        tmp_path / f"folder{suffix}": "is a directory",
        data / f"x{suffix}": "not a directory",
        tmp_path / ("long" * 70 + suffix): "too long",
    }.items():
        others = [o for o in ("--output", "--trace") if o != option]
        extra = [part for o in others for part in (o, tmp_path / f"good{o}.npy")]
        refusal = command("run", data, option, path, *extra).refusal
        assert str(path) in refusal
        assert part in refusal
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("option", "name"), [("--output", "x.txt"), ("--report", "x.pdf"), ("--output", "x")]
)
def test_an_output_of_unknown_format_is_refused_with_the_known_ones(
    command: Command, data: Path, option: str, name: str
) -> None:
    refusal = command("run", data, option, data.with_name(name)).refusal
    assert "unknown suffix" in refusal
    assert (".npy, .npz, .safetensors" if option == "--output" else ".txt, .html, .svg") in refusal


def test_a_full_disk_leaves_no_file_and_status_2(command: Command, data: Path, tmp_path: Path) -> None:
    refusal = command("run", data, "--trace", "/dev/full").refusal
    assert refusal == "/dev/full: cannot be written: No space left on device"


def test_two_outputs_do_not_go_into_one_file(
    command: Command, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for first, second in (("x.npy", "./x.npy"), ("x.npy", tmp_path / "x.npy")):
        refusal = command("run", data, "--output", first, "--trace", second).refusal
        assert refusal == f"{second}: two outputs cannot go into one file".removeprefix("./")
    Path("link.json").symlink_to("x.npy")
    assert "one file" in command("run", data, "--output", "x.npy", "--trace", "link.json").refusal
    assert not Path("x.npy").exists()


def test_an_output_does_not_replace_an_input(command: Command, data: Path, tmp_path: Path) -> None:
    before = data.read_bytes()
    hard = tmp_path / "hard.npz"
    hard.hardlink_to(data)
    for option, path in (("--output", data), ("--trace", data), ("--output", hard)):
        assert "is an input" in command("run", data, option, path).refusal
    np.save(tmp_path / "self.npy", tensors()["self"])
    single = tmp_path / "self.npy"
    assert "is an input" in command("run", data, "--self", single, "--output", single).refusal
    assert data.read_bytes() == before
    assert np.load(single).shape == (4, 8)


def test_a_failed_run_leaves_existing_outputs_as_they_were(
    command: Command, data: Path, tmp_path: Path
) -> None:
    paths = [tmp_path / name for name in ("out.npy", "t.json", "r.txt")]
    for path in paths:
        path.write_bytes(b"old")
    options = ("--output", paths[0], "--trace", paths[1], "--report", paths[2])
    assert "tile-length" in command("run", data, *options, "--tile-length", "0").refusal
    assert [path.read_bytes() for path in paths] == [b"old"] * 3
    assert sorted(tmp_path.iterdir()) == sorted([data, *paths])
    assert command("run", data, *options).status == 0
    assert np.load(paths[0]).shape == (4, 8)
    assert json.loads(paths[1].read_text())["otherData"]["tool"] == "atlas-emulator"

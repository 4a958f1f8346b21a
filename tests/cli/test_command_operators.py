"""``--op``: other operators than the default on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_inputs import Command


def test_predict_takes_shapes_and_dtypes_of_other_inputs(command: Command) -> None:
    done = command(
        *("predict", "--op", "mul", "--shape", "512,768", "--dtype", "float16", "--input-shape", "y=768"),
        *("--l2", "hot", "--json"),
    )
    document = json.loads(done.out)
    assert (done.status, document["operator"], document["reduction"]) == (0, "mul", None)
    assert document["shapes"] == {"x": [512, 768], "y": [768], "out": [512, 768]}
    done = command("predict", "--op", "RealDiv", "--shape", "64", "--input-dtype", "y=float16", "--json")
    assert json.loads(done.out)["operator"] == "div"
    done = command("predict", "--op", "add_n", "--inputs", "4", "--shape", "64", "--json")
    assert list(json.loads(done.out)["shapes"]) == ["x0", "x1", "x2", "x3", "out"]
    done = command("predict", "--op", "cast", "--to", "float16", "--shape", "64")
    assert done.status == 0
    assert "reduction" not in done.out


def test_run_reads_the_operators_own_arrays(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([10.0, 20.0, 30.0], np.float32)
    np.savez(tmp_path / "both.npz", x=x, y=y)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "y.npy", y)
    out = tmp_path / "out.npz"
    for given in (
        ["both.npz"],
        ["--input", "x=x.npy", "--input", "y=y.npy"],
        ["both.npz", "--input", "y=y.npy"],
    ):
        done = command("run", "--op", "add", *given, "--output", str(out))
        assert done.status == 0, done.err
        assert f"result: {out}" in done.out
        assert np.load(out)["out"].tolist() == (x + y).tolist()
    done = command("run", "--op", "muls", "--scalar", "-2", "x.npy", "--output", "made.npy")
    assert np.load(tmp_path / "made.npy").tolist() == (-2 * x).tolist()
    assert done.err == ""


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "--op", "exp"], "unknown operator 'exp': there are add"),
        (
            ["run", "--op", "add"],
            "no array for x, y: give a file with arrays of these names, or --input x=FILE",
        ),
        (
            ["run", "--op", "add", "--input", "z=x.npy"],
            "--input z=FILE: there is no such array, needed are x, y",
        ),
        (["run", "--op", "add", "--input", "z"], "--input 'z': must be NAME=FILE"),
        (
            ["predict", "--op", "fill", "--shape", "4", "--scalar", "much"],
            "--scalar 'much': must be a number",
        ),
        (
            ["predict", "--op", "add", "--shape", "4", "--input-shape", "y"],
            "--input-shape 'y': must be NAME=DIMS",
        ),
        (
            ["predict", "--op", "add", "--shape", "4", "--input-shape", "y=x"],
            "--input-shape y 'x': must be integers",
        ),
        (
            ["predict", "--op", "add", "--shape", "4", "--inputs", "two"],
            "--inputs 'two': must be a whole number",
        ),
        (["predict", "--op", "cast", "--shape", "4"], "cast needs to="),
    ],
)
def test_bad_requests_end_with_status_2_and_one_line(
    command: Command, arguments: list[str], part: str
) -> None:
    assert part in command(*arguments).refusal

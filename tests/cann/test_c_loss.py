"""The loss and the fills around ``aclnnMseLossBackward``, as frameworks call them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np

from kernel.reduce_sum import TILE

Built = Callable[..., Path]
Ran = Callable[..., subprocess.CompletedProcess[str]]


def _sum(values: np.ndarray[tuple[int], np.dtype[np.float32]]) -> np.float32:
    """Tiles of 4096 by halves, tiles in order."""
    total = np.float32(0)
    for begin in range(0, values.size, 4096):
        tile = values[begin : begin + 4096].copy()
        while tile.size > 1:
            half = (tile.size + 1) // 2
            tile[: tile.size - half] += tile[half:]
            tile = tile[:half]
        total += tile[0]
    return total


def test_sums_are_taken_in_the_stated_order_and_fills_and_refusals_are_right(build: Built, run: Ran) -> None:
    done = run(build("loss.c"))
    assert done.returncode == 0, done.stdout
    numbers = np.arange(10000)
    x = (numbers % 97).astype(np.float32) / np.float32(7)
    y = (numbers % 31).astype(np.float32) / np.float32(3)
    squares = (x - y) * (x - y)
    total = _sum(squares)
    assert TILE == 4096
    lines = done.stdout.splitlines()
    assert [float.fromhex(line) for line in lines[:3]] == [
        squares[96],
        total * (np.float32(1) / np.float32(10000)),
        total,
    ]
    assert total != np.add.accumulate(squares)[-1]  # the order shows
    assert "561000 the executor is one of aclnnInplaceFillScalar." in lines[3]
    assert lines[4:6] == ["2.5", "0"]
    assert [line.split()[-1] for line in lines[6:]] == ["emulated", "5.", "destroyed."]
    assert [
        status for line in lines[6:] for status in line.split() if status.isdigit() and len(status) == 6
    ] == [
        "561103",
        "161002",
        "161001",
    ]


def test_of_no_elements_the_mean_is_a_nan_the_sum_0_and_without_a_reduction_nothing_is_written(
    root: Path, build: Built, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    line = [sys.executable, "-m", "emulator.cli", "exec", "--root", str(root), "--quiet", "--log", str(log)]
    done = subprocess.run(
        [*line, "--", str(build("loss_empty.c"))], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    before, seen = np.uint32(0x11111111), iter(done.stdout.split())
    for _ in ("inf_nan", "saturation"):
        for dtype in (np.dtype(np.float32), np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)):
            found = [np.array([int(next(seen), 16)], np.uint32).view(dtype) for _ in range(3)]
            assert found[0].view(np.uint32)[0] == before
            assert np.isnan(found[1][0])
            assert found[2][0] == 0
            kept = before.reshape(1).view(dtype)[1:]
            assert all(np.array_equal(given[1:], kept) for given in found), "bytes behind out"
    assert [json.loads(line)["steps"] for line in log.read_text().splitlines()] == [["Fill"]] * 12

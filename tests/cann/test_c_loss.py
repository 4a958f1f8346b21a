"""The loss and the fills around ``aclnnMseLossBackward``, as frameworks call them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

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

"""The compiler refuses what is not elementwise, and no state of its cache stops a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mse_oracle import as_bits, expected, launched, random_tensors

import socs
from kernel import compile as compiled
from kernel.compile import cache_dir, execute
from kernel.fuse import fuse
from kernel.mse_loss_backward import Reduction, coefficient
from kernel.numerics import vector
from kernel.program import Instruction, Launch, Loop, Region, Window
from socs.errors import AtlasError
from socs.isa import DType, Op

F32, F16 = DType.FLOAT32, DType.FLOAT16
SOC = socs.load("Ascend910B4-1")


def each_tile(launch: Launch, change: Callable[[Instruction], list[Instruction]]) -> Launch:
    """``launch`` with every instruction replaced by what ``change`` makes of it."""

    def new(body: Any) -> tuple[Any, ...]:
        made: list[Any] = []
        for item in body:
            made += [replace(item, body=new(item.body))] if isinstance(item, Loop) else change(item)
        return tuple(made)

    return replace(
        launch,
        blocks=tuple(
            replace(blocks, program=replace(blocks.program, items=new(blocks.program.items)))
            for blocks in launch.blocks
        ),
    )


def source(instruction: Instruction) -> str | None:
    (window, *_) = (*instruction.srcs, None)
    return window.tensor if isinstance(window, Window) else None


def shifted_load(i: Instruction) -> list[Instruction]:
    if source(i) != "target":
        return [i]
    (window,) = i.srcs
    assert isinstance(window, Window)
    return [replace(i, srcs=(replace(window, offset=max(window.offset - 1, 0)),))]


def swapped_halves(i: Instruction) -> list[Instruction]:
    """Each tile's result is stored in the place of the other tile."""
    if not isinstance(i.dst, Window):
        return [i]
    return [replace(i, dst=replace(i.dst, offset=64 - i.dst.offset))]


def without_later_load(i: Instruction) -> list[Instruction]:
    return [] if source(i) == "target" and i.tile else [i]


def other_sum_in_tile_1(i: Instruction) -> list[Instruction]:
    return [replace(i, srcs=i.srcs[::-1])] if i.op is Op.SUB and i.tile == 1 else [i]


def partly_overwritten(i: Instruction) -> list[Instruction]:
    """Eight elements in the middle of the loaded target are replaced by others."""
    if source(i) != "target":
        return [i]
    assert isinstance(i.dst, Region)
    (window,) = i.srcs
    assert isinstance(window, Window)
    hole = replace(i.dst, address=i.dst.address + 32, count=8)
    return [i, replace(i, dst=hole, srcs=(replace(window, count=8),))]


def short_store(i: Instruction) -> list[Instruction]:
    return [replace(i, dst=replace(i.dst, count=i.dst.count - 1))] if isinstance(i.dst, Window) else [i]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (shifted_load, "combines different elements: not elementwise"),
        (swapped_halves, "stores element 0 at 64: not elementwise"),
        (without_later_load, "combines different elements: not elementwise"),
        (partly_overwritten, "which holds no float32 value"),
        (other_sum_in_tile_1, "its tiles compute 2 different things"),
        (short_store, "cannot be fused: coverage"),
    ],
)
def test_a_program_that_is_not_elementwise_is_refused(change: Any, reason: str) -> None:
    launch = launched(SOC, F32, 128, tile_length=64, block_dim=1)
    fuse(launch, SOC.numerics, False)
    with pytest.raises(AtlasError, match=reason):
        fuse(each_tile(launch, change), SOC.numerics, False)
    with pytest.raises(AtlasError, match=reason):
        execute(each_tile(launch, change), SOC, random_tensors(F32, 128, 1))


def test_a_load_that_drifts_inside_a_loop_is_refused() -> None:
    launch = launched(SOC, F32, 64 * 50, tile_length=64, block_dim=1)

    def drift(i: Instruction) -> list[Instruction]:
        (window, *_) = (*i.srcs, None)
        if isinstance(window, Window) and window.tensor == "self" and window.stride:
            return [replace(i, srcs=(replace(window, stride=window.stride - 1),))]
        return [i]

    with pytest.raises(AtlasError, match="not elementwise"):
        fuse(each_tile(launch, drift), SOC.numerics, False)


def test_the_same_kernel_fuses_to_the_same_loop_whatever_the_cut() -> None:
    whole = fuse(launched(SOC, F16, 2**20), SOC.numerics, False)
    for options in ({"tile_length": 100}, {"buffer_num": 3, "tile_length": 64}, {"block_dim": 7}):
        assert fuse(launched(SOC, F16, 2**20, **options), SOC.numerics, False) == whole
    other = fuse(launched("Ascend310P3", F16, 999), socs.load("Ascend310P3").numerics, False)
    assert other.expression == whole.expression
    assert fuse(launched(SOC, F16, 2**20), SOC.numerics, True) != whole


def check(n: int = 3001) -> None:
    """A run gives the oracle's bits."""
    tensors = random_tensors(F16, n, 6)
    execute(launched(SOC, F16, n), SOC, tensors)
    oracle = expected(tensors, F16, coefficient((n,), Reduction.MEAN), saturate=False)
    np.testing.assert_array_equal(as_bits(tensors["out"]), oracle)


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder, and a process that has compiled nothing yet."""
    monkeypatch.setenv("ATLAS_EMU_CACHE", str(tmp_path / "cache"))
    compiled._compiled.cache_clear()
    yield tmp_path / "cache"
    compiled._compiled.cache_clear()


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_second_run_uses_what_the_first_one_left(fresh: Path) -> None:
    check()
    left = files(fresh)
    assert {Path(name).suffix for name in left} >= {".py", ".nbi", ".nbc"}
    compiled._compiled.cache_clear()
    check()
    assert files(fresh) == left


@pytest.mark.parametrize(
    ("suffix", "rubbish"),
    [(".py", b"rubbish"), (".nbi", b""), (".nbi", b"rubbish"), (".nbi", None), (".nbc", b""), (".nbc", None)],
)
def test_a_corrupt_cache_still_computes(fresh: Path, suffix: str, rubbish: bytes | None) -> None:
    check()
    for path in fresh.rglob(f"*{suffix}"):
        path.write_bytes(path.read_bytes()[:40] if rubbish is None else rubbish)
    compiled._compiled.cache_clear()
    check()
    compiled._compiled.cache_clear()
    check()


@pytest.mark.parametrize("place", ["a file", "below a file", "/proc/nowhere"])
def test_a_cache_that_cannot_be_written_still_computes(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    where = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "cache"}.get(place, place)
    monkeypatch.setenv("ATLAS_EMU_CACHE", str(where))
    compiled._compiled.cache_clear()
    check()
    compiled._compiled.cache_clear()
    assert files(tmp_path) == {"file": b"in the way"}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_cache_still_computes(fresh: Path) -> None:
    for when in ("empty", "filled"):
        (fresh / "kernels").mkdir(parents=True, exist_ok=True)
        folders = [fresh, *(p for p in fresh.rglob("*") if p.is_dir())]
        for folder in folders:
            folder.chmod(0o500)
        try:
            check()
        finally:
            for folder in folders:
                folder.chmod(0o700)
        compiled._compiled.cache_clear()
        if when == "empty":
            check()
        compiled._compiled.cache_clear()


def test_another_text_of_the_numerics_gives_another_file(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    (before,) = (p.name for p in (fresh / "kernels").glob("*.py"))
    monkeypatch.setattr(vector, "source_digest", lambda: "0" * 64)
    compiled._compiled.cache_clear()
    check()
    after = {p.name for p in (fresh / "kernels").glob("*.py")}
    assert len(after) == 2
    assert before in after


PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from mse_oracle import launched, random_tensors
import socs
from kernel.compile import execute
from socs.isa import DType
tensors = random_tensors(DType.FLOAT16, 3001, 6)
execute(launched("Ascend910B4-1", DType.FLOAT16, 3001), socs.load("Ascend910B4-1"), tensors)
tensors["out"].tofile(sys.argv[2])
"""


def test_processes_may_start_together_with_an_empty_cache(tmp_path: Path) -> None:
    here = Path(__file__).parent
    environment = {**os.environ, "ATLAS_EMU_CACHE": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(here), str(tmp_path / f"{which}.bits")],
            env=environment,
            cwd=here.parents[1],
            stderr=subprocess.PIPE,
            text=True,
        )
        for which in range(2)
    ]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        assert errors == ""
    tensors = random_tensors(F16, 3001, 6)
    oracle = expected(tensors, F16, coefficient((3001,), Reduction.MEAN), saturate=False)
    for which in range(2):
        bits = np.fromfile(tmp_path / f"{which}.bits", np.uint16)
        np.testing.assert_array_equal(bits, oracle)
    assert len(list((tmp_path / "kernels").glob("*.py"))) == 1
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_cache_is_where_the_user_says_then_where_the_system_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    monkeypatch.setenv("ATLAS_EMU_CACHE", "/elsewhere")
    assert cache_dir() == Path("/elsewhere")
    monkeypatch.delenv("ATLAS_EMU_CACHE")
    assert cache_dir() == Path("/var/cache/somebody/atlas-emulator")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path("/home/somebody/.cache/atlas-emulator")

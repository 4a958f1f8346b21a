"""What the fused loop is compiled to: separate multiplications and subtractions of float32, in vectors.

And what its streaming is made of: prefetches, stores past the caches and a fence change no bit, so that
nothing but the instructions shows them.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit, types

import socs
from kernel import compile as compiled
from kernel.compile import execute
from kernel.mse_loss_backward import Reduction, plan
from kernel.numerics import stream, vector
from kernel.tiling import TilingOptions
from socs.isa import DType

X86 = platform.machine() == "x86_64"
# Of scalars and vectors, float32 and float64, in the spelling of either architecture.
FUSED = re.compile(r"v?fn?m(add|sub)\w*|vfm(addsub|subadd)\w*|v?fml[as]l?2?|f?cmla")
MULTIPLY = re.compile(r"v?mul[ps]s|fmul")
SUBTRACT = re.compile(r"v?sub[ps]s|fsub")
WIDER = re.compile(r"v?(mul|sub|add)[ps]d")
STREAMED = re.compile(r"v?movnt\w+|stnp")


def mnemonics(assembly: str) -> Counter[str]:
    return Counter(re.findall(r"^\s+([a-z][a-z0-9.]*)(?:\s|$)", assembly, re.MULTILINE))


def count(found: Counter[str], what: re.Pattern[str]) -> int:
    return sum(times for name, times in found.items() if what.fullmatch(name))


def compiled_afresh(dtype: DType, streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The assembly of the loop that ``execute`` runs, compiled here: what comes from a cache has none."""
    taken = []

    def keep(source: str) -> Any:
        taken.append((source, compile_one(source)))
        return taken[-1][1]

    compile_one = compiled._compiled.__wrapped__
    monkeypatch.setenv("ATLAS_EMU_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiled, "_compiled", keep)
    monkeypatch.setattr(compiled, "STREAM_FROM_BYTES", 0 if streamed else 1 << 60)
    soc, n = socs.load("Ascend910B4-1"), 1 << 15
    launch = plan(soc, shape=(n,), dtype=dtype, reduction=Reduction.MEAN, options=TilingOptions()).launch
    assert launch is not None
    carrier = np.float32 if dtype is DType.FLOAT32 else np.uint16
    execute(launch, soc, {tensor.name: np.zeros(n, carrier) for tensor in launch.tensors})
    ((source, run),) = taken
    assert ("stream.store_block" in source) is streamed
    (assembly,) = run.inspect_asm().values()
    return str(assembly)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16])
def test_the_fused_loop_multiplies_and_subtracts_float32_and_never_both_at_once(
    dtype: DType, streamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = mnemonics(compiled_afresh(dtype, streamed, tmp_path, monkeypatch))
    assert found.total() > 100
    assert count(found, FUSED) == 0
    assert count(found, WIDER) == 0
    # (self - target) * coefficient * grad_output: two products for each difference.
    assert count(found, MULTIPLY) == 2 * count(found, SUBTRACT) > 0
    if X86:
        assert count(found, re.compile("v?mulps")) > 0
        assert (count(found, STREAMED) > 0) is streamed


def test_a_fused_multiply_add_would_be_seen() -> None:
    sub, mul = vector.function("sub_float32_any"), vector.function("mul_float32_any")

    @njit(fastmath={"contract"})
    def contracted(a: Any, b: Any, c: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = a[i] * b[i] - c[i]

    @njit(fastmath={"contract"})
    def separate(a: Any, b: Any, c: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = sub(mul(a[i], b[i]), c[i])

    a = np.full(64, 1 + 2.0**-23, np.float32)
    c = np.full(64, 1 + 2.0**-22, np.float32)
    results = {}
    for function in (contracted, separate):
        out = np.ones(64, np.float32)
        function(a, a, c, out)
        (assembly,) = function.inspect_asm().values()
        results[function] = count(mnemonics(assembly), FUSED), out[0]
    if results[contracted][1] != 0:  # this CPU has the instruction
        assert results[contracted][0] > 0
    assert results[separate] == (0, 0)


@pytest.mark.parametrize(("dtype", "count"), [(np.float32, 64), (np.uint16, 128), (np.uint16, 32)])
def test_prefetching_asks_once_for_each_line_of_what_comes_1024_bytes_later(
    dtype: Any, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(stream, "_prefetch", asked.append)
    array = np.zeros(4096, dtype)
    # The body that is compiled: an address is an integer to Python as well.
    stream._compiled_prefetch(None, None, None)(array, 5, count)
    first = array[5:].ctypes.data + 1024
    assert asked == list(range(first, first + count * array.itemsize, 64))


@pytest.mark.parametrize(("dtype", "size"), [(np.float32, 64), (np.uint16, 128), (np.uint16, 48)])
def test_a_block_is_stored_in_vectors_of_32_bytes(
    dtype: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[tuple[int, int]] = []
    monkeypatch.setattr(stream, "_stream", lambda to, of: moved.append((to, of)))
    array, block = np.zeros(4096, dtype), np.zeros(size, dtype)
    stream._compiled_store_block(None, None, None)(array, 32, block)
    to, of = array[32:].ctypes.data, block.ctypes.data
    assert moved == [(to + offset, of + offset) for offset in range(0, block.nbytes, 32)]


def test_a_line_is_prefetched_into_all_caches_and_draining_is_a_full_fence() -> None:
    @njit(types.void(types.float32[::1]))
    def ahead(array: Any) -> None:
        stream.prefetch(array, 0, 64)

    @njit(types.void())
    def finish() -> None:
        stream.drain()

    (assembly,) = ahead.inspect_asm().values()
    assert re.search(r"\sprefetcht0\s" if X86 else r"\sprfm\s+pldl1keep", assembly)
    (assembly,) = finish.inspect_asm().values()
    assert re.search(r"\s(mfence|lock\s+or[lq])\s" if X86 else r"\sdmb\s+ish\s", assembly)


def test_a_block_stored_by_plain_python_is_stored_in_its_place() -> None:
    array = np.zeros(16, np.uint16)
    stream.store_block(array, 4, np.arange(1, 6, dtype=np.uint16))
    np.testing.assert_array_equal(array, [0, 0, 0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0])

"""The Python bodies give the bits of the compiled ones; streams store what plain loops do."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from patterns import EDGES, apply, stratified

import socs
from kernel import compile as compiled
from kernel.compile import execute
from kernel.mse_loss_backward import Reduction, plan
from kernel.numerics import convert, vector
from kernel.numerics.stream import BLOCK_BYTES, drain, prefetch, store_block, until_aligned
from kernel.tiling import TilingOptions
from socs.isa import DType
from socs.spec import OverflowMode

# Each kind of body and each finish once: compiling all the combinations takes half a minute.
NAMES = [
    *(f"{op}_float32{suffix}" for op in ("sub", "mul") for suffix in ("", "_quiet_flush", "_saturate_flush")),
    *(f"f32_to_{t}{suffix}" for t in ("f16", "bf16") for suffix in ("", "_saturate", "_odd", "_floor_flush")),
    "f32_to_f16_round_quiet",
    "f16_to_f32",
    "bf16_to_f32",
]


def results() -> dict[str, Any]:
    """The bits that every function of ``NAMES`` gives on edges and a spread of patterns."""
    bits = np.concatenate([EDGES, stratified(-14, 10)[::6007], stratified(-126, 7)[::6007]])
    other = np.roll(bits, 17)
    halves = np.concatenate([np.arange(0, 1 << 16, 97, dtype=np.uint16), np.array([0x7C01], np.uint16)])
    found = {}
    for name in NAMES:
        function = vector.function(name)
        if name.endswith("_to_f32"):
            found[name] = apply(function, halves, dtype=np.float32)
        elif name.startswith("f32_to"):
            found[name] = apply(function, bits, dtype=np.uint16)
        else:
            found[name] = apply(function, bits, other, dtype=np.float32)
    return found


def test_the_python_bodies_give_the_bits_of_the_compiled_ones(tmp_path: Path) -> None:
    here = Path(__file__).parent
    script = (
        "import sys, numpy; sys.path.insert(0, sys.argv[1])\n"
        "import test_without_jit as test\n"
        "assert not hasattr(test.vector.sub_float32, 'py_func'), 'compiled after all'\n"
        "numpy.savez(sys.argv[2], **test.results())\n"
    )
    target = tmp_path / "python.npz"
    subprocess.run(
        # -W error: an overflow or a NaN is a result here, and must not warn.
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script, str(here), str(target)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        cwd=here.parents[1],
        check=True,
    )
    plain = np.load(target)
    for name, jitted in results().items():
        np.testing.assert_array_equal(plain[name], jitted, err_msg=name)


# Each dtype, overflow mode and loop; what ``tests/kernel`` runs is left out.
CASES: tuple[tuple[DType, OverflowMode, bool], ...] = (
    (DType.FLOAT32, "inf_nan", True),
    (DType.FLOAT16, "inf_nan", False),
    (DType.FLOAT16, "saturation", True),
    (DType.BFLOAT16, "saturation", False),
)


def operator_results() -> dict[str, Any]:
    """The bits that the whole operator gives in ``CASES``."""
    # Some whole blocks of the streamed loop, whichever the dtype, and a rest.
    soc, n, found = socs.load("Ascend910B4-1"), BLOCK_BYTES + 445, {}
    wide = np.concatenate([EDGES, np.random.default_rng(7).integers(0, 1 << 32, n - EDGES.size, np.uint32)])
    for dtype, mode, streamed in CASES:
        bits = wide.view(np.float32) if dtype is DType.FLOAT32 else (wide >> np.uint32(16)).astype(np.uint16)
        launch = plan(soc, shape=(n,), dtype=dtype, reduction=Reduction.SUM, options=TilingOptions()).launch
        assert launch is not None
        tensors = {t.name: np.roll(bits, 31 * k) for k, t in enumerate(launch.tensors)}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "STREAM_FROM_BYTES", 0 if streamed else 1 << 60)
            patch.setattr(compiled, "STREAM_ROW_BYTES", 0)
            execute(launch, soc, tensors, overflow=mode)
        out = tensors["out"]
        found[f"{dtype} {mode}"] = out.view(np.uint32) if dtype is DType.FLOAT32 else out
    return found


def test_the_whole_operator_gives_the_same_bits_in_plain_python(tmp_path: Path) -> None:
    script = (
        "import sys, numpy; sys.path.insert(0, sys.argv[1])\n"
        "import test_without_jit as test\n"
        "assert not hasattr(test.vector.sub_float32, 'py_func'), 'compiled after all'\n"
        "numpy.savez(sys.argv[2], **test.operator_results())\n"
    )
    here, target = Path(__file__).parent, tmp_path / "operator.npz"
    subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", script, str(here), str(target)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "ATLAS_EMU_CACHE": str(tmp_path)},
        cwd=here.parents[1],
        check=True,
    )
    plain, jitted = np.load(target), operator_results()
    assert len(plain.files) == len(jitted) == len(CASES)
    for case, expected in jitted.items():
        np.testing.assert_array_equal(plain[case], expected, err_msg=case)
    assert (plain["float16 inf_nan"] != plain["float16 saturation"]).sum() > 100


@pytest.mark.skipif(platform.machine() != "x86_64", reason="every other CPU here converts float16")
def test_a_cpu_without_float16_instructions_gives_the_same_bits(tmp_path: Path) -> None:
    code = (
        "import sys, numpy; sys.path.insert(0, sys.argv[1])\n"
        "import test_without_jit as test\n"
        "assert not test.convert.has_half_instructions()\n"
        "numpy.savez(sys.argv[2], **test.half_results())\n"
    )
    here, target = Path(__file__).parent, tmp_path / "old.npz"
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    arguments = [sys.executable, "-c", code, str(here), str(target)]
    subprocess.run(arguments, env=environment, cwd=here.parents[1], check=True)
    old = np.load(target)
    for name, new in half_results().items():
        np.testing.assert_array_equal(old[name], new, err_msg=name)


def half_results() -> dict[str, Any]:
    """float16 both ways, as the CPU at hand compiles it."""
    every = np.arange(1 << 16, dtype=np.uint16)
    return {
        "widened": apply(convert.f16_to_f32, every, dtype=np.float32),
        "narrowed": apply(convert.f32_to_f16, stratified(-14, 10)[::13], dtype=np.uint16),
    }


def test_importing_the_package_does_not_import_numba() -> None:
    code = "import kernel, kernel.numerics.formats, sys; sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_the_digest_is_stable_and_covers_every_source_file(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = vector.source_digest()
    assert len(digest) == 64
    original = Path.read_bytes
    for file in sorted(Path(vector.__file__).parent.glob("*.py")):
        monkeypatch.setattr(Path, "read_bytes", lambda p, f=file: original(p) + b"#" * (p.name == f.name))
        vector.source_digest.cache_clear()
        assert vector.source_digest() != digest, file.name
    monkeypatch.undo()
    vector.source_digest.cache_clear()
    assert vector.source_digest() == digest


@njit
def streamed(out: Any, x: Any, start: int, stop: int) -> None:
    scratch = np.empty(BLOCK_BYTES // out.itemsize, out.dtype)
    begin = start + until_aligned(out, start, stop)
    for i in range(start, begin):
        out[i] = x[i]
    while begin + scratch.size <= stop:
        prefetch(x, begin, scratch.size)
        xs = x[begin : begin + scratch.size]
        for k in range(scratch.size):
            scratch[k] = xs[k]
        store_block(out, begin, scratch)
        begin += scratch.size
    for i in range(begin, stop):
        out[i] = x[i]
    drain()


@settings(max_examples=100, deadline=None)
@given(
    dtype=st.sampled_from([np.uint16, np.float32]),
    offset=st.integers(0, 70),
    start=st.integers(0, 300),
    length=st.integers(0, 1500),
)
def test_a_streamed_loop_stores_its_range_and_nothing_else(
    dtype: Any, offset: int, start: int, length: int
) -> None:
    x = np.arange(1, 2001).astype(dtype)
    out = np.zeros(2000 + offset, dtype)[offset:]
    streamed(out, x, start, start + length)
    expected = np.zeros(2000, dtype)
    expected[start : start + length] = x[start : start + length]
    np.testing.assert_array_equal(out, expected)

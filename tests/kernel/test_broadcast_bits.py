"""Broadcasting gives the bits of NumPy's broadcasting, in every kernel, reader and release."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from legal_orders import at_random, execute_in_order, favouring
from mse_oracle import (
    INPUTS,
    as_bits,
    carrier,
    chip_dtypes,
    every_special,
    expected,
    random_tensors,
)

import socs
from kernel.compile import execute
from kernel.interpret import interpret
from kernel.mse_loss_backward import Reduction, plan
from kernel.program import Launch
from kernel.tiling import TilingOptions
from socs.isa import DType, Pipe

F32, F16, BF16 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16
SATURATING = ("Ascend310P3", "Ascend910A", "Ascend310B1")
Shapes = dict[str, tuple[int, ...]]


def launched(name: str, dtype: DType, reduction: Reduction, shapes: Shapes, **named: Any) -> Launch:
    launch = plan(
        socs.load(name),
        shape=shapes["self"],
        target_shape=shapes["target"],
        grad_shape=shapes["grad_output"],
        dtype=dtype,
        reduction=reduction,
        **named,
    ).launch
    assert launch is not None
    return launch


def tensors_for(dtype: DType, shapes: Shapes, seed: int) -> dict[str, Any]:
    """Flat storage of each input, a third of it special values, and an output of rubbish."""
    joined = np.broadcast_shapes(*shapes.values())
    sizes = {**{name: math.prod(dims) for name, dims in shapes.items()}, "out": math.prod(joined)}
    return {
        name: random_tensors(dtype, size, seed + place)["self"]
        for place, (name, size) in enumerate(sizes.items())
    }


def oracle(name: str, dtype: DType, reduction: Reduction, shapes: Shapes, tensors: dict[str, Any]) -> Any:
    """NumPy broadcasts, then the operator's arithmetic; 2/N exactly, N the count of self alone."""
    joined = np.broadcast_shapes(*shapes.values())
    wide = {n: np.broadcast_to(tensors[n].reshape(shapes[n]), joined).reshape(-1) for n in INPUTS}
    count = math.prod(shapes["self"])
    factor = np.float32(float(Fraction(2, count))) if reduction is Reduction.MEAN else np.float32(2)
    return expected(wide, dtype, factor, saturate=name in SATURATING)


@st.composite
def joining_shapes(draw: st.DrawFn, most: int = 700) -> Shapes:
    """Three shapes of rank 0 to 8 that join, dimensions 1 to 7, repeated anywhere."""
    dims: list[int] = []
    for _ in range(draw(st.integers(0, 8))):
        dims.append(draw(st.integers(1, min(7, most // math.prod(dims)))))
    shapes = {}
    for name in INPUTS:
        own = dims[draw(st.integers(0, len(dims))) :] if draw(st.booleans()) else dims
        shapes[name] = tuple(1 if draw(st.integers(0, 2)) == 0 else dim for dim in own)
    return shapes


CASES: Any = {
    "chip_dtype": st.sampled_from(chip_dtypes()),
    "reduction": st.sampled_from(list(Reduction)),
    "release": st.sampled_from(["newer", "older"]),
    "shapes": joining_shapes(),
    "seed": st.integers(0, 2**31),
}


@settings(deadline=None, derandomize=True, database=None, max_examples=120)
@given(tile=st.none() | st.integers(16, 64), blocks=st.none() | st.integers(1, 4), **CASES)
def test_the_interpreter_broadcasts_as_numpy_does(
    chip_dtype: Any,
    reduction: Reduction,
    release: str,
    shapes: Shapes,
    seed: int,
    tile: int | None,
    blocks: int | None,
) -> None:
    name, dtype = chip_dtype
    tensors = tensors_for(dtype, shapes, seed)
    cores = min(blocks, tensors["out"].size, socs.load(name).vector_cores) if blocks else None
    options = TilingOptions(tile_length=tile, block_dim=cores)
    launch = launched(name, dtype, reduction, shapes, release=release, options=options)
    interpret(launch, socs.load(name), tensors)
    right = oracle(name, dtype, reduction, shapes, tensors)
    np.testing.assert_array_equal(as_bits(tensors["out"]), right)


def no_jit(code: str, target: Path) -> None:
    subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", code, str(Path(__file__).parent), str(target)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "ATLAS_EMU_CACHE": str(target.parent)},
        cwd=Path(__file__).parents[2],
        check=True,
    )


# A few shapes whose walks differ are enough for the compiler: each costs it a second.
COMPILED: list[Shapes] = [
    {"self": (40, 50), "target": (40, 50), "grad_output": ()},
    {"self": (40, 50), "target": (50,), "grad_output": (40, 1)},
    {"self": (5, 1, 7, 1, 3, 1, 2, 1), "target": (1, 2, 1, 2, 1, 2, 1, 2), "grad_output": (2,)},
    {"self": (), "target": (1,), "grad_output": (1, 1)},
]


@pytest.mark.parametrize("shapes", COMPILED)
@pytest.mark.parametrize(("name", "dtype"), chip_dtypes())
def test_compiled_interpreted_and_numpy_give_the_same_bits(name: str, dtype: DType, shapes: Shapes) -> None:
    for reduction in Reduction:
        for release in ("newer", "older") if name.startswith("Ascend950") else ("newer",):
            launch = launched(name, dtype, reduction, shapes, release=release)
            tensors = tensors_for(dtype, shapes, 7)
            right = oracle(name, dtype, reduction, shapes, tensors)
            for run in (interpret, execute):
                tensors["out"][...] = 0
                run(launch, socs.load(name), tensors)
                np.testing.assert_array_equal(as_bits(tensors["out"]), right)


@pytest.mark.parametrize(
    ("name", "release"),
    [("Ascend910A", "newer"), ("Ascend950PR_9579", "newer"), ("Ascend950PR_9579", "older")],
)
@pytest.mark.parametrize("dtype", [F32, F16])
def test_all_triples_of_special_values_in_the_kernels_that_broadcast(
    name: str, release: str, dtype: DType
) -> None:
    """Every special self in a row of every special target, under every special grad_output."""
    whole = every_special(dtype)
    special = np.unique(as_bits(whole["self"])).view(carrier(dtype))
    n = special.size
    shapes = {"self": (n, 1, 1), "target": (n, 1), "grad_output": (n,)}
    tensors = {**dict.fromkeys(INPUTS, special), "out": np.zeros(n**3, carrier(dtype))}
    launch = launched(name, dtype, Reduction.NONE, shapes, release=release)
    right = oracle(name, dtype, Reduction.NONE, shapes, tensors)
    assert len(np.unique(right)) > 20
    for run in (interpret, execute):
        tensors["out"][...] = 0
        run(launch, socs.load(name), tensors)
        np.testing.assert_array_equal(as_bits(tensors["out"]), right)


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("Ascend910A", "newer"),
        ("Ascend310P3", "newer"),
        ("Ascend950PR_9579", "newer"),
        ("Ascend950PR_9579", "older"),
    ],
)
@pytest.mark.parametrize("dtype", [F32, F16])
def test_every_pipe_may_run_as_far_ahead_as_the_flags_let_it(name: str, release: str, dtype: DType) -> None:
    shapes = {"self": (7, 30), "target": (30,), "grad_output": ()}
    options = TilingOptions(tile_length=40, block_dim=1)
    launch = launched(name, dtype, Reduction.MEAN, shapes, release=release, options=options)
    tensors = tensors_for(dtype, shapes, 3)
    right = oracle(name, dtype, Reduction.MEAN, shapes, tensors)
    wide = {n: np.broadcast_to(tensors[n].reshape(shapes[n]), (7, 30)).reshape(-1) for n in INPUTS}
    orders = [at_random(seed) for seed in range(4)]
    orders += [favouring(first, *(p for p in Pipe if p is not first)) for first in Pipe]
    for choose in orders:
        mine = {**wide, "out": tensors["out"].copy()}
        execute_in_order(launch, socs.load(name), mine, choose, saturate=name in SATURATING)
        np.testing.assert_array_equal(as_bits(mine["out"]), right)


@pytest.mark.parametrize("shapes", COMPILED[1:3])
def test_a_launch_reads_its_inputs_only_and_writes_its_output_only(shapes: Shapes) -> None:
    dtype, soc, guard = F16, socs.load("Ascend910B4-1"), 64
    launch = launched(soc.name, dtype, Reduction.MEAN, shapes)
    sizes = {name: array.size for name, array in tensors_for(dtype, shapes, 1).items()}
    for run in (interpret, execute):
        whole = {name: random_tensors(dtype, n + 2 * guard, 4)["self"] for name, n in sizes.items()}
        before = {name: array.copy() for name, array in whole.items()}
        tensors = {name: array[guard : guard + sizes[name]] for name, array in whole.items()}
        for name in INPUTS:
            tensors[name].flags.writeable = False
        run(launch, soc, tensors)
        right = oracle(soc.name, dtype, Reduction.MEAN, shapes, tensors)
        np.testing.assert_array_equal(tensors["out"], right)
        before["out"][guard : guard + sizes["out"]] = right
        for name, array in whole.items():
            np.testing.assert_array_equal(array, before[name])


PYTHON_CASE = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
import socs
from kernel.compile import Computation, execute
from kernel.mse_loss_backward import Reduction
from kernel.numerics import vector
from mse_oracle import as_bits
from socs.isa import DType
from test_broadcast_bits import COMPILED, launched, tensors_for
assert not hasattr(vector.sub_float32, "py_func"), "compiled after all"
soc = socs.load("Ascend910B4-1")
shapes, dtype = COMPILED[1], DType.BFLOAT16
tensors = tensors_for(dtype, shapes, 8)
execute(launched(soc.name, dtype, Reduction.MEAN, shapes), soc, tensors)
found = {"broadcast": as_bits(tensors["out"])}
same = dict.fromkeys(shapes, (40, 50))
flat = tensors_for(DType.FLOAT32, same, 8)
views = {name: array.reshape(50, 40).T for name, array in flat.items()}
views["out"] = np.zeros((40, 50), np.float32)
launch = launched(soc.name, DType.FLOAT32, Reduction.MEAN, same)
Computation(launch, soc, "inf_nan").run(views, (40, 50))
found["transposed"] = as_bits(views["out"].reshape(-1))
np.savez(sys.argv[2], **found)
"""


def test_plain_python_broadcasts_and_transposes_to_the_same_bits(tmp_path: Path) -> None:
    no_jit(PYTHON_CASE, tmp_path / "plain.npz")
    plain = np.load(tmp_path / "plain.npz")
    name = "Ascend910B4-1"
    tensors = tensors_for(BF16, COMPILED[1], 8)
    right = oracle(name, BF16, Reduction.MEAN, COMPILED[1], tensors)
    np.testing.assert_array_equal(plain["broadcast"], right)
    same = dict.fromkeys(COMPILED[1], (40, 50))
    flat = tensors_for(F32, same, 8)
    turned = {n: np.ascontiguousarray(flat[n].reshape(50, 40).T).reshape(-1) for n in INPUTS}
    right = oracle(name, F32, Reduction.MEAN, same, turned)
    np.testing.assert_array_equal(plain["transposed"], right)

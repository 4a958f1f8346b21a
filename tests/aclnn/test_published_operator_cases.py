"""Every public test case of the operator, restated in ``tests/data/operator_cases.json``."""

from __future__ import annotations

import json
import math
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aclnn_oracle import DTYPES, SATURATING, bits, expected, first, prepared, same, second, values

import socs
from emulator.aclnn import AclTensor
from emulator.aclnn.checks import broadcast
from kernel.mse_loss_backward import Reduction, plan
from socs.isa import DType

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "operator_cases.json").read_text(encoding="utf-8")
)
NAMES = ("grad_output", "self", "target", "out")
REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}
STATUS = {"success": 0, "failed": 161002}

COMPUTED_UP_TO = 1 << 20
"""Elements up to which a case is always computed; up to ``SLOW_UP_TO`` it is marked slow."""
SLOW_UP_TO = 6 << 20


def shapes_of(case: dict[str, Any]) -> dict[str, Any]:
    shapes = dict(case.get("shapes") or dict.fromkeys(NAMES, case["shape"]))
    if "out" not in shapes:
        shapes["out"] = list(np.broadcast_shapes(*(tuple(s) for s in shapes.values())))
    return shapes


def dtypes_of(case: dict[str, Any]) -> dict[str, Any]:
    dtypes = dict(case.get("dtypes") or dict.fromkeys(NAMES, case["dtype"]))
    return {"out": dtypes["self"], **dtypes}


def elements(case: dict[str, Any]) -> int:
    return max(math.prod(shape) for shape in shapes_of(case).values() if shape is not None)


def runs(kinds: set[str], low: int, high: float) -> list[Any]:
    """(case, chip, reduction) of the cases that can apply and have ``low`` < elements <= ``high``."""
    found = []
    for case in CASES:
        if case["kind"] in kinds and "skip" not in case and low < elements(case) <= high:
            reductions = case.get("reduction", "none")
            reductions = reductions if isinstance(reductions, list) else [reductions]
            for soc, reduction in product(case["socs"], reductions):
                found.append(pytest.param(case, soc, reduction, id=f"{case['id']}-{reduction}-{soc}"))
    return found


def descriptor(case: dict[str, Any], name: str) -> AclTensor | None:
    shape, dtype = shapes_of(case)[name], dtypes_of(case)[name]
    if shape is None:
        return None
    layout = case.get("layout", {}).get(name, {})
    return AclTensor(None, shape, dtype, format=case.get("formats", {}).get(name, "ND"), **layout)


def filled(case: dict[str, Any], name: str, shape: Any, seed: int) -> AclTensor:
    """The case's tensor with values from the case's range."""
    spans = case.get("ranges", {}).get(name, case.get("range", [-1, 1]))
    array = values(shape, dtypes_of(case)[name], seed, wild=0.0)
    with np.errstate(all="ignore"):
        if len(spans) == 2 and isinstance(spans[0], int):
            array = (array.astype(np.float32) * np.float32(spans[1])).astype(array.dtype)
        else:
            special = np.array([float(span) for span in spans], np.float32)
            array = np.resize(special, array.size).astype(array.dtype).reshape(array.shape)
    if "values" in case:
        array = np.array(case["values"][name], array.dtype).reshape(array.shape)
    layout = case.get("layout", {}).get(name)
    form = case.get("formats", {}).get(name, "ND")
    if layout is None:
        return AclTensor(np.ravel(array), shape, dtypes_of(case)[name], format=form)
    memory = np.zeros(math.prod(layout["storage_dims"]), array.dtype)
    tensor = AclTensor(memory, shape, dtypes_of(case)[name], format=form, **layout)
    tensor.to_numpy()[...] = array
    return tensor


def compute(case: dict[str, Any], soc: str, reduction: str) -> None:
    shapes, number = shapes_of(case), REDUCTIONS[reduction]
    if case.get("scalar_grad_unless_none") and reduction != "none":
        shapes["grad_output"] = []
    tensors = [filled(case, name, shapes[name], seed) for seed, name in enumerate(NAMES[:3])]
    out = descriptor(case, "out")
    assert out is not None
    memory = np.full(math.prod(out.storage_dims), 77, DTYPES[dtypes_of(case)["out"]])
    out = AclTensor(memory, out.view_dims, out.dtype, out.strides, format=out.format)
    executor = prepared(*tensors, number, out, soc=soc, release=case.get("release", "newer"))
    assert second(executor) == 0
    wanted = expected(
        *(t.to_numpy() for t in tensors), number, dtypes_of(case)["out"], saturate=soc in SATURATING
    )
    if executor.route is None:
        np.testing.assert_array_equal(memory, np.full_like(memory, 77))
    else:
        same(out.to_numpy(), wanted)
    if "values" in case:
        listed = np.array([float(v) for v in case["values"]["expected_out"]], np.float32)
        same(out.to_numpy(), listed.reshape(out.view_dims))


HOST = {"aclnn_host", "derived", "numeric", "st", "tiling", "kernel", "tbe_compile"}


@pytest.mark.parametrize(("case", "soc", "reduction"), runs(HOST, -1, math.inf))
def test_phase_1_answers_with_the_published_status(case: dict[str, Any], soc: str, reduction: Any) -> None:
    tensors = [descriptor(case, name) for name in NAMES]
    number = REDUCTIONS.get(reduction, reduction)
    status, size, executor = first(
        *tensors[:3], number, tensors[3], soc=soc, release=case.get("release", "newer")
    )
    assert status == STATUS.get(case["expect"], case["expect"])
    assert (executor is None) == (status != 0)
    if "workspace" in case:
        assert size == case["workspace"]
    if "tiling_key" in case:
        shapes = shapes_of(case)
        made = plan(
            socs.load(soc),
            shape=shapes["self"],
            dtype=DType(case["dtype"]),
            reduction=Reduction.parse(reduction),
            grad_shape=shapes["grad_output"],
            target_shape=shapes["target"],
            release=case.get("release", "newer"),
        )
        assert made.tiling is not None
        assert made.tiling.key == case["tiling_key"]
        assert made.tiling.block_dim == case.get("block_dim", made.tiling.block_dim)


def succeeding(low: int, high: float) -> list[Any]:
    """Of more than a million elements only on the first of the case's chips."""
    return [
        p
        for p in runs(HOST, low, high)
        if p.values[0]["expect"] in (0, "success") and (low < 0 or p.values[1] == p.values[0]["socs"][0])
    ]


@pytest.mark.parametrize(("case", "soc", "reduction"), succeeding(-1, COMPUTED_UP_TO))
def test_phase_2_writes_the_bits_of_the_oracle(case: dict[str, Any], soc: str, reduction: str) -> None:
    compute(case, soc, reduction)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "soc", "reduction"), succeeding(COMPUTED_UP_TO, SLOW_UP_TO))
def test_phase_2_writes_the_bits_of_the_oracle_for_millions(
    case: dict[str, Any], soc: str, reduction: str
) -> None:
    compute(case, soc, reduction)


@pytest.mark.parametrize("case", [c for c in CASES if c["kind"] == "infershape"], ids=lambda c: str(c["id"]))
def test_shapes_are_inferred_as_published(case: dict[str, Any]) -> None:
    shapes = shapes_of(case)
    joined = broadcast(shapes["grad_output"], shapes["self"])
    assert joined is not None
    assert broadcast(shapes["target"], joined) == tuple(shapes["out"])


def test_no_case_is_lost() -> None:
    """251 cases: what runs, what runs without being computed, and what cannot apply, with its reason."""
    assert Counter(case["kind"] for case in CASES) == {
        "st": 203,
        "aclnn_host": 12,
        "tiling": 12,
        "derived": 10,
        "tbe_compile": 6,
        "kernel": 4,
        "infershape": 3,
        "numeric": 1,
    }
    assert len({case["id"] for case in CASES}) == len(CASES) == 251
    assert Counter(case["skip"] for case in CASES if "skip" in case) == {
        "unknown dimensions exist at compile time alone": 3,
        "another operator, of the community": 2,
        "the kernel tiling refuses this, but aclnn casts and never asks it": 1,
        "the factor as float16 exists in the compile information of this test alone": 1,
    }
    system = [case for case in CASES if case["kind"] == "st"]
    assert sum(elements(case) <= COMPUTED_UP_TO for case in system) == 147
    assert sum(COMPUTED_UP_TO < elements(case) <= SLOW_UP_TO for case in system) == 26
    assert sum(elements(case) > SLOW_UP_TO for case in system) == 30
    assert all(case["source"] for case in CASES)


def test_the_oracle_is_not_the_emulator() -> None:
    """One value by hand: (3 - 1) * 2/4 * 3 in float32 is 3."""
    x = np.array([0, 1, 2, 3], np.float32)
    assert bits(expected(x, x, np.ones(4, np.float32), 1)).tolist() == [0x80000000, 0, 0x3F800000, 0x40400000]

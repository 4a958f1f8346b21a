"""What phase 1 refuses: each rule, its status, its message, and which of two rules comes first."""

from __future__ import annotations

import re
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest
from aclnn_oracle import A2, A3, A5, CHIPS, INFERENCE, TRAINING, WITH_BFLOAT16, first, message, prepared

import socs
from emulator import aclnn
from emulator.aclnn import AclTensor
from emulator.aclnn.codes import DTYPES
from socs.errors import AtlasError

GOOD: dict[str, Any] = {"grad": (4, 3), "own": (4, 3), "target": (4, 3), "out": (4, 3)}
NINE = (1,) * 9


def tensor(shape: Any, dtype: Any = "float32", **named: Any) -> AclTensor | None:
    return None if shape is None else AclTensor(None, shape, dtype, **named)


def call(
    shapes: dict[str, Any] | None = None,
    dtypes: dict[str, Any] | None = None,
    reduction: Any = 0,
    soc: str = A2,
    **named: Any,
) -> int:
    shapes, dtypes = {**GOOD, **(shapes or {})}, dtypes or {}
    tensors = {name: tensor(shapes[name], dtypes.get(name, "float32")) for name in GOOD}
    status, size, executor = first(
        tensors["grad"], tensors["own"], tensors["target"], reduction, tensors["out"], soc=soc, **named
    )
    assert (executor is None) == (status != 0)
    if status:
        assert size == 0
    return status


RULES: list[tuple[str, dict[str, Any], int, str]] = [
    (
        "grad is null",
        {"shapes": {"grad": None}},
        161001,
        "Expected a proper Tensor but got null for argument t0.",
    ),
    (
        "self is null",
        {"shapes": {"own": None}},
        161001,
        "Expected a proper Tensor but got null for argument t1.",
    ),
    (
        "target is null",
        {"shapes": {"target": None}},
        161001,
        "Expected a proper Tensor but got null for argument t2.",
    ),
    (
        "out is null",
        {"shapes": {"out": None}},
        161001,
        "Expected a proper Tensor but got null for argument t3.",
    ),
    (
        *("grad of another dtype", {"dtypes": {"grad": "float16"}}, 161002),
        "Expected both tensors to have same dtype, but found gradOutput DT_FLOAT16 and self DT_FLOAT.",
    ),
    (
        *("target of another dtype", {"dtypes": {"target": "float64"}}, 161002),
        "Expected both tensors to have same dtype, but found target DT_DOUBLE and self DT_FLOAT.",
    ),
    (
        *("self of a foreign dtype", {"dtypes": dict.fromkeys(("grad", "own", "target"), "int32")}, 161002),
        "Tensor self not implemented for DT_INT32, should be in dtype support list "
        "[DT_FLOAT,DT_FLOAT16,DT_BFLOAT16,].",
    ),
    (
        *("out of a foreign dtype", {"dtypes": {"out": "bool"}}, 161002),
        "Tensor out not implemented for DT_BOOL, should be in dtype support list "
        "[DT_FLOAT,DT_FLOAT16,DT_BFLOAT16,].",
    ),
    ("reduction", {"reduction": 3}, 161002, "Expected reduction to be between 0 and 2, but got 3."),
    (
        "grad of nine dimensions",
        {"shapes": {"grad": NINE}},
        161002,
        "The gradOutput tensor cannot be larger than 8 dimensions.",
    ),
    (
        "self of nine dimensions",
        {"shapes": {"own": NINE}},
        161002,
        "The self tensor cannot be larger than 8 dimensions.",
    ),
    (
        "target of nine dimensions",
        {"shapes": {"target": NINE}},
        161002,
        "The target tensor cannot be larger than 8 dimensions.",
    ),
    (
        *("grad does not fit self", {"shapes": {"grad": (4, 2)}}, 161002),
        "The size of tensor gradOutput [4,2] must match the size of tensor self [4,3].",
    ),
    (
        *("target does not fit", {"shapes": {"target": (5, 3)}}, 161002),
        "The size of tensor target [5,3] must match the size [4,3].",
    ),
    (
        *("out has another shape", {"shapes": {"out": (1, 4, 3)}}, 161002),
        "Expected tensor for out to have same size as [4,3], but got [1,4,3].",
    ),
]
"""Name, what is wrong, status, message; in the documented order."""


@pytest.mark.parametrize(("wrong", "status", "text"), [r[1:] for r in RULES], ids=[r[0] for r in RULES])
def test_each_rule_has_its_status_and_message(wrong: Any, status: int, text: str) -> None:
    assert call(**wrong) == status
    assert message() == text
    assert aclnn.aclGetRecentErrMsg() is None


def merged(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    both = {**a, **b}
    for key in ("shapes", "dtypes"):
        if key in a and key in b:
            both[key] = {**b[key], **a[key]}
    return both


def without_values(text: str) -> str:
    """A message without the dtypes and shapes in it, which a later rule may have changed too."""
    return re.sub(r"DT_\w+|\[[\d,]*\]", "", text)


@pytest.mark.parametrize(
    ("earlier", "later"), list(combinations(RULES, 2)), ids=lambda rule: str(rule[0]).replace(" ", "-")
)
def test_of_two_rules_the_documented_first_one_answers(earlier: Any, later: Any) -> None:
    assert call(**merged(earlier[1], later[1])) == earlier[2]
    assert without_values(message()) == without_values(earlier[3])


def test_an_accepted_call_leaves_no_message() -> None:
    assert call() == 0
    assert aclnn.aclGetRecentErrMsg() is None


@pytest.mark.parametrize("soc", CHIPS)
def test_bfloat16_is_listed_where_the_chip_has_it(soc: str) -> None:
    status = call(dtypes=dict.fromkeys(GOOD, "bfloat16"), soc=soc)
    assert status == (0 if soc in WITH_BFLOAT16 else 161002)
    if status:
        assert message().endswith("support list [DT_FLOAT,DT_FLOAT16,].")


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("own", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
def test_out_may_have_any_dtype_of_the_list(soc: str, own: str, out: str) -> None:
    allowed = soc in WITH_BFLOAT16 or "bfloat16" not in (own, out)
    dtypes = {**dict.fromkeys(("grad", "own", "target"), own), "out": out}
    assert call(dtypes=dtypes, soc=soc) == (0 if allowed else 161002)


@pytest.mark.parametrize("name", sorted(set(DTYPES) - {"float32", "float16", "bfloat16"}))
def test_every_other_acl_dtype_is_refused_as_input_and_as_out(name: str) -> None:
    assert call(dtypes=dict.fromkeys(GOOD, name)) == 161002
    assert message().startswith("Tensor self not implemented for DT_")
    assert call(dtypes={"out": name}) == 161002
    assert message().startswith("Tensor out not implemented for DT_")
    tensors = [AclTensor.empty((4,), name) for _ in range(4)]
    assert first(*tensors[:3], 0, tensors[3])[0] == 161002


def test_numbers_that_are_no_acl_dtype_are_refused_as_well() -> None:

    assert call(dtypes=dict.fromkeys(GOOD, 4711)) == 161002
    assert "DT_UNDEFINED" in message()


@pytest.mark.parametrize("reduction", [-1, 3, 1 << 63, -(1 << 80), None, "mean", 1.0, [1], object()])
def test_a_reduction_that_is_not_0_to_2_is_refused(reduction: Any) -> None:
    assert call(reduction=1) == 0  # the cache must not take 1.0 for 1
    assert call(reduction=reduction) == 161002
    assert message().startswith("Expected reduction to be between 0 and 2, but got ")


@pytest.mark.parametrize("reduction", [True, np.int64(1), np.uint8(2)])
def test_whole_numbers_of_other_types_are_reductions(reduction: Any) -> None:
    assert call(reduction=reduction) == 0


@pytest.mark.parametrize("rank", range(9))
def test_ranks_up_to_8_are_accepted(rank: int) -> None:
    assert call(dict.fromkeys(GOOD, (2,) * rank)) == 0


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [
        (((), (), ()), ()),
        (((1,), (), ()), (1,)),
        (((2, 3), (3,), ()), (2, 3)),
        (((1, 3), (2, 1), (2, 3)), (2, 3)),
        (((5, 1, 1), (1, 6, 1), (1, 1, 7)), (5, 6, 7)),
        (((0,), (1,), ()), (0,)),
        (((4, 0), (1, 1), (4, 1)), (4, 0)),
        (((0,), (2,), (1,)), None),
        (((2,), (3,), (1,)), None),
        (((1,), (3,), (2,)), None),
        (((2, 1), (2,), (3, 2)), None),
    ],
)
def test_three_shapes_broadcast_from_the_right(shapes: Any, wanted: Any) -> None:
    for order in permutations(shapes):
        named = dict(zip(("grad", "own", "target"), order, strict=True))
        assert call({**named, "out": (2,) if wanted is None else wanted}) == (161002 if wanted is None else 0)
        if wanted is not None:
            for other in ((*wanted, 1), (1, *wanted), (*wanted[:-1], 9)):
                assert call({**named, "out": other}) == 161002


@pytest.mark.parametrize("empty", ["grad", "own", "target"])
def test_any_empty_input_makes_the_call_empty(empty: str) -> None:
    shapes = {**dict.fromkeys(GOOD, (2, 1)), empty: (2, 0), "out": (2, 0)}
    tensors = [AclTensor.empty(shapes[name], "float32") for name in GOOD]
    executor = prepared(*tensors[:3], 1, tensors[3])
    assert (executor.steps, executor.workspace_size, executor.route) == ((), 0, None)


@pytest.mark.parametrize("wrong", [r[1] for r in RULES if "shapes" not in r[1]])
def test_an_empty_call_is_checked_like_any_other(wrong: Any) -> None:
    assert call(**{**wrong, "shapes": dict.fromkeys(GOOD, (0, 3))}) == 161002


def test_an_empty_call_needs_no_kernel_and_no_valid_strides() -> None:
    far = AclTensor(None, (0, 3), "float32", strides=(7, 1000), storage_dims=(1,), format="FRACTAL_NZ")
    assert first(far, far, far, 1, far, soc=A5)[0] == 0


STRIDED_BEYOND = [
    {"strides": (4, 1), "storage_dims": (14,)},
    {"strides": (-3, 1), "storage_dims": (12,)},
    {"strides": (1, 4), "offset": 1, "storage_dims": (12,)},
    {"strides": (1, 4), "offset": -1, "storage_dims": (12,)},
    {"strides": (3,), "storage_dims": (12,)},
    {"strides": (1, 4, 1), "storage_dims": (12,)},
    {"strides": (1 << 62, 1), "storage_dims": (12,)},
]


@pytest.mark.parametrize("layout", STRIDED_BEYOND)
@pytest.mark.parametrize("place", range(4))
def test_a_strided_view_outside_its_storage_is_561103(layout: dict[str, Any], place: int) -> None:
    tensors = [AclTensor(None, (4, 3), "float32", **(layout if i == place else {})) for i in range(4)]
    assert first(*tensors[:3], 0, tensors[3])[0] == 561103
    assert ("grad_output", "self", "target", "out")[place] in message()


def test_a_strided_view_that_just_fits_is_accepted() -> None:
    for layout in (
        {"strides": (4, 1), "storage_dims": (15,)},
        {"strides": (-3, 1), "offset": 9, "storage_dims": (12,)},
        {"strides": (1, 4), "offset": 1, "storage_dims": (13,)},
    ):
        view = AclTensor(None, (4, 3), "float32", **layout)  # type: ignore[arg-type]
        assert first(view, view, view, 0, view)[0] == 0


def test_the_range_of_a_contiguous_view_is_not_looked_at_in_phase_1() -> None:
    view = AclTensor(None, (4, 3), "float32", offset=100, storage_dims=(12,))
    assert first(view, view, view, 0, view)[0] == 0


def test_a_chip_without_a_registered_kernel_is_561103() -> None:
    bare = socs.load(A2).model_copy(update={"short_name": "Ascend035"})
    view = AclTensor(None, (4,), "float32")
    assert first(view, view, view, 0, view, soc=bare)[0] == 561103
    assert "Ascend035" in message()


def test_the_newer_950_takes_format_nd_alone() -> None:
    plain = AclTensor(None, (4,), "float32")
    other = AclTensor(None, (4,), "float32", format="NCHW")
    for place in range(3):
        inputs = [other if i == place else plain for i in range(3)]
        assert first(*inputs, 0, plain, soc=A5)[0] == 561103
        assert first(*inputs, 0, plain, soc=A5, release="older")[0] == 0
    assert first(plain, plain, plain, 0, other, soc=A5)[0] == 0


@pytest.mark.parametrize("soc", [A2, A3, TRAINING, INFERENCE])
@pytest.mark.parametrize("form", [-1, "NHWC", "NC1HWC0", "FRACTAL_NZ", 50, 4711])
def test_no_format_is_refused_elsewhere(soc: str, form: Any) -> None:
    view = AclTensor(None, (4,), "float32", format=form)
    assert first(view, view, view, 0, view, soc=soc)[0] == 0


@pytest.mark.parametrize(
    "dims", [(-3,), (2, -1), (-2, -2), (1 << 62, 1 << 62), (1 << 63) // (1 << 60) * (1 << 61,), (1 << 61,)]
)
def test_sizes_that_no_memory_can_have_are_561103(dims: Any) -> None:
    view = AclTensor(None, dims, "float32")
    assert first(view, view, view, 1, view)[0] == 561103


def test_a_huge_call_within_64_bits_passes_phase_1() -> None:
    view = AclTensor(None, (1 << 40,), "float16")
    status, size, _ = first(view, view, view, 1, view)
    assert (status, size) == (0, 512)


def test_misuse_of_python_is_an_error_of_python() -> None:
    view = AclTensor(None, (4,), "float32")
    with pytest.raises(AtlasError, match="self is a ndarray, no AclTensor"):
        first(view, np.zeros(4, np.float32), view, 0, view)
    with pytest.raises(AtlasError, match="release"):
        first(view, view, view, 0, view, release="oldest")
    with pytest.raises(AtlasError, match="Ascend999"):
        first(view, view, view, 0, view, soc="Ascend999")

"""What the operator refuses, in the documented order, with the documented status and a message that helps."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mse_oracle import as_bits, expected, planned, random_tensors

import socs
from kernel import registry
from kernel.interpret import interpret
from kernel.mse_loss_backward import (
    PARAM_INVALID,
    Plan,
    Reduction,
    check_dtypes,
    check_shapes,
    coefficient,
    plan,
    supported_dtypes,
)
from kernel.tiling import TilingOptions
from socs.errors import AtlasError
from socs.isa import DType

F32, F16, BF16 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16
A2 = socs.load("Ascend910B4-1")
WITHOUT_BFLOAT16 = {1001, 2002, 3002}


def refused(status: int | None, function: Any, *arguments: Any, **named: Any) -> str:
    """The message of the ``AtlasError`` with ``status`` that the call raises."""
    with pytest.raises(AtlasError) as caught:
        function(*arguments, **named)
    assert caught.value.status == status
    assert "\n" not in str(caught.value)
    return str(caught.value)


def planned_for(name: str = A2.name, shape: Any = (1000,), dtype: DType = F32, **named: Any) -> Plan:
    return plan(socs.load(name), shape=shape, dtype=dtype, reduction=Reduction.MEAN, **named)


def test_the_status_is_aclnn_err_param_invalid() -> None:
    assert PARAM_INVALID == 161002


@pytest.mark.parametrize("name", socs.names())
def test_bfloat16_is_taken_by_a2_a3_and_950_alone(name: str) -> None:
    soc = socs.load(name)
    assert soc.npu_arch in {1001, 2002, 3002, 2201, 3510}
    if soc.npu_arch in WITHOUT_BFLOAT16:
        assert supported_dtypes(soc) == (F32, F16)
        message = refused(PARAM_INVALID, check_dtypes, soc, BF16, BF16, BF16)
        assert message == (
            f"self is bfloat16: {name} (npu_arch {soc.npu_arch}) takes float32, float16 for this operator"
        )
    else:
        assert supported_dtypes(soc) == (F32, F16, BF16)
        assert check_dtypes(soc, BF16, BF16, BF16) is BF16


@pytest.mark.parametrize("name", ["Ascend310P3", "Ascend910A", "Ascend310B1"])
def test_planning_bfloat16_fails_even_where_nothing_would_be_launched(name: str) -> None:
    for shape in ((8,), (0,)):
        assert "bfloat16" in refused(PARAM_INVALID, planned_for, name, shape, BF16)


def test_dtypes_are_checked_in_the_documented_order() -> None:
    """grad_output against self, target against self, self in the list, out in the list."""

    def first(grad: str, self: str, target: str, out: str | None) -> str | None:
        if grad != self:
            return f"grad_output is {grad} but self is {self}: they must agree"
        if target != self:
            return f"target is {target} but self is {self}: they must agree"
        for name, dtype in (("self", self), ("out", out or self)):
            if dtype not in ("float32", "float16", "bfloat16"):
                return (
                    f"{name} is {dtype}: Ascend910B4-1 (npu_arch 2201) takes float32, float16, bfloat16 "
                    "for this operator"
                )
        return None

    some = ("float32", "bfloat16", "int32", "float64")
    for grad, self, target, out in itertools.product(some, some, some, (None, *some)):
        message = first(grad, self, target, out)
        if message is None:
            assert check_dtypes(A2, grad, self, target, out) == self
        else:
            assert refused(PARAM_INVALID, check_dtypes, A2, grad, self, target, out) == message


def test_out_may_have_another_dtype_of_the_list() -> None:
    assert check_dtypes(A2, "float16", "float16", "float16", "float32") is F16
    p3 = socs.load("Ascend310P3")
    assert refused(PARAM_INVALID, check_dtypes, p3, "float16", "float16", "float16", "bfloat16").startswith(
        "out is bfloat16: Ascend310P3"
    )


NINE = (1,) * 9


@pytest.mark.parametrize(
    ("grad", "self", "target", "out", "message"),
    [
        # Everything is wrong: the first rule speaks.
        (NINE, NINE, NINE, (3,), "grad_output has 9 dimensions: at most 8 are allowed"),
        ((2,), NINE, NINE, (3,), "self has 9 dimensions: at most 8 are allowed"),
        ((2,), (3,), NINE, (3,), "target has 9 dimensions: at most 8 are allowed"),
        ((2,), (3,), (4,), (3,), "grad_output [2] and self [3] cannot be broadcast together"),
        (
            (2, 1),
            (3,),
            (4,),
            (9,),
            "target [4] cannot be broadcast with [2, 3], the shape of grad_output and self",
        ),
        (
            (2, 1),
            (3,),
            (1,),
            (2, 4),
            "out is [2, 4]: it must be exactly [2, 3], the broadcast shape of the inputs",
        ),
        ((2, 3), (2, 3), (2, 3), (1, 2, 3), "out is [1, 2, 3]: it must be exactly [2, 3]"),
        ((2, 3), (2, 3), (2, 3), (6,), "out is [6]: it must be exactly [2, 3]"),
        ((0,), (2,), (2,), None, "grad_output [0] and self [2] cannot be broadcast together"),
        ((), (), (), (1,), "out is [1]: it must be exactly []"),
        # No rank check on out of its own.
        ((), (), (), NINE, "out is [1, 1, 1, 1, 1, 1, 1, 1, 1]: it must be exactly []"),
    ],
)
def test_shapes_are_checked_in_the_documented_order(
    grad: Any, self: Any, target: Any, out: Any, message: str
) -> None:
    assert message in refused(PARAM_INVALID, check_shapes, grad, self, target, out)


def joined(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The broadcast shape by the documented rule: right-aligned, equal or 1; 1 with 0 gives 0."""
    rank = max(map(len, shapes))
    result = []
    for dims in zip(*((1,) * (rank - len(s)) + s for s in shapes), strict=True):
        others = {d for d in dims if d != 1}
        if len(others) > 1:
            return None
        result.append(others.pop() if others else 1)
    return tuple(result)


SHAPE = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)


@settings(max_examples=200, deadline=None)
@given(SHAPE, SHAPE, SHAPE)
def test_shapes_join_by_the_documented_rule(a: Any, b: Any, c: Any) -> None:
    shape = joined(a, b, c)
    if shape is None:
        refused(PARAM_INVALID, check_shapes, a, b, c)
    else:
        assert check_shapes(a, b, c) == check_shapes(a, b, c, shape) == shape


def test_eight_dimensions_are_allowed_and_lists_are_shapes() -> None:
    eight = (2, 1, 2, 1, 2, 1, 2, 1)
    assert check_shapes(eight, eight, eight, eight) == eight
    assert check_shapes([2, 3], [2, 3], [2, 3], [2, 3]) == (2, 3)


@pytest.mark.parametrize(
    ("value", "reduction"),
    [
        *(("none", 0), ("mean", 1), ("sum", 2), ("MEAN", 1), ("Sum", 2)),
        *((0, 0), (1, 1), (2, 2), (Reduction.SUM, 2)),
    ],
)
def test_a_reduction_is_a_word_or_its_acl_number(value: Any, reduction: int) -> None:
    assert Reduction.parse(value) is Reduction(reduction)


@pytest.mark.parametrize("value", ["", "max", "1", "mean ", -1, 3, True, 1.0, None])
def test_any_other_reduction_is_refused(value: Any) -> None:
    assert refused(PARAM_INVALID, Reduction.parse, value) == (
        f"reduction = {value!r}: must be none, mean or sum (0, 1, 2)"
    )


@pytest.mark.parametrize(
    ("shape", "grad", "target"),
    [
        ((0,), None, None),
        ((2, 0, 3), None, None),
        ((1,), (0,), None),
        ((1,), (1,), (0,)),
        ((3, 1), (3, 0), None),
    ],
)
def test_nothing_is_launched_where_a_tensor_is_empty(shape: Any, grad: Any, target: Any) -> None:
    p = planned_for(shape=shape, grad_shape=grad, target_shape=target)
    assert p.launch is p.tiling is None
    assert p.warnings == ("a tensor is empty: nothing is launched",)
    assert 0 in p.shape


def test_an_empty_call_still_has_to_be_legal() -> None:
    assert "cannot be broadcast" in refused(PARAM_INVALID, planned_for, shape=(0,), grad_shape=(2,))
    message = refused(PARAM_INVALID, planned_for, shape=(-1, 0))
    assert message == "shape [-1, 0]: dimension -1 is negative"


def test_a_0_d_call_is_one_element_with_coefficient_2() -> None:
    p = planned_for(shape=())
    assert p.shape == ()
    assert p.launch is not None
    assert p.launch.scalars == {"coefficient": 2.0}
    assert p.launch.block_dim == 1
    tensors = random_tensors(F32, 1, 0)
    interpret(p.launch, p.soc, tensors)
    np.testing.assert_array_equal(
        as_bits(tensors["out"]), expected(tensors, F32, np.float32(2), saturate=False)
    )


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("Ascend910B4", "mse_loss_grad"),
        ("Ascend310P3", "mse_loss_grad"),
        ("Ascend910A", "mse_loss_grad"),
        ("Ascend950PR_9579", "mse_loss_grad_v2_950"),
    ],
)
def test_a_kernel_that_cannot_broadcast_is_refused_for_shapes_that_differ(name: str, runs: str) -> None:
    shapes = {"shape": (4, 5), "grad_shape": (1, 5), "target_shape": (5,)}
    message = refused(None, planned_for, name, kernel="mse_loss_grad_v2", **shapes)
    assert message == (
        "mse_loss_grad_v2 takes equal shapes; self is [4, 5], target [5], grad_output [1, 5]: "
        f"{name} runs {runs} for them"
    )
    # Shapes of equal size that differ in rank are not alike either.
    message = refused(None, planned_for, name, (4, 5), grad_shape=(1, 4, 5), kernel="mse_loss_grad_v2")
    assert "takes equal shapes" in message
    assert planned_for(name, **shapes).kernel == runs


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("Ascend910B4", None),
        ("Ascend910_9391", None),
        ("Ascend310P1", None),
        ("Ascend910A", "mse_loss_grad"),
        ("Ascend310B4", "mse_loss_grad"),
        ("Ascend950PR_9579", "mse_loss_grad_v2_950"),
    ],
)
def test_a_plan_says_which_kernel_a_chosen_one_stands_in_for(name: str, real: str | None) -> None:
    assert planned_for(name).stand_in_for is None
    assert planned_for(name, kernel="mse_loss_grad_v2").stand_in_for == real


@pytest.mark.parametrize("option", ["tile-length", "buffer-num", "block-dim"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_cut_into_nothing_is_refused(option: str, value: int) -> None:
    message = refused(None, TilingOptions, **{option.replace("-", "_"): value})
    assert message == f"{option} = {value}: must be at least 1"


@pytest.mark.parametrize(
    ("name", "dtype", "most", "limit", "origin"),
    [
        # float32: 16 B an element and buffer; 16-bit: 8 B and 16 B of scratch. Buffers hold a multiple of 32.
        ("Ascend910B4-1", F32, 12_288, 196_608, "socs/data/ascend910b.toml"),
        ("Ascend910B4-1", BF16, 8_192, 196_608, "socs/data/ascend910b.toml"),
        ("Ascend310P3", F16, 10_912, 262_144, "socs/data/ascend310p.toml"),
        ("Ascend310P3", F32, 16_384, 262_144, "socs/data/ascend310p.toml"),
    ],
)
def test_a_tile_that_does_not_fit_is_refused_with_the_limit_and_where_it_stands(
    name: str, dtype: DType, most: int, limit: int, origin: str
) -> None:
    planned(name, dtype, 2**22, tile_length=most, buffer_num=1)
    asked = (most + 32) * (16 if dtype is F32 else 24)
    message = refused(None, planned, name, dtype, 2**22, tile_length=most + 1, buffer_num=1)
    assert message == (f"the tile needs {asked:,} B of UB, {name} has {limit:,} B ({origin}: ub.bytes)")


def test_every_buffer_counts() -> None:
    planned(A2, F32, 2**20, tile_length=6144, buffer_num=2)
    assert "the tile needs 197,632 B of UB" in refused(
        None, planned, A2, F32, 2**20, tile_length=6145, buffer_num=2
    )


def test_more_blocks_than_cores_or_elements_are_refused() -> None:
    assert planned(A2, F32, 1000, block_dim=40).launch is not None
    message = refused(None, planned, A2, F32, 1001, block_dim=41)
    assert message == (
        "block-dim = 41: Ascend910B4-1 has 40 vector cores (socs/data/ascend910b.toml: vector_cores)"
    )
    message = refused(None, planned, A2, F32, 7, block_dim=8)
    assert message == "block-dim = 8: there are only 7 elements to share"
    assert planned(A2, F32, 7, block_dim=7).launch is not None
    # The host's own rule leaves one core out where the others come out even: 1014 = 39 * 26, and
    # 1000 = 40 * 25. But more blocks than cores are refused before that rule could save them.
    launch = planned(A2, F32, 1014, block_dim=40).launch
    assert launch is not None
    assert launch.block_dim == 39
    assert refused(None, planned, A2, F32, 1000, block_dim=41).startswith("block-dim = 41: Ascend910B4-1 has")


def test_a_ninth_buffer_has_no_event_id() -> None:
    assert planned(A2, F32, 1000, tile_length=32, buffer_num=8).launch is not None
    message = refused(None, planned, A2, F32, 1000, tile_length=32, buffer_num=9)
    assert message.startswith("the kernel needs more than 8 events from MTE2 to V")
    assert message.endswith("use a smaller buffer_num")


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("Ascend910A", {}),
        ("Ascend310B1", {}),
        ("Ascend910B4", {"grad_shape": ()}),
        ("Ascend950PR_9579", {"release": "older"}),
    ],
)
def test_a_third_buffer_has_no_event_id_where_each_input_has_its_queue(name: str, named: Any) -> None:
    def with_buffers(number: int) -> Plan:
        return planned_for(name, options=TilingOptions(tile_length=64, buffer_num=number), **named)

    assert with_buffers(2).launch is not None
    message = refused(None, with_buffers, 3)
    assert message.startswith("the kernel needs more than 8 events from MTE2 to V")
    assert message.endswith("use a smaller buffer_num")


@pytest.mark.parametrize("name", ["Ascend910B4-1", "Ascend310P3"])
@pytest.mark.parametrize("dtype", [F32, F16])
def test_tiles_of_one_element_give_the_same_bits(name: str, dtype: DType) -> None:
    soc, n = socs.load(name), 67
    launch = planned(soc, dtype, n, tile_length=1, block_dim=3).launch
    assert launch is not None
    tensors = random_tensors(dtype, n, 12)
    interpret(launch, soc, tensors)
    oracle = expected(tensors, dtype, coefficient((n,), Reduction.MEAN), saturate=name == "Ascend310P3")
    np.testing.assert_array_equal(as_bits(tensors["out"]), oracle)


def test_the_hosts_own_float16_tiling_on_310p_warns_where_a_users_is_refused() -> None:
    p = planned("Ascend310P3", F16, 10_913)
    assert [f.rule for f in p.findings] == ["capacity"]
    (warning,) = p.warnings
    assert "262,656 B" in warning
    assert "the real tiling asks for this too (docs/deviations.md)" in warning
    assert planned("Ascend310P3", F16, 10_912).warnings == ()
    assert "262,656 B" in refused(None, planned, "Ascend310P3", F16, 10_913, buffer_num=1)


def test_a_launch_too_large_for_the_hosts_32_bits_warns() -> None:
    text = "4294967296 elements: the real tiling counts in 32 bits and would wrap"
    assert not any("32 bits" in warning for warning in planned(A2, F32, 2**32 - 1).warnings)
    assert any(warning.startswith(text) for warning in planned(A2, F32, 2**32).warnings)
    assert "more than" in refused(None, planned, A2, F32, 2**48 + 1)
    assert planned(A2, F32, 2**48).launch is not None


def test_a_launch_says_what_it_moves() -> None:
    launch = planned(A2, F16, 1001).launch
    assert launch is not None
    assert launch.bytes_read == 3 * 2002
    assert launch.bytes_written == 2002
    assert {t.name for t in launch.tensors if t.written} == {"out"}


def test_an_unknown_kernel_is_refused_with_the_known_ones() -> None:
    assert refused(None, registry.find, "mse") == (
        "unknown kernel 'mse': there are mse_loss_grad, mse_loss_grad_950, mse_loss_grad_triton, "
        "mse_loss_grad_v2, mse_loss_grad_v2_950"
    )
    assert refused(None, planned_for, kernel="mse").startswith("unknown kernel 'mse'")
    for name, kernel in registry.KERNELS.items():
        assert registry.find(name) is kernel
        assert kernel.name == name

"""Which kernels a call launches and what workspace it asks for, against sums made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from aclnn_oracle import A2, A3, A5, CHIPS, EDGE, INFERENCE, TRAINING, prepared
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.aclnn import AclOpExecutor, AclTensor
from emulator.aclnn.workspace import Resident, aligned, workspace_bytes


def tensor(dims: Any, dtype: str = "float32", **named: Any) -> AclTensor:
    return AclTensor(None, dims, dtype, **named)


def transposed(rows: int, columns: int, dtype: str = "float32") -> AclTensor:
    return tensor((rows, columns), dtype, strides=(1, rows))


def route(
    soc: str,
    grad: AclTensor,
    own: AclTensor | None = None,
    target: AclTensor | None = None,
    out: AclTensor | None = None,
    **named: Any,
) -> AclOpExecutor:
    own, target, out = own or grad, target or grad, out or grad
    return prepared(grad, own, target, 1, out, soc=soc, **named)


def pad(size: int) -> int:
    """Bytes of one tensor in the workspace."""
    return (size + 32 + 511) // 512 * 512


V2, TBE = "MseLossGradV2", "MseLossGrad"


@pytest.mark.parametrize(
    ("soc", "release", "kernel", "variant", "workspace"),
    [
        (A2, "newer", V2, "v2", 512),
        (A2, "older", V2, "v2", 512),
        (A3, "newer", V2, "v2", 512),
        (INFERENCE, "newer", V2, "v2", 512),
        (TRAINING, "newer", TBE, "tbe", 0),
        (EDGE, "newer", TBE, "tbe", 0),
        (A5, "newer", V2, "register_based", 512),
        (A5, "older", TBE, "atvoss", 16777728),
    ],
)
def test_the_plain_call(soc: str, release: str, kernel: str, variant: str, workspace: int) -> None:
    executor = route(soc, tensor((1000, 3)), release=release)
    assert executor.steps == (kernel,)
    assert executor.route is not None
    assert executor.route.variant == variant
    assert executor.workspace_size == workspace
    assert not executor.route.uses_workspace


@pytest.mark.parametrize(
    ("soc", "release", "kernel", "variant", "workspace"),
    [
        (A2, "newer", TBE, "tbe", 0),
        (A3, "newer", TBE, "tbe", 0),
        (INFERENCE, "newer", TBE, "tbe", 0),
        (TRAINING, "newer", TBE, "tbe", 0),
        (A5, "newer", V2, "register_based", 512),
        (A5, "older", TBE, "atvoss", 16777728),
    ],
)
def test_broadcasting_is_left_to_a_kernel_that_can(
    soc: str, release: str, kernel: str, variant: str, workspace: int
) -> None:
    full = tensor((4, 6))
    for other in (tensor(()), tensor((6,)), tensor((4, 1)), tensor((1, 6))):
        for inputs in ((other, full, full), (full, other, full), (full, full, other)):
            executor = route(soc, *inputs, full, release=release)
            assert executor.steps == (kernel,)
            assert executor.route is not None
            assert (executor.route.variant, executor.workspace_size) == (variant, workspace)


def test_v2_asks_for_equal_shapes_and_not_for_shapes_that_broadcast_alike() -> None:
    one, two = tensor((1, 3)), tensor((3,))
    executor = route(A2, one, two, one, one)
    assert executor.steps == (TBE,)


def test_formats_that_differ_take_the_kernel_away() -> None:
    nchw, nd = tensor((4, 4), format="NCHW"), tensor((4, 4))
    assert route(A2, nchw, nchw, nchw, nd).steps == (V2,)
    assert route(A2, nd, nd, nd, nchw).steps == (V2,)
    for place in range(3):
        inputs = [nchw if i == place else nd for i in range(3)]
        assert route(A2, *inputs, nd).steps == (TBE,)
        assert route(INFERENCE, *inputs, nd).steps == (TBE,)


COPY = pad(600 * 40 * 4)


@pytest.mark.parametrize(
    ("which", "steps", "workspace"),
    [
        ((1, 0, 0, 0), ("Contiguous(grad_output)", V2), COPY + 512),
        ((0, 1, 0, 0), ("Contiguous(self)", V2), COPY + 512),
        ((0, 0, 1, 0), ("Contiguous(target)", V2), COPY + 512),
        ((0, 0, 0, 1), (V2, "ViewCopy"), COPY + 512),
        ((1, 1, 0, 0), ("Contiguous(grad_output)", "Contiguous(self)", V2), 2 * COPY + 512),
        ((0, 1, 0, 1), ("Contiguous(self)", V2, "ViewCopy"), 2 * COPY + 512),
        (
            (1, 1, 1, 1),
            ("Contiguous(grad_output)", "Contiguous(self)", "Contiguous(target)", V2, "ViewCopy"),
            4 * COPY + 512,
        ),
    ],
)
def test_strided_tensors_cost_a_copy_each(which: Any, steps: Any, workspace: int) -> None:
    tensors = [transposed(600, 40) if strided else tensor((600, 40)) for strided in which]
    executor = route(A2, *tensors)
    assert executor.steps == steps
    assert executor.workspace_size == workspace
    assert executor.route is not None
    assert executor.route.uses_workspace


def test_a_cast_result_takes_the_place_of_what_is_dead() -> None:
    """float16 in, float32 out: the result (2 B) is read by Cast; Cast's own (4 B) goes to ViewCopy.

    V2: the result, then Cast's result in the bucket of the kernel's workspace. TBE has none of that: the copy
    of target is dead when Cast writes, and its bucket grows.
    """
    n = 600 * 40
    half, plain = tensor((600, 40), "float16"), tensor((600, 40))
    executor = route(A2, half, half, half, plain)
    assert executor.steps == (V2, "Cast")
    assert executor.workspace_size == pad(2 * n) + 512
    executor = route(A2, half, half, half, transposed(600, 40))
    assert executor.steps == (V2, "Cast", "ViewCopy")
    assert executor.workspace_size == pad(2 * n) + pad(4 * n)
    executor = route(TRAINING, half, half, transposed(600, 40, "float16"), transposed(600, 40))
    assert executor.steps == ("Contiguous(target)", TBE, "Cast", "ViewCopy")
    assert executor.workspace_size == pad(4 * n) + pad(2 * n)


def test_copies_of_broadcast_inputs_are_as_small_as_the_inputs() -> None:
    row = tensor((40, 30), strides=(1, 40))
    full = tensor((50, 40, 30))
    executor = route(A2, row, full, full, full)
    assert executor.steps == ("Contiguous(grad_output)", TBE)
    assert executor.workspace_size == pad(40 * 30 * 4)


@pytest.mark.parametrize("soc", CHIPS)
def test_training_and_inference_write_to_out_only_if_it_is_all_of_its_storage(soc: str) -> None:
    plain = tensor((8, 16))
    flat = tensor((8, 16), storage_dims=(128,))
    larger = tensor((8, 16), offset=5, storage_dims=(200,))
    copies = soc in (TRAINING, INFERENCE)
    for out in (flat, larger):
        executor = route(soc, plain, out=out)
        assert ("ViewCopy" in executor.steps) == copies
    assert "ViewCopy" not in route(soc, plain, out=plain).steps


@pytest.mark.parametrize(
    "layout",
    [
        {"view_dims": (1, 7), "strides": (99, 1)},
        {"view_dims": (7, 1), "strides": (1, -5)},
        {"view_dims": (1,), "strides": (0,)},
        {"view_dims": (1, 1), "strides": (5,)},
        {"view_dims": (4, 3), "strides": (1, 4), "format": "FRACTAL_NZ"},
    ],
)
def test_what_counts_as_contiguous(layout: Any) -> None:
    view = AclTensor(None, dtype="float32", **layout)
    assert route(A2, view).steps == (V2,)


@pytest.mark.parametrize("strides", [(0, 1), (1, 0), (-3, 1), (3, -1), (6, 2), (1, 4)])
def test_what_counts_as_strided(strides: Any) -> None:
    view = tensor((4, 3), strides=strides, offset=20, storage_dims=(60,))
    assert route(A2, view).steps == (
        *("Contiguous(grad_output)", "Contiguous(self)", "Contiguous(target)"),
        *(V2, "ViewCopy"),
    )


def test_sizes_are_padded_by_32_and_aligned_to_512() -> None:
    assert [aligned(n) for n in (0, 1, 480, 481, 992, 993, 16 << 20)] == [
        512,
        512,
        512,
        1024,
        1024,
        1536,
        16777728,
    ]


def test_a_tensor_goes_into_the_last_bucket_that_is_free() -> None:
    first, second = Resident("a", 5000, 0, 0), Resident("b", 100, 1, 1)
    assert workspace_bytes([first]) == pad(5000)
    assert workspace_bytes([first, second]) == pad(5000)
    alive = Resident("a", 5000, 0, 1)
    assert workspace_bytes([alive, second]) == pad(5000) + pad(100)
    fed = Resident("b", 100, 1, 1, feeds_on=("a",))
    assert workspace_bytes([first, fed]) == pad(5000) + pad(100)
    late = Resident("c", 9000, 5, 5)
    assert workspace_bytes([first, Resident("b", 100, 0, 1), late]) == pad(5000) + pad(9000)
    assert workspace_bytes([]) == 0


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 6), st.integers(0, 6)), max_size=8).map(
        lambda rows: sorted(rows, key=lambda row: row[1])
    )
)
def test_the_workspace_holds_what_is_alive_at_once_and_no_more_than_everything(
    rows: list[tuple[int, int, int]],
) -> None:
    residents = [Resident(str(i), size, at, at + life) for i, (size, at, life) in enumerate(rows)]
    total = workspace_bytes(residents)
    at_once = [sum(pad(r.bytes) for r in residents if r.first <= t <= r.last) for t in range(13)]
    assert max(at_once) <= total <= sum(pad(r.bytes) for r in residents)
    assert total % 512 == 0

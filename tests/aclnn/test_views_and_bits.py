"""What phase 2 writes, bit for bit: views, broadcasting, casts, overflow; and what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from aclnn_oracle import (
    A2,
    A3,
    A5,
    CHIPS,
    DTYPES,
    SATURATING,
    TRAINING,
    WITH_BFLOAT16,
    Array,
    bits,
    computed,
    expected,
    prepared,
    same,
    second,
    values,
)

from emulator import aclnn
from emulator.aclnn import AclTensor

View = Callable[[Array], Array]

LAYOUTS: dict[str, View] = {
    "contiguous": lambda a: a.copy(),
    "transposed": lambda a: a.T.copy().T,
    "sliced": lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    "cut out": lambda a: np.pad(a, 2)[2:-2, 2:-2],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "reversed and transposed": lambda a: np.ascontiguousarray(a.T[::-1])[::-1].T,
}
"""The same elements, in memory of another order."""


def chip_dtypes() -> list[Any]:
    return [(soc, dtype) for soc in CHIPS for dtype in DTYPES if dtype != "bfloat16" or soc in WITH_BFLOAT16]


@pytest.mark.parametrize(("soc", "dtype"), chip_dtypes())
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_the_plain_call_has_the_bits_of_the_oracle(soc: str, dtype: str, reduction: int) -> None:
    grad, own, target = (values((37, 11), dtype, seed) for seed in (1, 2, 3))
    out = np.empty_like(own)
    computed(grad, own, target, reduction, out, soc=soc)
    same(out, expected(grad, own, target, reduction, saturate=soc in SATURATING))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_layout_of_a_tensor_does_not_change_bits(layout: str, place: int, dtype: str) -> None:
    tensors = [values((6, 10), dtype, seed) for seed in range(4)]
    wanted = expected(tensors[0], tensors[1], tensors[2], 1)
    tensors[place] = LAYOUTS[layout](tensors[place])
    executor = computed(*tensors[:3], 1, tensors[3])
    same(tensors[3], wanted)
    assert (len(executor.steps) == 1) == tensors[place].flags.c_contiguous or layout == "cut out"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("soc", [A2, TRAINING, A5])
def test_all_four_tensors_may_be_views(layout: str, dtype: str, soc: str) -> None:
    if dtype == "bfloat16" and soc not in WITH_BFLOAT16:
        pytest.skip("no bfloat16")
    tensors = [LAYOUTS[layout](values((5, 9), dtype, seed)) for seed in range(4)]
    computed(*tensors[:3], 2, tensors[3], soc=soc)
    same(tensors[3], expected(*tensors[:3], 2, saturate=soc in SATURATING))


SHAPES = [
    ((), (4, 5), (4, 5)),
    ((1,), (4, 5), (4, 5)),
    ((4, 5), (), ()),
    ((5,), (4, 1), (4, 5)),
    ((4, 1), (1, 5), ()),
    ((2, 1, 1), (1, 3, 1), (1, 1, 4)),
    ((1, 3, 2), (2, 3, 2), (3, 2)),
    ((), (), ()),
    ((1, 1, 1, 1, 1, 1, 1, 2), (2, 1, 2, 1, 1, 1, 1, 1), (1, 3, 1)),
]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("soc", [A2, A5])
def test_three_way_broadcasting_has_the_bits_of_the_oracle(
    shapes: Any, dtype: str, reduction: int, soc: str
) -> None:
    grad, own, target = (values(shape, dtype, seed) for seed, shape in enumerate(shapes))
    out = np.empty(np.broadcast_shapes(*shapes), own.dtype)
    computed(grad, own, target, reduction, out, soc=soc)
    same(out, np.broadcast_to(expected(grad, own, target, reduction), out.shape))


def test_mean_divides_by_the_elements_of_self_before_broadcasting() -> None:
    for soc in CHIPS:
        one = np.ones((), np.float32)
        out = np.empty((6, 4), np.float32)
        computed(np.ones((6, 4), np.float32), np.full((), 3, np.float32), one, 1, out, soc=soc)
        np.testing.assert_array_equal(out, np.full((6, 4), 4.0, np.float32))
        computed(one, np.full((6, 4), 3, np.float32), one, 1, out, soc=soc)
        np.testing.assert_array_equal(out, np.full((6, 4), np.float32(2 * np.float32(2 / 24))))


@pytest.mark.parametrize("soc", [A2, A3, TRAINING, A5])
def test_each_kernel_has_its_own_factor_beyond_2_to_the_24(soc: str) -> None:
    """A stride of 0 makes a self of 16777217 equal elements without its memory; the factor alone is read."""
    n = 16777217
    wide = AclTensor(np.ones(1, np.float32), (n,), "float32", strides=(0,))
    out = AclTensor(None, (n,), "float32")
    found = {}
    for release in ("newer", "older"):
        executor = prepared(wide, wide, wide, 1, out, soc=soc, release=release)
        assert executor.route is not None
        found[release] = int(executor.route.scalar.view(np.uint32))
    iterated, nearest = 0x34000000, 0x33FFFFFF
    newer, older = {A5: (iterated, nearest), TRAINING: (nearest, nearest)}.get(soc, (iterated, iterated))
    assert found == {"newer": newer, "older": older}


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("wanted", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_another_dtype_of_out_rounds_twice(soc: str, dtype: str, wanted: str, layout: str) -> None:
    if soc not in WITH_BFLOAT16 and "bfloat16" in (dtype, wanted):
        pytest.skip("no bfloat16")
    grad, own, target = (values((40, 30), dtype, seed, wild=0.6) for seed in (4, 5, 6))
    out = LAYOUTS[layout](values((40, 30), wanted, 7))
    executor = computed(grad, own, target, 2, out, soc=soc)
    assert ("Cast" in executor.steps) == (dtype != wanted)
    same(out, expected(grad, own, target, 2, wanted, saturate=soc in SATURATING))


def test_rounding_twice_can_differ_from_rounding_once() -> None:
    """1 + 2^-8 + 2^-16 to bfloat16 is 1 + 2^-7; over float16 it ties and goes to 1."""
    one = np.ones(1, np.float16)
    own = np.array([1 + 2**-8], np.float16)
    target, grad = np.array([-(2.0**-16)], np.float16), np.array([0.5], np.float16)
    out = np.empty(1, DTYPES["bfloat16"])
    computed(grad, own, target, 0, out)
    assert out.astype(np.float32)[0] == 1.0
    assert np.float32(1 + 2**-8 + 2**-16).astype(DTYPES["bfloat16"]) > one[0]


def test_a_stream_keeps_the_overflow_mode_that_it_was_created_in() -> None:
    big, zero, one = (np.full(8, x, np.float16) for x in (60000, 0, 1))
    wide = np.full(8, np.inf, np.float32)
    half, single = np.empty(8, np.float16), np.empty(8, np.float16)
    infinite = aclnn.aclrtCreateStream()[1]
    assert aclnn.aclrtSetDeviceSatMode(aclnn.ACL_RT_OVERFLOW_MODE_SATURATION) == 0
    saturating = aclnn.aclrtCreateStream()[1]
    assert aclnn.aclrtSetDeviceSatMode(aclnn.ACL_RT_OVERFLOW_MODE_INFNAN) == 0
    again = aclnn.aclrtCreateStream()[1]
    for stream, high in ((None, np.inf), (infinite, np.inf), (saturating, 65504), (again, np.inf)):
        computed(one, big, zero, 0, half, stream=stream)
        assert set(half.tolist()) == {high}
        computed(
            np.ones(8, np.float32),
            wide,
            np.zeros(8, np.float32),
            0,
            single,
            stream=stream,
        )
        assert set(single.tolist()) == {high}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("wanted", DTYPES)
def test_saturation_touches_every_narrowing_and_nothing_else(dtype: str, wanted: str) -> None:
    aclnn.aclrtSetDeviceSatMode(0)
    stream = aclnn.aclrtCreateStream()[1]
    for own_dtype in (dtype, "float32"):
        grad, own, target = (values((50, 20), own_dtype, seed, wild=0.7) for seed in (7, 8, 9))
        out = np.empty((50, 20), DTYPES[wanted])
        computed(grad, own, target, 0, out, soc=A3, stream=stream)
        same(out, expected(grad, own, target, 0, wanted, saturate=True))


def test_the_950_ignores_saturation_and_older_chips_know_nothing_else() -> None:
    big, zero, one = (np.full(8, x, np.float16) for x in (60000, 0, 1))
    out = np.empty(8, np.float16)
    for mode in (0, 1):
        assert aclnn.aclrtSetDeviceSatMode(mode) == 0
        stream = aclnn.aclrtCreateStream()[1]
        computed(one, big, zero, 0, out, soc=A5, stream=stream)
        assert set(out.tolist()) == {np.inf}
        for soc in SATURATING:
            computed(one, big, zero, 0, out, soc=soc, stream=stream)
            assert set(out.tolist()) == {65504}


def test_the_mode_of_the_device_can_be_read() -> None:
    assert aclnn.aclrtGetDeviceSatMode() == (0, 1)
    assert aclnn.aclrtGetDeviceSatMode(TRAINING) == (0, 0)
    aclnn.aclrtSetDeviceSatMode(0)
    assert aclnn.aclrtGetDeviceSatMode(A3) == (0, 0)
    assert aclnn.aclrtGetDeviceSatMode(A5) == (0, 1)
    for wrong in (2, -1, None, "1"):
        assert aclnn.aclrtSetDeviceSatMode(wrong) == 107000  # type: ignore[arg-type]
    assert aclnn.aclrtGetDeviceSatMode(A3) == (0, 0)


@pytest.mark.parametrize("wanted", ["float32", "float16"])
def test_the_rest_of_outs_storage_survives(wanted: str) -> None:
    memory = np.arange(200).astype(DTYPES[wanted])
    before = memory.copy()
    view = memory[10:190].reshape(12, 15)[1:11:3, 12:1:-2]
    grad, own, target = (values(view.shape, "float32", seed, wild=0) for seed in range(3))
    computed(grad, own, target, 0, view)
    same(view, expected(grad, own, target, 0, wanted))
    touched = np.zeros(200, bool)
    touched[10:190].reshape(12, 15)[1:11:3, 12:1:-2] = True
    np.testing.assert_array_equal(memory[~touched], before[~touched])
    assert touched.sum() == view.size


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", range(3))
def test_out_may_be_an_input(dtype: str, place: int) -> None:
    tensors = [values((7, 5), dtype, seed) for seed in range(3)]
    wanted = expected(*tensors, 1)
    computed(*tensors, 1, tensors[place])
    same(tensors[place], wanted)


@pytest.mark.parametrize("shift", [-7, -1, 1, 7])
def test_out_may_overlap_inputs_at_a_distance(shift: int) -> None:
    memory = values((140,), "float32", 11, wild=0)
    own, out = memory[20:120].reshape(10, 10), memory[20 + shift : 120 + shift].reshape(10, 10)
    grad, target = (values((10, 10), "float32", seed) for seed in (1, 2))
    wanted = expected(grad, own.copy(), target, 2)
    computed(grad, own, target, 2, out)
    same(out, wanted)


def test_out_may_be_the_transpose_of_an_input() -> None:
    own = values((9, 9), "float16", 5)
    grad, target = (values((9, 9), "float16", seed) for seed in (1, 2))
    wanted = expected(grad, own.copy(), target, 0)
    computed(grad, own, target, 0, own.T)
    same(own.T, wanted)


def test_inputs_may_share_and_repeat_memory() -> None:
    memory = values((60,), "float32", 3)
    rolling = np.lib.stride_tricks.sliding_window_view(memory, 10)[:20]
    flat = np.broadcast_to(memory[:10], (20, 10))
    out = np.empty((20, 10), np.float32)
    computed(rolling, flat, rolling[::-1], 1, out)
    same(out, expected(rolling.copy(), flat.copy(), rolling[::-1].copy(), 1))


@pytest.mark.parametrize("soc", CHIPS)
@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_an_empty_call_leaves_out_untouched(soc: str, reduction: int) -> None:
    memory = np.full(12, 7, np.float32)
    empty = AclTensor.empty((3, 0), "float32")
    out = AclTensor(memory, (3, 0), "float32")
    executor = prepared(empty, empty, empty, reduction, out, soc=soc)
    assert second(executor) == 0
    assert set(memory.tolist()) == {7}


def test_formats_are_carried_and_change_no_bits() -> None:
    arrays = [values((2, 3, 4, 5), "float16", seed) for seed in range(3)]
    for form in ("NCHW", "NHWC", "ND", "FRACTAL_NZ"):
        out = np.empty((2, 3, 4, 5), np.float16)
        tensors = [AclTensor(a.reshape(-1), a.shape, "float16", format=form) for a in (*arrays, out)]
        computed(*tensors[:3], 1, tensors[3])
        same(out, expected(*arrays, 1))


def test_a_private_format_is_read_as_it_lies() -> None:
    own = values((4, 3), "float32", 1)
    strided = AclTensor(own.reshape(-1), (4, 3), "float32", strides=(1, 4), format="FRACTAL_NZ")
    out = np.empty((4, 3), np.float32)
    executor = computed(np.ones((4, 3), np.float32), strided, np.zeros((4, 3), np.float32), 0, out)
    assert executor.steps == ("MseLossGrad",)
    same(out, expected(np.ones((4, 3), np.float32), own, np.zeros((4, 3), np.float32), 0))


def test_bytes_and_memory_off_its_alignment_are_read_like_any_other() -> None:
    own = values((5,), "float32", 1)
    memory = np.zeros(24, np.uint8)
    memory[1:21] = own.view(np.uint8)
    grad, target = np.ones(5, np.float32), np.zeros(5, np.float32)
    out = np.zeros(24, np.uint8)
    executor = prepared(
        AclTensor(grad.tobytes(), (5,), "float32"),
        AclTensor(memory[1:21], (5,), 0),
        AclTensor(bytearray(target.tobytes()), (5,), np.float32),
        0,
        into := AclTensor(out[3:23], (5,), "float32"),
    )
    assert second(executor) == 0
    same(into.to_numpy(), expected(grad, own, target, 0))
    assert (out[:3] == 0).all()
    assert out[23] == 0


def test_signed_zero_and_subnormals_are_kept() -> None:
    own = np.array([0.0, -0.0, 1e-45, -1e-45, 1.0], np.float32)
    target = np.array([0.0, 0.0, 0.0, 0.0, 1.0], np.float32)
    out = np.empty(5, np.float32)
    for soc in CHIPS:
        computed(np.ones(5, np.float32), own, target, 0, out, soc=soc)
        assert bits(out).tolist() == [0, 0x80000000, 2, 0x80000002, 0]

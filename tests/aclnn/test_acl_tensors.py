"""Descriptors over memory: what they describe, what they share, what they refuse."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from aclnn_oracle import DTYPES, values
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.aclnn import AclTensor
from emulator.aclnn.codes import DTYPES as NUMBERS
from emulator.aclnn.codes import FORMATS
from socs.errors import AtlasError


def test_a_tensor_is_contiguous_unless_it_says_otherwise() -> None:
    tensor = AclTensor(np.arange(24, dtype=np.float32), (2, 3, 4), "float32")
    assert (tensor.strides, tensor.offset, tensor.format, tensor.dtype) == ((12, 4, 1), 0, 2, 0)
    assert tensor.storage_dims == (2, 3, 4)
    np.testing.assert_array_equal(tensor.to_numpy(), np.arange(24).reshape(2, 3, 4))


def test_storage_dims_are_the_view_only_where_that_is_all_of_the_storage() -> None:
    memory = np.zeros(24, np.float32)
    assert AclTensor(memory, (24,), "float32").storage_dims == (24,)
    assert AclTensor(memory, (4, 5), "float32").storage_dims == (24,)
    assert AclTensor(memory, (4, 6), "float32", strides=(1, 4)).storage_dims == (24,)
    assert AclTensor(memory, (23,), "float32", offset=1).storage_dims == (24,)
    assert AclTensor(memory, (4, 6), "float32", storage_dims=(2, 12)).storage_dims == (2, 12)
    assert AclTensor(None, (4, 6), "float32", strides=(1, 4)).storage_dims == (4, 6)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_dtype_is_its_name_or_its_number(name: str) -> None:
    assert AclTensor(None, (3,), name).dtype == NUMBERS[name] == AclTensor(None, (3,), NUMBERS[name]).dtype
    assert AclTensor.empty((3,), name).dtype == NUMBERS[name]


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_its_name_or_its_number(name: str) -> None:
    assert (
        AclTensor(None, (3,), 0, format=name).format == AclTensor(None, (3,), 0, format=FORMATS[name]).format
    )


@pytest.mark.parametrize("dtype", [np.float16, np.dtype(np.int64), ml_dtypes.bfloat16, bool])
def test_a_dtype_may_be_numpys(dtype: Any) -> None:
    assert AclTensor(None, (3,), dtype).dtype == NUMBERS[np.dtype(dtype).name]


def test_what_empty_holds_is_nan_and_there_only_when_looked_at() -> None:
    for name, dtype in DTYPES.items():
        tensor = AclTensor.empty((2, 3), name)
        assert tensor.to_numpy().dtype == dtype
        assert np.isnan(tensor.to_numpy().astype(np.float32)).all()
        assert tensor.to_numpy() is tensor.to_numpy()
    huge = AclTensor.empty((1 << 40, 1 << 20), "float32")
    assert huge.count == 1 << 60
    with pytest.raises(AtlasError, match="no memory"):
        huge.to_numpy()


@pytest.mark.parametrize("name", ["int4", "hifloat8", "string", "undefined", "float4_e2m1"])
def test_dtypes_that_numpy_lacks_can_be_described_but_not_seen(name: str) -> None:
    with pytest.raises(AtlasError, match=name):
        AclTensor.empty((4,), name).to_numpy()
    with pytest.raises(AtlasError, match=name):
        AclTensor(np.zeros(4, np.uint8), (4,), name).to_numpy()


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_and_never_copied(dtype: str) -> None:
    memory = values((12,), dtype, 1)
    by_hand = AclTensor(memory, (3, 4), dtype)
    by_array = AclTensor.from_array(memory.reshape(4, 3).T)
    by_hand.to_numpy()[0, 0] = 5
    assert float(memory[0]) == 5
    assert float(by_array.to_numpy()[0, 0]) == 5
    by_array.to_numpy()[2, 3] = 6
    assert float(memory[11]) == 6
    assert np.shares_memory(by_hand.storage, by_array.storage)  # type: ignore[arg-type]


VIEWS = {
    "whole": (lambda a: a, (60,), (20, 5, 1), 0),
    "transposed": (lambda a: a.T, (60,), (1, 5, 20), 0),
    "sliced": (lambda a: a[1:, ::2, 3], (60,), (20, 10), 23),
    "reversed": (lambda a: a[::-1, :, ::-2], (60,), (-20, 5, -2), 44),
    "broadcast": (lambda a: np.broadcast_to(a[0, 0], (7, 5)), (60,), (0, 1), 0),
    "one element": (lambda a: a[2, 3, 4:5].reshape(()), (60,), (), 59),
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_storage_of_an_array_is_all_of_its_base(name: str) -> None:
    view, storage, strides, offset = VIEWS[name]
    base = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    array = view(base)
    tensor = AclTensor.from_array(array)
    assert tensor.storage is not None
    assert (tensor.storage.size, tensor.strides, tensor.offset) == (60, strides, offset)
    assert tensor.storage_dims == (storage if name != "whole" else (3, 4, 5))
    np.testing.assert_array_equal(tensor.to_numpy(), array)
    assert np.shares_memory(tensor.to_numpy(), base)
    del base, array
    assert float(tensor.storage.sum()) == 59 * 30


def test_a_base_in_any_order_is_storage() -> None:
    base = np.asfortranarray(np.arange(24, dtype=np.float16).reshape(2, 3, 4))
    tensor = AclTensor.from_array(base)
    assert tensor.strides == (1, 2, 6)
    assert tensor.storage is not None
    assert tensor.storage.size == 24
    np.testing.assert_array_equal(tensor.to_numpy(), base)


def test_an_element_off_the_grid_of_its_base_is_found() -> None:
    raw = np.zeros(41, np.uint8)
    array = raw[3:39].view(np.float32)
    array[...] = np.arange(9)
    tensor = AclTensor.from_array(array[::-2])
    np.testing.assert_array_equal(tensor.to_numpy(), np.arange(9)[::-2])


def test_empty_arrays_have_a_tensor() -> None:
    for shape in ((0,), (3, 0), (0, 5, 2)):
        tensor = AclTensor.from_array(np.empty(shape, np.float32))
        assert tensor.view_dims == shape
        assert tensor.to_numpy().shape == shape


def test_read_only_arrays_stay_read_only() -> None:
    array = np.arange(4, dtype=np.float32)
    array.flags.writeable = False
    assert not AclTensor.from_array(array).to_numpy().flags.writeable
    assert not AclTensor.from_array(np.broadcast_to(np.float32(1), (3,))).to_numpy().flags.writeable


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_basic_view_of_an_array_survives_the_way_through_a_tensor(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=4)))
    base = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
    steps = st.tuples(st.integers(-6, 6), st.integers(-6, 6), st.sampled_from([-3, -1, 1, 2]))
    cut = base[(*(slice(*data.draw(steps)) for _ in shape), ...)]
    view = cut.transpose(data.draw(st.permutations(range(len(shape)))))
    tensor = AclTensor.from_array(view)
    np.testing.assert_array_equal(tensor.to_numpy(), view)
    if view.size:
        assert np.shares_memory(tensor.to_numpy(), base)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((None, (3,), "float33"), "float33"),
        ((None, (3,), np.dtype("datetime64[s]")), "datetime64"),
        ((None, (3,), object()), "dtype"),
        ((None, (3,), "float32", None, 0, "NDHCW"), "NDHCW"),
        ((None, 3, "float32"), "view_dims"),
        ((None, (3.0,), "float32"), "view_dims"),
        ((None, (1 << 63,), "float32"), "64-bit"),
        ((None, (3,), "float32", ("1",)), "strides"),
        ((None, (3,), "float32", None, None), "offset"),
        ((None, (3,), "float32", None, 0, "ND", (None,)), "storage_dims"),
        ((np.zeros((2, 2), np.float32), (4,), "float32"), "one-dimensional"),
        ((np.zeros(8, np.float32)[::2], (4,), "float32"), "contiguous"),
        ((np.zeros(4, object), (4,), "float32"), "numbers"),
        (([0.0, 1.0], (2,), "float32"), "list"),
    ],
)
def test_what_c_could_not_express_is_an_error(arguments: Any, text: str) -> None:
    with pytest.raises(AtlasError, match=text):
        AclTensor(*arguments)


@pytest.mark.parametrize(
    ("array", "text"),
    [
        ([1.0], "list"),
        (None, "NoneType"),
        (np.float32(1), "float32"),
        (np.zeros(3, ">f4"), "byte order"),
        (np.zeros(3, "datetime64[s]"), "datetime64"),
        (np.zeros(3, [("a", "f4"), ("b", "u1")])["a"], "multiples"),
        (np.ma.masked_array([1.0], [True]), "MaskedArray"),
    ],
)
def test_what_is_no_array_of_acl_is_an_error(array: Any, text: str) -> None:
    with pytest.raises(AtlasError, match=text):
        AclTensor.from_array(array)


def test_tensors_of_torch_share_their_memory() -> None:
    torch: Any = pytest.importorskip("torch")
    own = torch.arange(12, dtype=torch.float32).reshape(3, 4).t()
    tensor = AclTensor.from_array(own)
    tensor.to_numpy()[0, 0] = 7
    assert own[0, 0].item() == 7
    half = AclTensor.from_array(torch.ones(4, dtype=torch.bfloat16))
    assert half.dtype == NUMBERS["bfloat16"]

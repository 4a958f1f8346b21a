"""Array-likes become plain arrays with the same bits, and an output array is refused by rule."""

from __future__ import annotations

import struct
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from emulator.arrays import as_tensor, check_out, dtype_name
from socs.errors import AtlasError

BFLOAT16_BITS = [0x3F80, 0xC020, 0x7F80, 0x7FC1, 0x0001, 0x8000]


class ArrayOnly:
    """Offers ``__array__`` and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class DlpackOnly:
    """Offers DLPack and nothing else."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int32, bool])
def test_a_plain_array_is_passed_without_a_copy(dtype):
    array = np.ones((2, 3), dtype)
    assert as_tensor(array, "self") is array


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2] / 2,
        np.arange(6, dtype=">f4").reshape(2, 3),
        np.broadcast_to(np.float32(1), (2, 3)) * np.arange(6).reshape(2, 3).astype(np.float32),
    ],
    ids=["plain", "fortran", "strided", "big-endian", "product"],
)
def test_every_layout_gives_the_same_little_or_native_bytes_in_c_order(array):
    result = as_tensor(array, "self")
    assert result.tobytes() == struct.pack("=6f", 0, 1, 2, 3, 4, 5)
    assert result.flags.c_contiguous
    assert result.dtype.isnative
    assert result.shape == (2, 3)


def test_an_unaligned_array_is_copied_to_aligned_memory():
    buffer = bytearray(b"\0" + struct.pack("=2f", 1.5, -2.5))
    result = as_tensor(np.frombuffer(buffer, np.float32, 2, offset=1), "self")
    assert result.flags.aligned
    assert result.tolist() == [1.5, -2.5]


@pytest.mark.parametrize("value", [3.5, np.float32(3.5), np.array(3.5, ">f8"), np.array(3.5)])
def test_a_scalar_keeps_its_empty_shape(value):
    result = as_tensor(value, "self")
    assert result.shape == ()
    assert result.item() == 3.5


def test_python_lists_stay_float64_so_that_the_operator_can_refuse_them():
    assert dtype_name(as_tensor([[1.0, 2.0]], "self")) == "float64"


@pytest.mark.parametrize("order", ["<", ">"])
def test_bfloat16_of_either_byte_order_keeps_its_value(order):
    raw = np.frombuffer(struct.pack(f"{order}2H", 0x3FC0, 0xC020), np.uint8)
    array = raw.view(np.dtype(ml_dtypes.bfloat16).newbyteorder(order))
    result = as_tensor(array, "self")
    assert result.view(np.uint16).tolist() == [0x3FC0, 0xC020]
    assert dtype_name(result) == "bfloat16"


def test_two_byte_void_is_bfloat16():
    raw = struct.pack("=6H", *BFLOAT16_BITS)
    result = as_tensor(np.frombuffer(raw, "V2"), "self")
    assert result.dtype == ml_dtypes.bfloat16
    assert result.tobytes() == raw
    assert result[1] == -2.5


def test_an_object_with_array_or_dlpack_alone_is_taken_with_its_bits():
    array = np.array(BFLOAT16_BITS, np.uint16).view(ml_dtypes.bfloat16)
    assert as_tensor(ArrayOnly(array), "self") is array
    numbers = np.arange(4, dtype=np.float32)
    result = as_tensor(DlpackOnly(numbers), "self")
    assert np.shares_memory(result, numbers)
    assert result.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (None, "None"),
        ("text", "dtype <U4"),
        (b"bytes", "dtype |S5"),
        (np.array([1, "a", None], object), "dtype object"),
        (np.zeros(2, "V4"), "dtype |V4"),
        (np.zeros(2, [("a", np.float16)]), "dtype"),
        ([[1.0], [1.0, 2.0]], "inhomogeneous"),
        (object(), "dtype object"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
    ],
    ids=["none", "str", "bytes", "object", "void", "record", "ragged", "thing", "masked"],
)
def test_what_holds_no_numbers_is_refused_by_name_and_dtype(value, part):
    with pytest.raises(AtlasError, match="grad_output") as caught:
        as_tensor(value, "grad_output")
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_inside_a_foreign_array_is_reported_on_one_line():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("device\nlost")

    with pytest.raises(AtlasError, match=r"^self cannot be read as an array: device lost$"):
        as_tensor(Broken(), "self")


def test_importing_the_module_imports_neither_torch_nor_ml_dtypes():
    code = "import sys, emulator.arrays; print({'torch', 'ml_dtypes', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_a_good_out_is_returned_itself_whatever_the_bytes_beside_it_belong_to():
    memory = np.zeros(8, np.float32)
    out, other = memory[:4], memory[4:]
    assert check_out(out, (4,), {"float32"}, {"self": other}) is out


def readonly() -> np.ndarray:
    array = np.zeros(4, np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "rule"),
    [
        (np.zeros(5, np.float32), r"shape \(5,\), the result has shape \(4,\)"),
        (np.zeros((1, 4), np.float32), "shape"),
        (np.zeros(4, np.float64), "dtype float64, it must be float16 or float32"),
        (readonly(), "writeable"),
        (np.zeros(8, np.float32)[::2], "C-contiguous"),
        (np.zeros(4, ">f4"), "native-endian"),
        (np.frombuffer(bytearray(17), np.float32, 4, offset=1), "aligned"),
        (np.ma.masked_array(np.zeros(4, np.float32)), "masked"),
        ([0.0] * 4, "list"),
        (ArrayOnly(np.zeros(4, np.float32)), "ArrayOnly"),
    ],
    ids=["shape", "rank", "dtype", "read-only", "strided", "endian", "unaligned", "masked", "list", "copy"],
)
def test_an_out_that_breaks_a_rule_is_refused_by_that_rule(out, rule):
    with pytest.raises(AtlasError, match=rule):
        check_out(out, (4,), {"float32", "float16"}, {})


@pytest.mark.parametrize(("start", "overlaps"), [(0, True), (3, True), (4, False)])
def test_an_out_that_shares_a_single_element_with_an_input_is_refused(start, overlaps):
    memory = np.zeros(8, np.float32)
    inputs = {"self": np.zeros(4, np.float32), "target": memory[:4]}
    if overlaps:
        with pytest.raises(AtlasError, match="out shares memory with target"):
            check_out(memory[start : start + 4], (4,), None, inputs)
    else:
        check_out(memory[start : start + 4], (4,), None, inputs)


def test_an_out_between_the_elements_of_a_strided_input_does_not_overlap_it():
    memory = np.zeros((4, 2), np.float32)
    check_out(memory[1:2, 1], (1,), None, {"self": memory[:, 0]})


# torch is no dependency, not even of the tests: these run where it happens to be installed.


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="torch is not installed")


def test_torch_bfloat16_keeps_every_bit_through_layout_and_grad(torch):
    bits = np.array(BFLOAT16_BITS, np.uint16)
    tensor = torch.from_numpy(bits.view(np.int16).copy()).view(torch.bfloat16)
    assert as_tensor(tensor, "self").view(np.uint16).tolist() == BFLOAT16_BITS
    table = tensor.reshape(2, 3).t()
    assert as_tensor(table, "self").view(np.uint16).tolist() == bits.reshape(2, 3).T.tolist()
    leaf = tensor.clone().requires_grad_()
    assert as_tensor(leaf, "self").view(np.uint16).tolist() == BFLOAT16_BITS
    assert as_tensor(tensor[0], "self").shape == ()


def test_torch_float32_shares_its_memory_with_the_array(torch):
    tensor = torch.zeros(3)
    as_tensor(tensor, "self")[1] = 2.0
    assert tensor.tolist() == [0.0, 2.0, 0.0]


def test_torch_parameters_and_strided_tensors_are_read(torch):
    parameter = torch.nn.Parameter(torch.arange(6, dtype=torch.float32).reshape(2, 3))
    assert as_tensor(parameter, "self").tolist() == [[0, 1, 2], [3, 4, 5]]
    assert as_tensor(parameter.t(), "self").tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_torch_view_that_negates_lazily_is_read_negated(torch):
    lazy = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert lazy.is_neg()
    assert as_tensor(lazy, "self").tolist() == [-2.0, 4.0]


def test_torch_tensors_without_dense_elements_are_refused(torch):
    with pytest.raises(AtlasError, match="self cannot be read"):
        as_tensor(torch.eye(2).to_sparse(), "self")
    with pytest.raises(AtlasError, match="self cannot be read"):
        as_tensor(torch.empty(2, device="meta"), "self")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_what_is_written_through_the_view_of_a_torch_out_is_in_the_tensor(torch, dtype):
    out = torch.zeros(2, dtype=getattr(torch, dtype))
    check_out(out, (2,), {dtype}, {})[:] = [1.5, -2.5]
    assert out.tolist() == [1.5, -2.5]


def test_a_torch_out_that_cannot_be_written_into_is_refused_by_rule(torch):
    with pytest.raises(AtlasError, match="out requires grad"):
        check_out(torch.zeros(2, requires_grad=True), (2,))
    with pytest.raises(AtlasError, match="contiguous"):
        check_out(torch.zeros(4)[::2], (2,))
    with pytest.raises(AtlasError, match="meta"):
        check_out(torch.empty(2, device="meta"), (2,))
    shared = torch.zeros(2)
    with pytest.raises(AtlasError, match="shares memory with self"):
        check_out(shared, (2,), None, {"self": as_tensor(shared, "self")})

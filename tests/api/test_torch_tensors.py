"""Tensors of torch go in and are written into, with the bits of NumPy's arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import emulator

torch: Any = pytest.importorskip("torch")

OPERATOR = "mse_loss_backward"
NAMES = ("grad_output", "self", "target")
DTYPES = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def arrays(dtype: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(7)
    return {name: random.standard_normal((5, 9)).astype(DTYPES[dtype]) for name in NAMES}


def as_torch(array: np.ndarray) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    return torch.from_numpy(array.copy())


def bits(tensor: Any) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_tensors_give_the_bits_of_numpy_arrays(dtype: str) -> None:
    plain = arrays(dtype)
    tensors = {name: as_torch(array) for name, array in plain.items()}
    expected = emulator.mse_loss_backward(**plain)
    found = emulator.run(OPERATOR, **tensors).output
    assert found is not None
    assert found.dtype == DTYPES[dtype]
    assert found.tobytes() == expected.tobytes()
    assert emulator.mse_loss_backward(**tensors).tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_torch_out_is_written_in_place_and_returned_itself(dtype: str) -> None:
    plain = arrays(dtype)
    tensors = {name: as_torch(array) for name, array in plain.items()}
    out = torch.zeros((5, 9), dtype=getattr(torch, dtype))
    assert emulator.mse_loss_backward(**tensors, out=out) is out
    assert bits(out) == emulator.mse_loss_backward(**plain).tobytes()
    out.zero_()
    result = emulator.run(OPERATOR, **tensors, out=out)
    assert result.output is not None
    assert bits(out) == result.output.tobytes() == emulator.mse_loss_backward(**plain).tobytes()


def test_the_gradient_is_torchs_own_where_nothing_rounds() -> None:
    base = torch.arange(45, dtype=torch.float32).reshape(5, 9)
    own = (base % 7 - 3).requires_grad_()
    target = base % 5
    torch.nn.functional.mse_loss(own, target, reduction="sum").backward()
    found = emulator.mse_loss_backward(torch.ones_like(base), own, target, reduction="sum")
    assert np.array_equal(found, own.grad.numpy())


def test_strides_of_torch_do_not_matter() -> None:
    plain = arrays("float32")
    tensors = {name: as_torch(array).t().contiguous().t() for name, array in plain.items()}
    assert not tensors["self"].is_contiguous()
    assert np.array_equal(emulator.mse_loss_backward(**tensors), emulator.mse_loss_backward(**plain))


@pytest.mark.parametrize(
    ("out", "part"),
    [
        (lambda: torch.zeros((9, 5)), "shape (9, 5)"),
        (lambda: torch.zeros((5, 9), dtype=torch.float16), "float16"),
        (lambda: torch.zeros((9, 5)).t(), "contiguous"),
        (lambda: torch.zeros((5, 9), requires_grad=True), "requires grad"),
        (lambda: torch.zeros((5, 9), device="meta"), "meta"),
    ],
)
def test_a_torch_out_that_cannot_be_written_is_refused(out: Any, part: str) -> None:
    tensors = {name: as_torch(array) for name, array in arrays("float32").items()}
    with pytest.raises(emulator.AtlasError, match=part.replace("(", r"\(").replace(")", r"\)")):
        emulator.mse_loss_backward(**tensors, out=out())


def test_a_torch_out_may_not_lie_on_an_input() -> None:
    tensors = {name: as_torch(array) for name, array in arrays("bfloat16").items()}
    with pytest.raises(emulator.AtlasError, match="shares memory with self"):
        emulator.mse_loss_backward(**tensors, out=tensors["self"])


def test_a_torch_dtype_that_the_operator_has_not_is_refused() -> None:
    tensors = {name: as_torch(array).double() for name, array in arrays("float32").items()}
    with pytest.raises(emulator.AtlasError, match="self is float64") as caught:
        emulator.mse_loss_backward(**tensors)
    assert caught.value.status == 161002

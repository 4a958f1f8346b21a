"""What phase 2 must write, in NumPy and ml_dtypes, and short ways to call both phases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from emulator import aclnn

Array = NDArray[Any]

DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
LARGEST = {"float16": 65504.0, "bfloat16": float.fromhex("0x1.fep127")}
UNSIGNED = {4: np.uint32, 2: np.uint16}

A2, A3, TRAINING, INFERENCE, EDGE, A5 = (
    *("Ascend910B3", "Ascend910_9391", "Ascend910A"),
    *("Ascend310P3", "Ascend310B1", "Ascend950PR_9589"),
)
CHIPS = (A2, A3, TRAINING, INFERENCE, EDGE, A5)
WITH_BFLOAT16 = (A2, A3, A5)
SATURATING = (TRAINING, INFERENCE, EDGE)


def bits(array: Array) -> Array:
    """The bits of an array of any strides, in its own order."""
    copy = np.array(array, order="C")
    return copy.view(UNSIGNED[copy.dtype.itemsize])


def name_of(array: Array) -> str:
    return str(array.dtype)


def narrowed(values: Array, dtype: str, saturate: bool) -> Array:
    """float32 rounded once to ``dtype``: a NaN is all ones, or +0 where the mode saturates."""
    with np.errstate(all="ignore"):
        if dtype == "float32":
            return np.where(np.isnan(values), np.uint32(0x7FFFFFFF).view(np.float32), values)
        if saturate:
            values = np.clip(
                np.where(np.isnan(values), np.float32(0), values), -LARGEST[dtype], LARGEST[dtype]
            )
        rounded = values.astype(np.float32).astype(DTYPES[dtype])
        ones = np.where(np.isnan(values), np.uint16(0x7FFF), rounded.view(np.uint16))
    return ones.view(DTYPES[dtype])


def expected(
    grad: Array,
    own: Array,
    target: Array,
    reduction: int,
    out_dtype: str | None = None,
    *,
    saturate: bool = False,
) -> Array:
    """((self - target) * factor) * grad in float32, rounded to self's dtype, then to ``out_dtype``.

    The factor of mean is the float32 nearest to 2/N, which all kernels have up to 2^24 elements of self.
    """
    assert own.size <= 1 << 24
    dtype = name_of(own)
    factor = np.float32(2.0 / own.size if reduction == 1 else 2.0)
    with np.errstate(all="ignore"):
        wide = [array.astype(np.float32) for array in (grad, own, target)]
        product = ((wide[1] - wide[2]) * factor) * wide[0]
        assert product.dtype == np.float32
        result = narrowed(np.asarray(product), dtype, saturate)
        if out_dtype in (None, dtype):
            return result
        back = result.astype(np.float32)
        return back if out_dtype == "float32" else narrowed(back, str(out_dtype), saturate)


SPECIAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 1e-40, 6e-8, 1e-5, 65504.0, 65520.0, 3.39e38, np.inf, -np.inf, np.nan], np.float32
)


def values(shape: Sequence[int], dtype: str, seed: int, wild: float = 0.3) -> Array:
    """Random numbers, a share of ``wild`` of them special or of any magnitude."""
    random = np.random.default_rng(seed)
    count = int(np.prod(shape, dtype=np.int64))
    plain = random.standard_normal(count, np.float32)
    if not wild:
        return plain.astype(DTYPES[dtype]).reshape(shape)
    with np.errstate(all="ignore"):
        large = np.ldexp(plain, random.integers(-60, 60, count)).astype(np.float32)
        kind = random.random(count)
        mixed = np.where(kind < wild / 2, random.choice(SPECIAL, count), np.where(kind < wild, large, plain))
        return mixed.astype(np.float32).astype(DTYPES[dtype]).reshape(shape)


def first(
    grad: Any, own: Any, target: Any, reduction: Any, out: Any, **named: Any
) -> tuple[int, int, aclnn.AclOpExecutor | None]:
    return aclnn.aclnnMseLossBackwardGetWorkspaceSize(grad, own, target, reduction, out, **named)


def prepared(grad: Any, own: Any, target: Any, reduction: Any, out: Any, **named: Any) -> aclnn.AclOpExecutor:
    status, size, executor = first(grad, own, target, reduction, out, **named)
    assert status == 0, aclnn.aclGetRecentErrMsg()
    assert executor is not None
    assert size == executor.workspace_size
    return executor


def second(executor: aclnn.AclOpExecutor | None, stream: aclnn.Stream | None = None) -> int:
    size = 0 if executor is None else executor.workspace_size
    return aclnn.aclnnMseLossBackward(0x1000 if size else None, size, executor, stream)


def computed(grad: Any, own: Any, target: Any, reduction: int, out: Any, **named: Any) -> aclnn.AclOpExecutor:
    """Both phases on arrays or AclTensors; both must succeed."""
    stream = named.pop("stream", None)
    tensors = [
        t if isinstance(t, aclnn.AclTensor) else aclnn.AclTensor.from_array(t)
        for t in (grad, own, target, out)
    ]
    executor = prepared(*tensors[:3], reduction, tensors[3], **named)
    assert second(executor, stream) == 0, aclnn.aclGetRecentErrMsg()
    return executor


def same(found: Array, wanted: Array) -> None:
    assert found.dtype == wanted.dtype
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(bits(found), bits(wanted))


def message() -> str:
    """The text of the one message there is, without its head."""
    text = aclnn.aclGetRecentErrMsg()
    assert text is not None
    assert text.count("\n") == 1
    return text.rstrip("\n").split("): ", 1)[1]

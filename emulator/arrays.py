"""Array-likes of any library to NumPy arrays, and the rules for an array that is written to.

Neither torch nor ml_dtypes is imported before a value of theirs is at hand.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from socs.errors import AtlasError

Array = NDArray[Any]


def bfloat16() -> np.dtype[Any]:
    """The NumPy dtype of bfloat16."""
    import ml_dtypes

    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def dtype_name(array: Array) -> str:
    """The name of an array's dtype: ``float32``, ``float16``, ``bfloat16``, ``int32``, ..."""
    return str(array.dtype.name)


def as_tensor(value: object, name: str, *, views: bool = False) -> Array:
    """Any array-like as a C-contiguous, native-endian array; without a copy where it already is one.

    ``views``: strides of whole, aligned elements stay as they are.

    Takes NumPy arrays, Python numbers and nested lists (which stay ``float64`` and ``int64``), torch tensors
    of any device, objects with ``__array__`` (JAX) or DLPack. Two-byte void elements, which is what an
    ``.npy`` file makes of bfloat16, are read as bfloat16. The shape is kept, also ``()``. Every numeric dtype
    passes: which of them an operator takes is the operator's to say.

    Raises:
        AtlasError: the value is no array of numbers; the message names ``name`` and the dtype.
    """
    if value is None:
        raise AtlasError(f"{name} is None, not a tensor")
    if _is_torch(value):
        return _plain(_from_torch(value, name), name, views)
    if isinstance(value, np.ma.MaskedArray):
        raise AtlasError(f"{name} is a masked array; fill its masked elements first (.filled(value))")
    try:
        if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
            array: Array = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except Exception as error:  # whatever a foreign __array__ or __dlpack__ raises
        raise AtlasError(f"{name} cannot be read as an array: {one_line(error)}") from error
    return _plain(array, name, views)


def check_out(
    out: object,
    shape: tuple[int, ...],
    dtypes: Collection[str] | None = None,
    inputs: Mapping[str, Array] | None = None,
) -> Array:
    """The array through which to write into ``out``, once ``out`` keeps every rule.

    ``out`` is a NumPy array, which is returned itself, or a torch CPU tensor, of which a view is returned:
    writeable, C-contiguous, native-endian, of ``shape`` and of one of ``dtypes`` (names; ``None`` leaves the
    dtype to the caller), sharing no memory with ``inputs``.

    Raises:
        AtlasError: naming the rule that is broken.
    """
    array = _writeable_view(out)
    if array.shape != tuple(shape):
        raise AtlasError(f"out has shape {array.shape}, the result has shape {tuple(shape)}")
    if dtypes is not None and dtype_name(array) not in dtypes:
        raise AtlasError(f"out has dtype {dtype_name(array)}, it must be {' or '.join(sorted(dtypes))}")
    if not array.flags.writeable:
        raise AtlasError("out is read-only, it must be writeable")
    if not array.flags.c_contiguous:
        raise AtlasError(f"out must be C-contiguous, its strides are {array.strides}")
    if not (array.dtype.isnative and array.flags.aligned):
        raise AtlasError(f"out must be native-endian and aligned, its dtype is {array.dtype.str}")
    for name, tensor in (inputs or {}).items():
        if _overlap(array, tensor):
            raise AtlasError(f"out shares memory with {name}; it needs memory of its own")
    return array


def one_line(error: BaseException) -> str:
    """The message of an exception on one line of bounded length, for use inside another message."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = " ".join("".join(c if c.isprintable() else " " for c in str(error)).split())
    if not text:
        return type(error).__name__
    return text if len(text) <= 200 else text[:197] + "..."


def _plain(array: Array, name: str, views: bool) -> Array:
    dtype = array.dtype
    # np.void means raw bytes; the dtypes of ml_dtypes have kind "V" too, but types of their own.
    if dtype.type is np.void and dtype.names is None and dtype.itemsize == 2:
        array = _c_order(array).view(bfloat16())
    elif dtype.type is np.void or dtype.kind in "OSUT":
        raise AtlasError(f"{name} has dtype {dtype}; it must hold numbers")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    whole = array.flags.aligned and not any(stride % array.itemsize for stride in array.strides)
    return array if views and whole else _c_order(array)


def _c_order(array: Array) -> Array:
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    # Not ascontiguousarray, which makes one dimension of none.
    return array.copy(order="C")


def _is_torch(value: object) -> bool:
    return hasattr(value, "detach") and any(
        base.__module__.partition(".")[0] == "torch" for base in type(value).__mro__
    )


def _from_torch(value: Any, name: str) -> Array:
    try:
        return _torch_view(value.detach().cpu().resolve_conj().resolve_neg())
    except Exception as error:  # sparse, quantised, meta: torch has a reason of its own for each
        raise AtlasError(f"{name} cannot be read as an array: {one_line(error)}") from error


def _torch_view(tensor: Any) -> Array:
    """The NumPy view of a CPU tensor; NumPy knows no bfloat16, so that goes through int16."""
    torch = sys.modules["torch"]
    if tensor.dtype == torch.bfloat16:
        bits: Array = tensor.view(torch.int16).numpy()
        return bits.view(bfloat16())
    array: Array = tensor.numpy()
    return array


def _writeable_view(out: object) -> Array:
    if isinstance(out, np.ma.MaskedArray):
        raise AtlasError("out is a masked array, it must be a plain one")
    if isinstance(out, np.ndarray):
        return out
    if not _is_torch(out):
        raise AtlasError(
            f"out is a {type(out).__name__}; only a NumPy array or a torch CPU tensor can be written into"
        )
    tensor: Any = out
    if tensor.device.type != "cpu":
        raise AtlasError(f"out is on the torch device {tensor.device}, it must be on the CPU")
    if tensor.requires_grad:
        raise AtlasError("out requires grad, it must not (torch keeps no record of what is written here)")
    if str(tensor.layout) != "torch.strided" or not tensor.is_contiguous():
        raise AtlasError("out must be a dense, contiguous torch tensor")
    try:
        return _torch_view(tensor)
    except Exception as error:
        raise AtlasError(f"out cannot be written into: {one_line(error)}") from error


def _overlap(a: Array, b: Array) -> bool:
    # The exact answer can be slow, and is not needed where the bounds do not meet.
    return np.may_share_memory(a, b) and np.shares_memory(a, b)

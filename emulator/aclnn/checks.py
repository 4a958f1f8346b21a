"""What phase 1 refuses, in the order of the real operator.

Facts: ops-nn ``aclnn_mse_loss_backward.cpp`` and opbase ``shape_utils.cpp`` (operator, 1.1 to 1.3).
The messages are those of the shared checking macros; not verified on hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from emulator.aclnn import texts
from emulator.aclnn.codes import ACLNN_ERR_PARAM_INVALID, DTYPES, dtype_text
from emulator.aclnn.descriptor import Descriptor
from emulator.aclnn.messages import StatusError
from socs.spec import Soc

MAX_RANK = 8
BFLOAT16_ARCHS = (2201, 3510)
"""npu_arch whose dtype list has BFLOAT16 (opbase ``GetDtypeSupportListV2``)."""

_NARROW = (DTYPES["float32"], DTYPES["float16"])
_ALL = (*_NARROW, DTYPES["bfloat16"])


def supported(soc: Soc) -> tuple[int, ...]:
    """The ``aclDataType`` numbers that the operator takes on ``soc``."""
    return _ALL if soc.npu_arch in BFLOAT16_ARCHS else _NARROW


def check(
    soc: Soc,
    grad_output: Descriptor,
    self: Descriptor,
    target: Descriptor,
    reduction: object,
    out: Descriptor,
) -> None:
    """Steps 5 to 7: dtypes, reduction, ranks and shapes. Raises ``StatusError`` (161002) for the first."""
    for name, tensor in (("gradOutput", grad_output), ("target", target)):
        if tensor.dtype != self.dtype:
            _refuse(texts.SAME_DTYPE.format(name, dtype_text(tensor.dtype), dtype_text(self.dtype)))
    dtypes = supported(soc)
    for name, tensor in (("self", self), ("out", out)):
        if tensor.dtype not in dtypes:
            listed = "".join(f"{dtype_text(dtype)}," for dtype in dtypes)
            _refuse(texts.DTYPE_LIST.format(name, dtype_text(tensor.dtype), listed))
    if not (isinstance(reduction, int) and 0 <= reduction <= 2):
        _refuse(texts.REDUCTION.format(reduction))
    for name, tensor in (("gradOutput", grad_output), ("self", self), ("target", target)):
        if len(tensor.view_dims) > MAX_RANK:
            _refuse(texts.RANK.format(name, MAX_RANK))
    shape = broadcast(grad_output.view_dims, self.view_dims)
    if shape is None:
        _refuse(texts.BROADCAST_GRAD_OUTPUT.format(_text(grad_output.view_dims), _text(self.view_dims)))
    joined = broadcast(target.view_dims, shape)
    if joined is None:
        _refuse(texts.BROADCAST_TARGET.format(_text(target.view_dims), _text(shape)))
    if out.view_dims != joined:
        _refuse(texts.OUT_SHAPE.format(_text(joined), _text(out.view_dims)))


def broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...] | None:
    """The common shape of two, aligned at their last dimensions, or ``None``.

    Two dimensions agree when they are equal or one of them is 1; so 1 with 0 gives 0.
    """
    if len(a) < len(b):
        a, b = b, a
    joined = list(a)
    for place in range(1, len(b) + 1):
        mine, other = a[-place], b[-place]
        if mine == 1:
            joined[-place] = other
        elif other not in (1, mine):
            return None
    return tuple(joined)


def _refuse(message: str) -> NoReturn:
    raise StatusError(ACLNN_ERR_PARAM_INVALID, message)


def _text(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"

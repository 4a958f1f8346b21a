"""The operator ``aclnnMseLossBackward``: what it accepts, which kernel runs, with which coefficient.

Facts: ops-nn ``aclnn_mse_loss_backward.cpp`` (checks and their order), ``mse_loss_grad.cpp`` (kernel
choice), ``mse_loss_grad_v2_tiling.cpp`` (coefficient).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from kernel import registry
from kernel.program import Launch, TensorArg
from kernel.tiling import Tiling, TilingOptions, with_options
from kernel.verify import Finding, verify
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc

OPERATOR = "mse_loss_backward"

PARAM_INVALID = 161002
"""ACLNN_ERR_PARAM_INVALID (opbase ``op_errno.h``)."""

BFLOAT16_ARCHS = (2201, 3510)
"""npu_arch whose dtype list has BFLOAT16 (opbase ``GetDtypeSupportListV2``)."""

MAX_RANK = 8
MAX_ELEMENTS = 1 << 48
"""More than any address space of these chips; keeps byte counts far from int64's end."""

UINT32_ELEMENTS = 1 << 32
"""The real tiling counts elements in uint32."""

TENSORS = ("grad_output", "self", "target")


class Reduction(IntEnum):
    """The ``reduction`` argument, by its ACL number."""

    NONE = 0
    MEAN = 1
    SUM = 2

    @classmethod
    def parse(cls, value: str | int) -> Reduction:
        """From "none", "mean", "sum" or 0, 1, 2."""
        if isinstance(value, str) and value.upper() in cls.__members__:
            return cls[value.upper()]
        if isinstance(value, int) and not isinstance(value, bool) and value in list(cls):
            return cls(value)
        raise AtlasError(f"reduction = {value!r}: must be none, mean or sum (0, 1, 2)", status=PARAM_INVALID)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call comes to: a launch, how it was cut, and what must be said about it.

    ``launch`` is ``None`` where nothing is launched (an empty tensor). ``stand_in_for`` names the
    kernel that the chip really runs where that one is not modelled yet.
    """

    operator: str
    kernel: str
    soc: Soc
    dtype: DType
    shape: tuple[int, ...]
    reduction: Reduction
    launch: Launch | None
    tiling: Tiling | None
    stand_in_for: str | None
    warnings: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def supported_dtypes(soc: Soc) -> tuple[DType, ...]:
    """The dtypes that the operator takes on ``soc``."""
    narrow = (DType.FLOAT32, DType.FLOAT16)
    return (*narrow, DType.BFLOAT16) if soc.npu_arch in BFLOAT16_ARCHS else narrow


def check_dtypes(soc: Soc, grad_output: str, self: str, target: str, out: str | None = None) -> DType:
    """The dtype checks in their documented order; returns self's dtype.

    Raises ``AtlasError`` with status 161002, naming the tensor, the dtype and the rule.
    """
    for name, dtype in (("grad_output", grad_output), ("target", target)):
        if dtype != self:
            raise AtlasError(f"{name} is {dtype} but self is {self}: they must agree", status=PARAM_INVALID)
    allowed = supported_dtypes(soc)
    for name, dtype in (("self", self), ("out", out if out is not None else self)):
        if dtype not in tuple(str(d) for d in allowed):
            raise AtlasError(
                f"{name} is {dtype}: {soc.name} (npu_arch {soc.npu_arch}) takes "
                f"{', '.join(allowed)} for this operator",
                status=PARAM_INVALID,
            )
    return DType(self)


def check_shapes(
    grad_output: Sequence[int], self: Sequence[int], target: Sequence[int], out: Sequence[int] | None = None
) -> tuple[int, ...]:
    """The shape checks in their documented order; returns the broadcast shape.

    Raises ``AtlasError``, with status 161002 where the real operator refuses too.
    """
    for name, shape in (("grad_output", grad_output), ("self", self), ("target", target)):
        if len(shape) > MAX_RANK:
            raise AtlasError(
                f"{name} has {len(shape)} dimensions: at most {MAX_RANK} are allowed", status=PARAM_INVALID
            )
    try:
        joined = np.broadcast_shapes(tuple(grad_output), tuple(self))
    except ValueError:
        raise AtlasError(
            f"grad_output {_text(grad_output)} and self {_text(self)} cannot be broadcast together",
            status=PARAM_INVALID,
        ) from None
    try:
        joined = np.broadcast_shapes(joined, tuple(target))
    except ValueError:
        raise AtlasError(
            f"target {_text(target)} cannot be broadcast with {_text(joined)}, the shape of "
            "grad_output and self",
            status=PARAM_INVALID,
        ) from None
    if out is not None and tuple(out) != joined:
        raise AtlasError(
            f"out is {_text(out)}: it must be exactly {_text(joined)}, the broadcast shape of the inputs",
            status=PARAM_INVALID,
        )
    return joined


def coefficient(shape: Sequence[int], reduction: Reduction) -> np.float32:
    """The factor of ``MseLossGradV2`` (``mse_loss_grad_v2_tiling.cpp``), in float32 throughout.

    mean: ``(1 / r) * 2`` with r the product of predict's dimensions, rounded after each; else 2.
    """
    if reduction is not Reduction.MEAN:
        return np.float32(2.0)
    product = np.float32(1.0)
    for dim in shape:
        product = np.float32(product * np.float32(dim))
    return np.float32(np.float32(np.float32(1.0) / product) * np.float32(2.0))


def plan(
    soc: Soc,
    *,
    shape: Sequence[int],
    dtype: DType,
    reduction: Reduction,
    grad_shape: Sequence[int] | None = None,
    target_shape: Sequence[int] | None = None,
    kernel: str | None = None,
    options: TilingOptions | None = None,
) -> Plan:
    """Everything that is decided before the launch. Raises ``AtlasError`` for what cannot run.

    ``shape`` is self's; the others default to it. ``options`` replaces parts of the kernel's tiling.
    """
    check_dtypes(soc, dtype, dtype, dtype)
    own = _dims(shape)
    grad = own if grad_shape is None else _dims(grad_shape)
    target = own if target_shape is None else _dims(target_shape)
    joined = check_shapes(grad, own, target)
    name = kernel or "mse_loss_grad_v2"
    chosen = registry.find(name)
    real = _real_kernel(soc, equal=grad == own == target)
    stand_in = None if real == name else real
    common = (OPERATOR, name, soc, dtype, joined, reduction)
    total = math.prod(joined)
    if 0 in (math.prod(own), math.prod(grad), math.prod(target)):
        return Plan(*common, None, None, stand_in, ("a tensor is empty: nothing is launched",))
    if not own == grad == target:
        raise AtlasError(
            f"self {_text(own)}, target {_text(target)} and grad_output {_text(grad)} differ: broadcasting "
            f"is legal here, but no kernel that does it ({real}) is modelled yet"
        )
    if total > MAX_ELEMENTS:
        raise AtlasError(f"{total} elements: more than {MAX_ELEMENTS}")
    cut = with_options(chosen.tiling(soc, dtype, total), options or TilingOptions(), dtype.itemsize)
    if cut.block_dim > soc.vector_cores:
        raise AtlasError(
            f"block-dim = {cut.block_dim}: {soc.name} has {soc.vector_cores} vector cores "
            f"({soc.origin}: vector_cores)"
        )
    tensors = [TensorArg(t, dtype, total) for t in TENSORS]
    launch = Launch(
        name,
        chosen.blocks(soc, dtype, cut),
        (*tensors, TensorArg("out", dtype, total, written=True)),
        {"coefficient": float(coefficient(own, reduction))},
    )
    findings = tuple(verify(launch, soc))
    warnings = []
    if findings and cut.chosen_by == "user":
        raise AtlasError(str(findings[0]).removeprefix("capacity: "))
    for finding in findings:
        if finding.rule != "capacity":
            raise AtlasError(f"{name} on {soc.name} is not a valid program: {finding}")
        warnings.append(f"{finding.message}; the real tiling asks for this too (docs/deviations.md)")
    needed = launch.bytes_read + launch.bytes_written
    if soc.memory.bytes is not None and needed > soc.memory.bytes:
        warnings.append(
            f"the tensors need {needed:,} B, {soc.name} has {soc.memory.bytes:,} B "
            f"({soc.origin}: memory.bytes)"
        )
    if total >= UINT32_ELEMENTS:
        warnings.append(
            f"{total} elements: the real tiling counts in 32 bits and would wrap; 64-bit tiling used here"
        )
    return Plan(*common, launch, cut, stand_in, tuple(dict.fromkeys(warnings)), findings)


def _real_kernel(soc: Soc, *, equal: bool) -> str:
    """The kernel that the chip runs (``mse_loss_grad.cpp``; newer ops-nn for the 950)."""
    if soc.npu_arch == 3510:
        return "mse_loss_grad_v2 (register-based, Ascend 950)"
    if equal and soc.short_name in registry.KERNELS["mse_loss_grad_v2"].short_names:
        return "mse_loss_grad_v2"
    return "mse_loss_grad (TBE)"


def _dims(shape: Sequence[int]) -> tuple[int, ...]:
    dims = tuple(int(d) for d in shape)
    for dim in dims:
        if dim < 0:
            raise AtlasError(f"shape {_text(dims)}: dimension {dim} is negative", status=PARAM_INVALID)
    return dims


def _text(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"

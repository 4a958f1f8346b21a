"""Which kernels a call launches, in which order, and the workspace they need. No arrays, no statuses.

Facts: ops-nn ``mse_loss_grad.cpp`` (kernel choice), ops-math ``contiguous`` and ``view_copy``,
opbase ``memory_allocator.cpp`` (operator, 1.4, 1.5, 1.7, 5.5).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from emulator.aclnn import texts
from emulator.aclnn.codes import DTYPE_NAMES, FORMAT_ND, REDUCTION_MEAN
from emulator.aclnn.descriptor import INT64_MAX, Descriptor
from emulator.aclnn.workspace import Resident, workspace_bytes
from kernel import coefficient, registry
from socs.isa import DType
from socs.spec import Soc

REGISTER_BASED_ARCH = 3510
"""npu_arch of the 950."""

ATVOSS_WORKSPACE_BYTES = 16 << 20
"""What the broadcast tiling of the 950 asks for in the older release."""

_NARROW = frozenset((DType.FLOAT32, DType.FLOAT16))
_ALL = _NARROW | {DType.BFLOAT16}

V2_KERNELS = {"Ascend910B": _ALL, "Ascend910_93": _ALL, "Ascend310P": _NARROW}
"""Dtypes of ``MseLossGradV2`` by CANN short name (``mse_loss_grad_v2_def.cpp``)."""

TBE_KERNELS = {
    "Ascend910B": _ALL,
    "Ascend910_93": _ALL,
    **dict.fromkeys(
        (
            *("Ascend310", "Ascend310B", "Ascend310P", "Ascend610", "Ascend610Lite", "Ascend910"),
            *("AS31XM1", "Ascend031"),
        ),
        _NARROW,
    ),
}
"""Dtypes of ``MseLossGrad`` in TBE by CANN short name (ops-info of CANN 8.1)."""

REDIRECT_NEEDS_WHOLE_STORAGE = (1001, 2002)
"""npu_arch (training, inference) where a kernel may write to ``out`` only if that is all of its storage."""


class RouteError(Exception):
    """A step of the route cannot be built; ``str()`` says why."""


class Variant(StrEnum):
    """The implementations of the operator."""

    V2 = "v2"
    TBE = "tbe"
    ATVOSS = "atvoss"
    REGISTER_BASED = "register_based"


OPERATORS = {
    Variant.V2: "MseLossGradV2",
    Variant.TBE: "MseLossGrad",
    Variant.ATVOSS: "MseLossGrad",
    Variant.REGISTER_BASED: "MseLossGradV2",
}
"""The operator type that is launched."""

KERNELS = {
    Variant.V2: "mse_loss_grad_v2",
    Variant.TBE: "mse_loss_grad",
    Variant.ATVOSS: "mse_loss_grad_950",
    Variant.REGISTER_BASED: "mse_loss_grad_v2_950",
}
"""The recorded kernel (:mod:`kernel.registry`)."""

_VARIANTS = {kernel: variant for variant, kernel in KERNELS.items()}

KERNEL_WORKSPACE_BYTES = {
    Variant.V2: 0,
    Variant.TBE: None,
    Variant.ATVOSS: ATVOSS_WORKSPACE_BYTES,
    Variant.REGISTER_BASED: 0,
}
"""What the kernel declares; ``None`` is no workspace at all, 0 still takes the least there is (512)."""


@dataclass(frozen=True, slots=True)
class Step:
    """One kernel launch: operator type, the tensors it reads, the one it writes, bytes of that one."""

    name: str
    reads: tuple[str, ...]
    writes: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Route:
    """The launches of a call that is not empty.

    ``workspace_bytes``: what phase 1 asks for. ``uses_workspace``: whether intermediate tensors lie there
    (else it is only declared). ``copies``: the inputs made contiguous. ``scalar``: the kernel's factor.
    """

    variant: Variant
    steps: tuple[Step, ...]
    workspace_bytes: int
    uses_workspace: bool
    copies: tuple[str, ...]
    scalar: np.float32
    reduction: int

    @property
    def kernel(self) -> str:
        """The recorded kernel's name."""
        return KERNELS[self.variant]

    @property
    def names(self) -> tuple[str, ...]:
        """The steps as ``Contiguous(target)``, ``MseLossGradV2``, ``Cast``, ``ViewCopy``."""
        return tuple(f"{s.name}({s.reads[0]})" if s.name == "Contiguous" else s.name for s in self.steps)


def choose(soc: Soc, inputs: Mapping[str, Descriptor], dtype: DType, release: str = "newer") -> Variant:
    """The implementation that runs for ``inputs`` (``grad_output``, ``self``, ``target``).

    Raises ``RouteError`` where none is registered, or its tiling refuses.
    """
    tensors = tuple(inputs.values())
    formats = {tensor.format for tensor in tensors}
    alike = len({tensor.view_dims for tensor in tensors}) == 1 and len(formats) == 1
    variant = _VARIANTS[registry.choose(soc, alike=alike, release=release)]
    if variant is Variant.REGISTER_BASED and formats != {FORMAT_ND}:
        raise RouteError(texts.ND_ALONE.format(OPERATORS[variant], soc.name))
    registered = {Variant.V2: V2_KERNELS, Variant.TBE: TBE_KERNELS}.get(variant)
    if registered is not None and dtype not in registered.get(soc.short_name, frozenset()):
        raise RouteError(texts.NO_KERNEL.format(OPERATORS[variant], dtype, soc.short_name))
    return variant


def factor(variant: Variant, shape: tuple[int, ...], reduction: int) -> np.float32:
    """The float32 that the kernel multiplies with; ``shape`` is self's before broadcasting."""
    mean = registry.find(KERNELS[variant]).mean
    return mean(shape) if reduction == REDUCTION_MEAN else coefficient.PLAIN


def build(
    soc: Soc,
    inputs: Mapping[str, Descriptor],
    out: Descriptor,
    reduction: int,
    release: str = "newer",
) -> Route:
    """The route of a checked call that is not empty: its steps, its workspace, its factor.

    ``inputs``: ``grad_output``, ``self`` and ``target``, in that order. Raises ``RouteError`` for the first
    step that cannot be built.
    """
    dtype = DType(DTYPE_NAMES[inputs["self"].dtype])
    width = dtype.itemsize
    steps: list[Step] = []
    copies = []
    for name, tensor in inputs.items():
        _check_size(name, tensor)
        if not tensor.is_contiguous:
            _check_strides(name, tensor)
            copies.append(name)
            steps.append(Step("Contiguous", (name,), f"contiguous {name}", tensor.count * width))
    variant = choose(soc, inputs, dtype, release)
    _check_size("out", out)
    operands = tuple(f"contiguous {name}" if name in copies else name for name in inputs)
    steps.append(Step(OPERATORS[variant], operands, "result", out.count * width))
    kernel = len(steps) - 1
    if out.dtype != inputs["self"].dtype:
        size = out.count * DType(DTYPE_NAMES[out.dtype]).itemsize
        steps.append(Step("Cast", ("result",), "cast result", size))
    if not _redirects(soc, out):
        if not out.is_contiguous:
            _check_strides("out", out)
        steps.append(Step("ViewCopy", (steps[-1].writes,), "out", steps[-1].bytes))
    else:
        last = steps[-1]
        steps[-1] = Step(last.name, last.reads, "out", last.bytes)
    residents = _residents(steps, kernel, KERNEL_WORKSPACE_BYTES[variant])
    total = workspace_bytes(residents)
    if total > INT64_MAX:
        raise RouteError(texts.TOO_MUCH_WORKSPACE.format(total))
    return Route(
        variant,
        tuple(steps),
        total,
        any(step.writes != "out" for step in steps),
        tuple(copies),
        factor(variant, inputs["self"].view_dims, reduction),
        reduction,
    )


def _residents(steps: list[Step], kernel: int, declared: int | None) -> list[Resident]:
    found = []
    for place, step in enumerate(steps):
        if step.writes != "out":
            last = max(i for i, reader in enumerate(steps) if step.writes in reader.reads)
            found.append(Resident(step.writes, step.bytes, place, last, step.reads))
        if place == kernel and declared is not None:
            found.append(Resident("kernel workspace", declared, place, place, step.reads))
    return found


def _redirects(soc: Soc, out: Descriptor) -> bool:
    """Whether the last kernel writes to ``out`` itself, without a ViewCopy kernel."""
    if not out.is_contiguous:
        return False
    return soc.npu_arch not in REDIRECT_NEEDS_WHOLE_STORAGE or out.storage_dims == out.view_dims


def _check_size(name: str, tensor: Descriptor) -> None:
    # The real code multiplies in int64 and does not look; nothing useful can follow from that.
    for dim in tensor.view_dims:
        if dim < 0:
            raise RouteError(texts.NEGATIVE_DIM.format(name, dim))
    if tensor.count * 8 > INT64_MAX:
        raise RouteError(texts.TOO_LARGE.format(name, tensor.count))


def _check_strides(name: str, tensor: Descriptor) -> None:
    reason = tensor.reason_against_strides()
    if reason is not None:
        raise RouteError(texts.INVALID_VIEW.format(name, reason))

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
from kernel.coefficient import PLAIN
from kernel.layout import Layout, broadcast, contiguous_strides
from kernel.program import Launch, TensorArg
from kernel.tiling import Problem, Tiling, TilingOptions, with_options
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
    kernel that the chip really runs where the user chose another. ``assumed``: what of the kernel no
    public source settles.
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
    assumed: tuple[str, ...] = ()


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


def coefficient(shape: Sequence[int], reduction: Reduction, kernel: str = "mse_loss_grad_v2") -> np.float32:
    """The factor that ``kernel`` multiplies with: by its own rule for ``mean``, else 2."""
    return registry.find(kernel).mean(shape) if reduction is Reduction.MEAN else PLAIN


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
    release: str = "newer",
    formats_agree: bool = True,
) -> Plan:
    """Everything that is decided before the launch. Raises ``AtlasError`` for what cannot run.

    ``shape`` is self's; the others default to it. ``options`` replaces parts of the kernel's tiling.
    ``release`` of ops-nn decides the kernel on the 950, ``formats_agree`` on the others.
    """
    check_dtypes(soc, dtype, dtype, dtype)
    own = _dims(shape)
    shapes = {
        "grad_output": own if grad_shape is None else _dims(grad_shape),
        "self": own,
        "target": own if target_shape is None else _dims(target_shape),
    }
    joined = check_shapes(shapes["grad_output"], own, shapes["target"])
    alike = len(set(shapes.values())) == 1
    real = registry.choose(soc, alike=alike and formats_agree, release=release)
    name = kernel or real
    chosen = registry.find(name)
    common = (OPERATOR, name, soc, dtype, joined, reduction)
    stand_in = None if real == name else real
    options = options or TilingOptions()
    total = math.prod(joined)
    if any(0 in dims for dims in shapes.values()):
        return Plan(*common, None, None, stand_in, ("a tensor is empty: nothing is launched",))
    if not alike and not chosen.broadcasts:
        raise AtlasError(
            f"{name} takes equal shapes; self is {_text(own)}, target {_text(shapes['target'])}, "
            f"grad_output {_text(shapes['grad_output'])}: {soc.name} runs {real} for them"
        )
    if total > MAX_ELEMENTS:
        raise AtlasError(f"{total} elements: more than {MAX_ELEMENTS}")
    if options.block_dim is not None and options.block_dim > soc.vector_cores:
        raise AtlasError(
            f"block-dim = {options.block_dim}: {soc.name} has {soc.vector_cores} vector cores "
            f"({soc.origin}: vector_cores)"
        )
    problem = Problem(
        dtype,
        joined,
        frozenset(n for n, dims in shapes.items() if math.prod(dims) != total),
        frozenset(n for n, dims in shapes.items() if math.prod(dims) == 1),
    )
    cut = with_options(chosen.tiling(soc, problem), options, dtype.itemsize)
    launch = Launch(
        name,
        chosen.blocks(soc, problem, cut),
        (
            *(TensorArg(n, dtype, total, layout=_layout(dims, joined)) for n, dims in shapes.items()),
            TensorArg("out", dtype, total, written=True),
        ),
        {"coefficient": float(coefficient(own, reduction, name))},
        joined,
    )
    findings = tuple(verify(launch, soc))
    warnings = _warnings(launch, soc, cut, findings)
    if not chosen.queues and options.buffer_num not in (None, 1):
        warnings += (f"buffer-num = {options.buffer_num} changes nothing: {name} has no queues",)
    return Plan(*common, launch, cut, stand_in, warnings, findings, chosen.assumed)


def _layout(shape: tuple[int, ...], joined: tuple[int, ...]) -> Layout | None:
    """Where a contiguous tensor of ``shape`` lies in the joined index space; ``None`` if that is linear."""
    if math.prod(shape) == math.prod(joined):
        return None
    return Layout(joined, broadcast(shape, contiguous_strides(shape), joined))


def _warnings(launch: Launch, soc: Soc, cut: Tiling, findings: Sequence[Finding]) -> tuple[str, ...]:
    if findings and cut.chosen_by == "user":
        raise AtlasError(str(findings[0]).removeprefix("capacity: "))
    warnings = []
    for finding in findings:
        if finding.rule != "capacity":
            raise AtlasError(f"{launch.kernel} on {soc.name} is not a valid program: {finding}")
        warnings.append(f"{finding.message}; the real tiling asks for this too (docs/deviations.md)")
    needed = launch.bytes_read + launch.bytes_written
    if soc.memory.bytes is not None and needed > soc.memory.bytes:
        warnings.append(
            f"the tensors need {needed:,} B, {soc.name} has {soc.memory.bytes:,} B "
            f"({soc.origin}: memory.bytes)"
        )
    if cut.total_length >= UINT32_ELEMENTS:
        warnings.append(
            f"{cut.total_length} elements: the real tiling counts in 32 bits and would wrap; "
            "64-bit tiling used here"
        )
    return tuple(dict.fromkeys(warnings))


def _dims(shape: Sequence[int]) -> tuple[int, ...]:
    dims = tuple(int(d) for d in shape)
    for dim in dims:
        if dim < 0:
            raise AtlasError(f"shape {_text(dims)}: dimension {dim} is negative", status=PARAM_INVALID)
    return dims


def _text(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"

"""The operator ``aclnnMseLossBackward``: what it accepts, which kernel runs, with which coefficient.

Facts: ops-nn ``aclnn_mse_loss_backward.cpp`` (checks and their order), ``mse_loss_grad.cpp`` (kernel
choice), ``mse_loss_grad_v2_tiling.cpp`` (coefficient).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from typing import Any

import numpy as np

from kernel import registry
from kernel.coefficient import PLAIN
from kernel.plan import (
    EMPTY,
    MAX_ELEMENTS,
    MAX_RANK,
    PARAM_INVALID,
    Plan,
    Sketch,
    check_block_dim,
    dims_of,
    layout_in,
    shape_text,
)
from kernel.program import TensorArg
from kernel.remember import remembered
from kernel.tiling import Problem, TilingOptions
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc

OPERATOR = "mse_loss_backward"

BFLOAT16_ARCHS = (2201, 3510)
"""npu_arch whose dtype list has BFLOAT16 (opbase ``GetDtypeSupportListV2``)."""

TENSORS = ("grad_output", "self", "target")


class Reduction(IntEnum):
    """The ``reduction`` argument, by its ACL number."""

    NONE = 0
    MEAN = 1
    SUM = 2

    @classmethod
    def parse(cls, value: str | int) -> Reduction:
        """From "none", "mean", "sum" or 0, 1, 2."""
        known = _REDUCTIONS.get(value.lower()) if isinstance(value, str) else None
        if known is not None:
            return known
        if not isinstance(value, (str, bool, np.bool_)):
            with suppress(TypeError, ValueError):
                return cls(operator.index(value))
        raise AtlasError(f"reduction = {value!r}: must be none, mean or sum (0, 1, 2)", status=PARAM_INVALID)


_REDUCTIONS = {reduction.name.lower(): reduction for reduction in Reduction}


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
        if dtype not in allowed:
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
    if out is None and tuple(grad_output) == tuple(self) == tuple(target):
        return tuple(self)
    try:
        joined = np.broadcast_shapes(tuple(grad_output), tuple(self))
    except ValueError:
        raise AtlasError(
            f"grad_output {shape_text(grad_output)} and self {shape_text(self)} cannot be broadcast together",
            status=PARAM_INVALID,
        ) from None
    try:
        joined = np.broadcast_shapes(joined, tuple(target))
    except ValueError:
        raise AtlasError(
            f"target {shape_text(target)} cannot be broadcast with {shape_text(joined)}, the shape of "
            "grad_output and self",
            status=PARAM_INVALID,
        ) from None
    if out is not None and tuple(out) != joined:
        raise AtlasError(
            f"out is {shape_text(out)}: it must be exactly {shape_text(joined)}, the broadcast shape of "
            "the inputs",
            status=PARAM_INVALID,
        )
    return joined


def coefficient(shape: Sequence[int], reduction: Reduction, kernel: str = "mse_loss_grad_v2") -> np.float32:
    """The factor that ``kernel`` multiplies with: by its own rule for ``mean``, else 2."""
    return registry.find(kernel).mean(shape) if reduction is Reduction.MEAN else PLAIN


@remembered(64)
def plan(soc: Soc, **call: Any) -> Plan:
    """:func:`decide`, recorded and verified: ``AtlasError`` for what cannot run."""
    return decide(soc, **call).checked()


def decide(
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
    own = dims_of(shape)
    shapes = {
        "grad_output": own if grad_shape is None else dims_of(grad_shape),
        "self": own,
        "target": own if target_shape is None else dims_of(target_shape),
    }
    joined = check_shapes(shapes["grad_output"], own, shapes["target"])
    alike = all(dims == own for dims in shapes.values())
    real = registry.choose(soc, alike=alike and formats_agree, release=release)
    name = kernel or real
    chosen = registry.find(name)
    common = (OPERATOR, name, soc, dtype, joined)
    word = reduction.name.lower()
    stand_in = None if real == name else real
    options = options or TilingOptions()
    total = math.prod(joined)
    if not total:
        return Plan(*common, None, None, stand_in, (EMPTY,), reduction=word)
    if not alike and not chosen.broadcasts:
        raise AtlasError(
            f"{name} takes equal shapes; self is {shape_text(own)}, target {shape_text(shapes['target'])}, "
            f"grad_output {shape_text(shapes['grad_output'])}: {soc.name} runs {real} for them"
        )
    if total > MAX_ELEMENTS:
        raise AtlasError(f"{total} elements: more than {MAX_ELEMENTS}")
    check_block_dim(soc, options)
    sizes = {name: math.prod(dims) for name, dims in shapes.items()}
    problem = Problem(
        dtype,
        joined,
        frozenset([name for name, size in sizes.items() if size != total]),
        frozenset([name for name, size in sizes.items() if size == 1]),
    )
    cut = chosen.tiled(soc, problem, options)
    sketch = Sketch(
        name,
        chosen.record,
        (problem,),
        tuple(cut.shapes()),
        (
            *(TensorArg(n, dtype, total, layout=layout_in(dims, joined)) for n, dims in shapes.items()),
            TensorArg("out", dtype, total, written=True),
        ),
        {"coefficient": float(coefficient(own, reduction, name))},
        joined,
    )
    notes: tuple[str, ...] = ()
    if not chosen.queues and options.buffer_num not in (None, 1):
        notes = (f"buffer-num = {options.buffer_num} changes nothing: {name} has no queues",)
    return Plan(*common, sketch, cut, stand_in, notes, chosen.assumed, word)

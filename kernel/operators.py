"""The operators by name: their arguments, and the plan of a call.

Everything that takes an operator's name goes through :func:`find`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernel import mse_loss_backward, registry, schedules
from kernel.elementwise import FAMILY, Elementwise, Input, Job, record
from kernel.layout import broadcast, coalesce, contiguous_strides
from kernel.mse_loss_backward import Reduction
from kernel.plan import (
    EMPTY,
    MAX_ELEMENTS,
    MAX_RANK,
    PARAM_INVALID,
    Plan,
    Sketch,
    check_block_dim,
    layout_in,
    shape_text,
)
from kernel.program import TensorArg
from kernel.schedules import ASCENDC, ATVOSS, PLAIN, TBE, TBE_OLDER, TENSOR_MOVE, TRITON, Schedule
from kernel.tiling import TilingOptions
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc

FLOATING = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)
COMPUTED = (*FLOATING, DType.INT32, DType.INT16)
"""Dtypes of which an instruction has a cost on some chip."""

SCHEDULES = (TBE, TBE_OLDER, ATVOSS, TENSOR_MOVE, ASCENDC, TRITON, PLAIN)


@dataclass(frozen=True, slots=True)
class Request:
    """One call of an operator: a shape and a dtype for each input, by name, and what else it takes.

    ``to``: the dtype of the result (``cast``); ``scalar``: the number (``fill``, ``muls``). ``kernel``,
    ``options`` and ``release`` replace what the chip's own software would choose.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    reduction: str | int = "mean"
    scalar: float | None = None
    to: str | None = None
    kernel: str | None = None
    options: TilingOptions = field(default_factory=TilingOptions)
    release: str = "newer"


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator. ``inputs``: its arguments in the order of the vendor's operator, of which ``first`` is
    the one whose shape and dtype the others default to.

    ``variadic``: it takes any number of inputs ``x0``, ``x1``, ... in place of ``x``. ``scalar``, ``casts``,
    ``reduces``: whether it takes ``scalar=``, ``to=`` and ``reduction=``. ``reads``: whether it reads its
    inputs' elements, ``writes``: whether it has a result. ``vendor``: its names in the vendor's software;
    ``kernels``: what ``kernel=`` may be. ``decide``: the plan of a call before anything is
    recorded and verified.
    """

    name: str
    inputs: tuple[str, ...]
    first: str
    decide: Callable[[Soc, Request], Plan]
    vendor: tuple[str, ...]
    scalar: bool = False
    casts: bool = False
    reduces: bool = False
    variadic: bool = False
    reads: bool = True
    writes: bool = True
    kernels: tuple[str, ...] = ()
    planned: Callable[[Soc, Request], Plan] | None = None
    """What :meth:`plan` does where plans of equal calls are kept."""

    def plan(self, soc: Soc, request: Request) -> Plan:
        """What a call comes to, recorded and verified: ``AtlasError`` for what cannot run."""
        return self.decide(soc, request).checked() if self.planned is None else self.planned(soc, request)

    def kernel(self, kind: str) -> str:
        """The name of the kernel of a kind (``triton``, ``ascendc``, ...); ``AtlasError`` without one."""
        found = [name for name in self.kernels if name.endswith(f"_{kind}")]
        if not found:
            raise AtlasError(f"{self.name} has no {kind} kernel: there are {', '.join(self.kernels)}")
        return found[0]

    def arguments(self, count: int | None = None) -> tuple[str, ...]:
        """The names of the inputs; ``count`` of them where the operator takes any number."""
        if not self.variadic:
            return self.inputs
        return tuple(f"x{number}" for number in range(2 if count is None else count))


def find(name: str) -> Operator:
    """The operator called ``name``, ours or the vendor's (``RealDiv``); ``AtlasError`` with those known."""
    known = OPERATORS.get(name) if isinstance(name, str) else None
    known = known or (OPERATORS.get(ALIASES.get(name.lower(), "")) if isinstance(name, str) else None)
    if known is None:
        raise AtlasError(f"unknown operator {name!r}: there are {', '.join(sorted(OPERATORS))}")
    return known


def _mse_loss_backward(decide: Callable[..., Plan]) -> Callable[[Soc, Request], Plan]:
    def decided(soc: Soc, request: Request) -> Plan:
        shapes, dtypes = request.shapes, request.dtypes
        dtype = mse_loss_backward.check_dtypes(soc, dtypes["grad_output"], dtypes["self"], dtypes["target"])
        return decide(
            soc,
            shape=shapes["self"],
            dtype=dtype,
            reduction=Reduction.parse(request.reduction),
            grad_shape=shapes["grad_output"],
            target_shape=shapes["target"],
            kernel=request.kernel,
            options=request.options,
            release=request.release,
        )

    return decided


def _elementwise(operator: Elementwise) -> Callable[[Soc, Request], Plan]:
    def decide(soc: Soc, request: Request) -> Plan:
        return _decide(operator, soc, request)

    return decide


def _decide(operator: Elementwise, soc: Soc, request: Request) -> Plan:
    dtypes = {name: _dtype(name, dtype) for name, dtype in request.dtypes.items()}
    joined = _joined(request.shapes)
    out = _result_dtype(operator, request, dtypes)
    total = math.prod(joined)
    given = [name for name in request.shapes if operator.reads]
    axes, inputs = _inputs(given, request.shapes, dtypes, joined)
    job = Job(operator, inputs, out, axes, joined[-1] if joined else 1)
    real = schedules.chosen(soc, job)
    schedule = real if request.kernel is None else _schedule(operator, request.kernel)
    kernel = f"{operator.name}_{schedule.name}"
    stand_in = None if schedule is real else f"{operator.name}_{real.name}"
    if not total:
        return Plan(operator.name, kernel, soc, out, joined, None, None, stand_in, (EMPTY,))
    if total > MAX_ELEMENTS:
        raise AtlasError(f"{total} elements: more than {MAX_ELEMENTS}")
    check_block_dim(soc, request.options)
    cut = schedule.cut(soc, job, request.options)
    tensors = [
        TensorArg(i.name, i.dtype, total, layout=layout_in(request.shapes[i.name], joined)) for i in inputs
    ]
    if operator.writes:
        tensors.append(TensorArg("out", out, total, written=True))
    sketch = Sketch(
        kernel,
        record,
        (job, schedule.style),
        tuple(cut.shapes()),
        tuple(tensors),
        _scalars(operator, request),
        joined,
    )
    return Plan(operator.name, kernel, soc, out, joined, sketch, cut, stand_in, (), schedule.assumed)


def _result_dtype(operator: Elementwise, request: Request, dtypes: Mapping[str, DType]) -> DType:
    if operator.casts:
        if request.to is None:
            raise AtlasError(f"{operator.name} needs to=, the dtype of its result")
        return _dtype("to", request.to)
    kinds = tuple(dtypes.values())
    out = kinds[0] if len(set(kinds)) == 1 else DType.FLOAT32
    if operator.compute is not None:
        for name, kind in dtypes.items():
            if kind not in COMPUTED or (kind not in FLOATING and out is DType.FLOAT32):
                raise AtlasError(
                    f"{name} is {kind}: {operator.name} of {' and '.join(dict.fromkeys(kinds))} is not "
                    f"modelled; there are {', '.join(COMPUTED)}, and mixtures of {', '.join(FLOATING)}",
                    status=PARAM_INVALID,
                )
    return out


def _inputs(
    names: Sequence[str],
    shapes: Mapping[str, tuple[int, ...]],
    dtypes: Mapping[str, DType],
    joined: tuple[int, ...],
) -> tuple[tuple[int, ...], tuple[Input, ...]]:
    """The axes of the index space, joined as far as all inputs allow, and how each input lies in it."""
    total = math.prod(joined)
    walks = [broadcast(shapes[n], contiguous_strides(shapes[n]), joined) for n in names]
    axes, strides = coalesce(joined, [contiguous_strides(joined), *walks])
    inputs = []
    for name, walk in zip(names, strides[1:], strict=True):
        size = math.prod(shapes[name])
        repeated = size != total
        row = axes[-1] if repeated and size > 1 and walk[-1] == 0 else 1
        inputs.append(Input(name, dtypes[name], repeated, repeated and size == 1, row))
    return axes, tuple(inputs)


def _scalars(operator: Elementwise, request: Request) -> dict[str, float]:
    if operator.constant is not None:
        return {"scalar": operator.constant}
    if operator.scalar:
        return {"scalar": 1.0 if request.scalar is None else float(request.scalar)}
    return {}


def _schedule(operator: Elementwise, kernel: str) -> Schedule:
    for schedule in SCHEDULES:
        if kernel in kernel_names(operator) and kernel == f"{operator.name}_{schedule.name}":
            return schedule
    known = ", ".join(kernel_names(operator))
    raise AtlasError(f"unknown kernel {kernel!r}: {operator.name} has {known}")


def kernel_names(operator: Elementwise) -> tuple[str, ...]:
    """The kernels that an operator of the family has."""
    moves = operator.compute is None and not operator.casts
    return tuple(f"{operator.name}_{s.name}" for s in SCHEDULES if moves or s is not TENSOR_MOVE)


def _dtype(name: str, dtype: str) -> DType:
    try:
        return DType(dtype)
    except ValueError:
        raise AtlasError(f"{name} is {dtype}: there are {', '.join(DType)}", status=PARAM_INVALID) from None


def _joined(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    for name, shape in shapes.items():
        if len(shape) > MAX_RANK:
            raise AtlasError(
                f"{name} has {len(shape)} dimensions: at most {MAX_RANK} are allowed", status=PARAM_INVALID
            )
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        text = ", ".join(f"{name} {shape_text(shape)}" for name, shape in shapes.items())
        raise AtlasError(f"{text} cannot be broadcast together", status=PARAM_INVALID) from None


_VENDOR = {
    "copy": ("Copy", "TensorMove", "Identity", "ViewCopy"),
    "cast": ("Cast",),
    "fill": ("Fill", "ZerosLike", "OnesLike"),
    "relu": ("Relu",),
    "neg": ("Neg",),
    "muls": ("Muls",),
    "add": ("Add",),
    "sub": ("Sub",),
    "mul": ("Mul",),
    "div": ("RealDiv", "Div"),
    "maximum": ("Maximum",),
    "minimum": ("Minimum",),
    "add_n": ("AddN",),
}

OPERATORS: dict[str, Operator] = {
    mse_loss_backward.OPERATOR: Operator(
        mse_loss_backward.OPERATOR,
        mse_loss_backward.TENSORS,
        "self",
        _mse_loss_backward(mse_loss_backward.decide),
        ("MseLossGrad", "MseLossGradV2"),
        reduces=True,
        kernels=tuple(registry.KERNELS),
        planned=_mse_loss_backward(mse_loss_backward.plan),
    )
} | {
    operator.name: Operator(
        operator.name,
        operator.inputs,
        "x0" if operator.variadic else "x",
        _elementwise(operator),
        _VENDOR.get(operator.name, ()),
        scalar=operator.scalar,
        casts=operator.casts,
        variadic=operator.variadic,
        reads=operator.reads,
        writes=operator.writes,
        kernels=kernel_names(operator),
    )
    for operator in FAMILY.values()
}

ALIASES: dict[str, str] = {
    alias.lower(): operator.name for operator in OPERATORS.values() for alias in operator.vendor
}
"""The vendor's names, in lower case, and ours."""

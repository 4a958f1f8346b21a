"""The operators by name: their arguments, and the plan of a call. Everything that takes an operator's name
goes through :func:`find`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from kernel import elementwise, mse_loss_backward
from kernel.elementwise import FAMILY, Elementwise, Input, Job
from kernel.mse_loss_backward import Reduction
from kernel.plan import EMPTY, MAX_ELEMENTS, MAX_RANK, PARAM_INVALID, Plan, layout_in, shape_text
from kernel.program import TensorArg
from kernel.tiling import TilingOptions
from kernel.verify import verify
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc


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

    ``variadic``: it takes any number of inputs ``x0``, ``x1``, ... in place of ``x``. ``scalar``, ``casts``:
    whether it takes ``scalar=`` and ``to=``. ``vendor``: its names in the vendor's software.
    """

    name: str
    inputs: tuple[str, ...]
    first: str
    plan: Callable[[Soc, Request], Plan]
    vendor: tuple[str, ...]
    scalar: bool = False
    casts: bool = False
    reduces: bool = False
    variadic: bool = False
    reads: bool = True

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


def _mse_loss_backward(soc: Soc, request: Request) -> Plan:
    shapes, dtypes = request.shapes, request.dtypes
    dtype = mse_loss_backward.check_dtypes(soc, dtypes["grad_output"], dtypes["self"], dtypes["target"])
    return mse_loss_backward.plan(
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


def _elementwise(operator: Elementwise) -> Callable[[Soc, Request], Plan]:
    def plan(soc: Soc, request: Request) -> Plan:
        return _plan(operator, soc, request)

    return plan


def _plan(operator: Elementwise, soc: Soc, request: Request) -> Plan:
    dtypes = {name: _dtype(name, dtype) for name, dtype in request.dtypes.items()}
    joined = _joined(request.shapes)
    total = math.prod(joined)
    if operator.casts:
        if request.to is None:
            raise AtlasError(f"{operator.name} needs to=, the dtype of its result")
        out = _dtype("to", request.to)
    else:
        out = _promoted(tuple(dtypes.values()))
    name = f"{operator.name}_kernel"
    if any(0 in dims for dims in request.shapes.values()):
        return Plan(operator.name, name, soc, out, joined, None, None, None, (EMPTY,))
    if total > MAX_ELEMENTS:
        raise AtlasError(f"{total} elements: more than {MAX_ELEMENTS}")
    inputs = tuple(
        Input(n, dtypes[n], math.prod(dims) != total, math.prod(dims) == 1 != total)
        for n, dims in request.shapes.items()
        if operator.reads
    )
    scalars = {}
    if operator.scalar:
        scalars["scalar"] = 1.0 if request.scalar is None else float(request.scalar)
    elif operator.name == "neg":
        scalars["scalar"] = -1.0
    tensors = (
        *(
            TensorArg(i.name, i.dtype, total, layout=layout_in(request.shapes[i.name], joined))
            for i in inputs
        ),
        TensorArg("out", out, total, written=True),
    )
    launch = elementwise.launch(soc, Job(operator, inputs, out, joined), name, tensors, scalars)
    findings = tuple(verify(launch, soc))
    for finding in findings:
        raise AtlasError(f"{launch.kernel} on {soc.name} is not a valid program: {finding}")
    return Plan(operator.name, name, soc, out, joined, launch, None, None, (), findings)


def _dtype(name: str, dtype: str) -> DType:
    try:
        return DType(dtype)
    except ValueError:
        raise AtlasError(f"{name} is {dtype}: there are {', '.join(DType)}", status=PARAM_INVALID) from None


def _promoted(dtypes: Sequence[DType]) -> DType:
    return dtypes[0] if len(set(dtypes)) == 1 else DType.FLOAT32


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
        _mse_loss_backward,
        ("MseLossGrad", "MseLossGradV2"),
        reduces=True,
    )
} | {
    operator.name: Operator(
        operator.name,
        operator.inputs,
        "x0" if operator.variadic else "x",
        _elementwise(operator),
        _VENDOR[operator.name],
        scalar=operator.scalar,
        casts=operator.casts,
        variadic=operator.variadic,
        reads=operator.reads,
    )
    for operator in FAMILY.values()
}

ALIASES: dict[str, str] = {
    alias.lower(): operator.name for operator in OPERATORS.values() for alias in operator.vendor
}
"""The vendor's names, in lower case, and ours."""

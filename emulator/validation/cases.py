"""From a row to a call that can be predicted: which chip, which operator, which tensors, which tiling."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np

from emulator.validation.cells import Shape, Unusable, dtypes, shapes, whole
from emulator.validation.columns import RawRow
from emulator.wording import counted
from kernel import operators
from kernel.operators import Operator, Request
from kernel.plan import Plan
from kernel.tiling import TilingOptions
from socs.errors import AtlasError, UnknownCost
from socs.isa import DType
from socs.spec import Soc

VENDOR = "vendor"
"""``kernel`` of rows that measured the vendor's own kernel, which is what the chip's tiling is meant for."""

_KINDS = {"triton": "triton", "ascendc sample": "ascendc"}
"""Other kinds, and how this package calls such kernels."""

_VENDOR_ORDER = {"mse_loss_backward": ("self", "target", "grad_output")}
"""Where the vendor's kernel takes its inputs in another order than the operator (MseLossGrad: predict,
label, dout)."""

_CORES = ("AI_CORE", "AI_VECTOR_CORE", "AIC", "AIV", "MIX_", "KERNEL_AIC", "KERNEL_AIV")
_NO_CORE = ("", "N/A")

_TILE = re.compile(r"dataCopyLen\s*=\s*(\d+)|\btile\s*=?\s*(\d+)\b(?!\s*,\s*\d)|\bBLOCK\s*<?=\s*(\d+)")
_SINGLE = re.compile(r"\b(?:no|without) double buffer|\bsingle buffer")


@dataclass(frozen=True, slots=True)
class Case:
    """One call that rows measured: all that a prediction depends on but the state of L2.

    ``op`` is the operator as the file names it, ``operator`` as this package does. ``options`` holds a
    tiling that the row states; the vendor's kernels have their own.
    """

    soc: str
    kernel: str
    op: str
    operator: str
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    out_dtype: str
    options: TilingOptions


def text_key(row: RawRow) -> tuple[str, ...]:
    """Rows with equal keys are the same case: so each kind of text is parsed once."""
    stated = (row.block_dim, row.note) if row.kernel.strip() not in ("", VENDOR) else ()
    named = (row.name,) if row.op.strip() in _NO_CORE else ()
    return (
        row.soc,
        row.kernel,
        row.op,
        row.core,
        row.in_dtypes,
        row.out_dtypes,
        row.in_shapes,
        row.out_shapes,
        *named,
        *stated,
    )


def case_of(row: RawRow, soc: str) -> Case:
    """The call that ``row`` measured on the chip called ``soc``. Raises ``Unusable`` with the reason."""
    core = row.core.strip().upper().replace(" ", "_")
    if core not in _NO_CORE and not core.startswith(_CORES):
        raise Unusable("did not run on an AI core")
    op = _op(row)
    try:
        operator = operators.find(op)
    except AtlasError:
        raise Unusable(f"unknown operator {_short(op)}") from None
    if not row.in_dtypes.strip() and not row.in_shapes.strip():
        raise Unusable("no shapes and dtypes")
    kinds = dtypes(row.in_dtypes, "input")
    if not kinds:
        raise Unusable("no dtype of the inputs")
    dims = shapes(row.in_shapes, len(kinds), "input")
    made = dtypes(row.out_dtypes, "output")
    if not operator.reads:
        # Its inputs only say what to write: the result is all that there is.
        out = shapes(row.out_shapes, len(made), "output") if row.out_shapes.strip() and made else dims[:1]
        dims, kinds = out[:1], (made or kinds)[:1]
    if not operator.variadic and len(dims) != len(operator.inputs):
        raise Unusable(f"{operator.name} takes {counted(len(operator.inputs), 'input')}, not {len(dims)}")
    if any(0 in shape for shape in dims):
        raise Unusable("a tensor is empty: nothing is launched")
    if operator.casts and not made:
        raise Unusable("no dtype of the output")
    kernel = " ".join(row.kernel.split()).casefold() or VENDOR
    if kernel != VENDOR and kernel not in _KINDS:
        raise Unusable(f"unknown kind of kernel {_short(kernel)}")
    options = TilingOptions() if kernel == VENDOR else _stated(kernel, row, dims)
    return Case(soc, kernel, op, operator.name, dims, kinds, made[0] if made else "", options)


def plan_of(case: Case, soc: Soc) -> Plan:
    """The plan of ``case`` on ``soc``. Raises ``Unusable`` where the emulator has none."""
    operator = operators.find(case.operator)
    names = _names(operator, len(case.shapes))
    unknown = sorted({*case.dtypes, *([case.out_dtype] if operator.casts else [])} - set(DType))
    if unknown:
        raise Unusable(f"{case.operator} of {unknown[0]} is not modelled")
    try:
        kernel = None if case.kernel == VENDOR else operator.kernel(_KINDS[case.kernel])
    except AtlasError as error:
        raise Unusable(f"{case.operator} has no kernel of kind {case.kernel!r}", str(error)) from None
    request = Request(
        dict(zip(names, case.shapes, strict=True)),
        dict(zip(names, case.dtypes, strict=True)),
        to=case.out_dtype if operator.casts else None,
        kernel=kernel,
        options=case.options,
    )
    try:
        plan = operator.decide(soc, request)
    except UnknownCost as error:
        raise no_cost(error) from None
    except AtlasError as error:
        raise Unusable("refused by the operator", str(error)) from None
    if plan.sketch is None:
        raise Unusable("a tensor is empty: nothing is launched")
    return plan


def no_cost(error: UnknownCost) -> Unusable:
    """The reason alone: where the chip's file lacks the number stands behind it in brackets."""
    return Unusable(str(error).partition(" (")[0])


def tensor_bytes(case: Case) -> int:
    """Bytes of all inputs and of the result, each tensor once; 0 where a shape or dtype gives none."""
    operator = operators.find(case.operator)
    read = sum(
        math.prod(shape) * _itemsize(dtype)
        for shape, dtype in zip(case.shapes, case.dtypes, strict=True)
        if operator.reads
    )
    try:
        joined = np.broadcast_shapes(*case.shapes)
    except ValueError:
        return 0
    widest = max(case.dtypes, key=_itemsize)
    written = math.prod(joined) * _itemsize(case.out_dtype or widest) if operator.writes else 0
    return read + written


def _names(operator: Operator, count: int) -> tuple[str, ...]:
    if operator.variadic:
        return operator.arguments(count)
    return _VENDOR_ORDER.get(operator.name, operator.inputs)


def _op(row: RawRow) -> str:
    """The operator's type; without one (profiles of the lowest level) what the kernel's name ends in."""
    op = row.op.strip()
    if op.upper() not in _NO_CORE:
        return op
    # As in aclnnMul_MulAiCore_Mul.
    name = row.name.strip().rpartition("_")[2]
    if not name or name.upper() == "N/A":
        raise Unusable("no operator")
    return name


def _stated(kernel: str, row: RawRow, dims: tuple[Shape, ...]) -> TilingOptions:
    """The tiling that the note of a row states, of a kernel whose tiling is not the vendor's.

    Triton launches one program for each ``BLOCK`` elements, on as many cores as there are.
    """
    note = row.note
    if "scalar" in note and re.search(r"\bscalar\b(?!\s*=)", note):
        raise Unusable("computes in the scalar unit: no vector kernel")
    if "L2 bypass" in note:
        raise Unusable("goes past L2, which is not modelled")
    match = _TILE.search(note)
    tile = int(next(group for group in match.groups() if group)) if match else None
    buffers = None
    if match and kernel != "triton":
        buffers = 2 if "double buffer" in note and not _SINGLE.search(note) else 1
    blocks = whole(row.block_dim)
    total = max((math.prod(shape) for shape in dims), default=1)
    if tile is not None:
        tile = max(1, min(tile, total))
    return TilingOptions(tile_length=tile, buffer_num=buffers, block_dim=blocks)


def _itemsize(dtype: str) -> int:
    if dtype == "bool":
        return 1
    digits = re.search(r"\d+", dtype)
    return int(digits.group()) // 8 if digits else 0


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")

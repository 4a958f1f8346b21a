"""The kernels around the operator's own in an aclnn call: Contiguous and ViewCopy (copies), and Cast.

What the vendor's kernels for them do in detail is not modelled: they are the plain elementwise kernels with
equal blocks and tiles that fill the UB. Strided runs are charged by their bytes.
"""

from __future__ import annotations

import math

from kernel.elementwise import FAMILY, Input, Job, record
from kernel.layout import Layout
from kernel.plan import Sketch
from kernel.program import Launch, TensorArg
from kernel.schedules import PLAIN
from kernel.tiling import TilingOptions
from socs.isa import DType
from socs.spec import Soc


def copy(
    soc: Soc,
    dtype: DType,
    shape: tuple[int, ...],
    *,
    name: str,
    source: Layout | None = None,
    target: Layout | None = None,
) -> Launch:
    """A copy of ``shape`` elements of ``dtype``, from and to strided storage if a layout is given.

    ``name``: ``contiguous`` or ``view_copy``.
    """
    total = math.prod(shape)
    tensors = (
        TensorArg("x", dtype, total, layout=source),
        TensorArg("out", dtype, total, written=True, layout=target),
    )
    return _launch(soc, Job(FAMILY["copy"], (Input("x", dtype),), dtype, (total,)), name, shape, tensors)


def cast(soc: Soc, source: DType, target: DType, shape: tuple[int, ...]) -> Launch:
    """``shape`` elements of ``source`` rounded to ``target``: through float32 between 16-bit formats.

    Widening is exact; narrowing rounds to nearest even (facts: operator, 3.6).
    """
    total = math.prod(shape)
    tensors = (TensorArg("x", source, total), TensorArg("out", target, total, written=True))
    return _launch(soc, Job(FAMILY["cast"], (Input("x", source),), target, (total,)), "cast", shape, tensors)


def _launch(soc: Soc, job: Job, name: str, shape: tuple[int, ...], tensors: tuple[TensorArg, ...]) -> Launch:
    cut = PLAIN.cut(soc, job, TilingOptions())
    return Sketch(name, record, (job, PLAIN.style), tuple(cut.shapes()), tensors, {}, shape).launch(soc)

"""Phase 2: the bits of a routed call, from the views of its tensors into the view of ``out``."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from emulator.aclnn.codes import DTYPE_NAMES
from emulator.aclnn.route import Route
from socs.isa import DType, Op, RoundMode
from socs.spec import OverflowMode, Soc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from emulator.backend import Backend
    from kernel.mse_loss_backward import Plan

Array = NDArray[Any]

_CARRIERS = {DType.FLOAT32: np.float32, DType.FLOAT16: np.uint16, DType.BFLOAT16: np.uint16}


def execute(
    soc: Soc,
    route: Route,
    plan: Plan,
    inputs: Mapping[str, Array],
    out: Array,
    out_dtype: int,
    overflow: OverflowMode,
) -> None:
    """Compute ``inputs`` (views of any strides that broadcast to ``out``'s shape) into the view ``out``.

    Every element is computed from the values before the call, also where ``out`` shares memory with an
    input. Where elements of ``out`` share memory with each other, one of the results stays.
    """
    dtype, wanted = plan.dtype, DType(DTYPE_NAMES[out_dtype])
    flat = {name: _flat(view, out.shape) for name, view in inputs.items()}
    direct = wanted is dtype and out.flags.c_contiguous and out.flags.aligned
    if direct and not any(np.may_share_memory(out, array) for array in flat.values()):
        result = out.reshape(-1)
    else:
        direct = False
        result = np.empty(out.size, flat["self"].dtype)
    _run(plan, flat, result, overflow)
    if direct:
        return
    if wanted is not dtype:
        result = trailing_cast(result, dtype, wanted, soc, overflow).view(out.dtype)
    np.copyto(out, result.reshape(out.shape))


def planned(soc: Soc, route: Route, dtype: int, count: int) -> Plan:
    """The launch for ``count`` elements, with the factor of the route's kernel. Raises ``AtlasError``."""
    from kernel.mse_loss_backward import Reduction, plan

    made = plan(soc, shape=(count,), dtype=DType(DTYPE_NAMES[dtype]), reduction=Reduction.NONE)
    assert made.launch is not None
    scalars = {**made.launch.scalars, "coefficient": float(route.scalar)}
    return replace(made, launch=replace(made.launch, scalars=scalars))


def trailing_cast(array: Array, source: DType, wanted: DType, soc: Soc, overflow: OverflowMode) -> Array:
    """The trailing ``Cast`` kernel: ``array`` (1-D) rounded to ``wanted``, through float32, as carriers.

    Carriers are float32, or uint16 for the bits of float16 and bfloat16. Nearest even (facts: operator, 3.6).
    """
    steps = [(DType.FLOAT32, source), (wanted, DType.FLOAT32)]
    values = array.view(_CARRIERS[source])
    for to, came in steps:
        if to is not came:
            result = np.empty(values.size, _CARRIERS[to])
            _caster(to, came, overflow == "saturation", soc.numerics.nan, soc.numerics.subnormals)(
                values, result
            )
            values = result
    return values


@cache
def _caster(
    to: DType, came: DType, saturate: bool, nan: Any, subnormals: Any
) -> Callable[[Array, Array], None]:
    import numba

    from kernel.numerics.vector import function, lookup

    mode = RoundMode.NONE if to is DType.FLOAT32 else RoundMode.RINT
    name = lookup(Op.CAST, to, came, mode=mode, saturate=saturate, nan=nan, subnormals=subnormals)
    element = function(name)

    def loop(values: Array, result: Array) -> None:
        for place in range(values.size):
            result[place] = element(values[place])

    return cast("Callable[[Array, Array], None]", numba.njit(loop, nogil=True))


def _flat(view: Array, shape: tuple[int, ...]) -> Array:
    """All elements in order; a copy unless they lie so. The kernels take equal contiguous shapes so far."""
    flags = view.flags
    # Compiled loops are made anew for read-only, strided and unaligned arrays: those are copied.
    if view.shape == shape and flags.c_contiguous and flags.aligned and flags.writeable:
        return view.reshape(-1)
    return np.array(np.broadcast_to(view, shape), order="C").reshape(-1)


@cache
def _backend() -> Backend:
    from emulator.backend import find

    return find("emulated")[1]


def _run(plan: Plan, flat: Mapping[str, Array], result: Array, overflow: OverflowMode) -> None:
    from emulator.backend import Call

    shapes = {name: array.shape for name, array in flat.items()}
    _backend().run(Call(plan, shapes, dict(flat), result, "cold", overflow, timed=False, bits="compiled"))

"""Phase 2: the bits of a routed call, from the views of its tensors into the view of ``out``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from emulator.aclnn.route import Route
from socs.isa import DType
from socs.spec import OverflowMode, Soc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kernel.compile import Computation
    from kernel.plan import Plan

Array = NDArray[Any]

_CARRIERS = {DType.FLOAT32: np.float32, DType.FLOAT16: np.uint16, DType.BFLOAT16: np.uint16}


class Work:
    """What phase 2 does for calls that look alike: the plan, and the loops once they are compiled.

    Contiguous and ViewCopy move bits alone, so their strides are walked by the kernel's own loop.
    """

    def __init__(
        self, soc: Soc, route: Route, shapes: Mapping[str, tuple[int, ...]], dtype: DType, wanted: DType
    ) -> None:
        from kernel.mse_loss_backward import Reduction, plan

        self._soc = soc
        self._dtype = dtype
        self._wanted = wanted
        made = plan(
            soc,
            shape=shapes["self"],
            dtype=dtype,
            reduction=Reduction(route.reduction),
            grad_shape=shapes["grad_output"],
            target_shape=shapes["target"],
            kernel=route.kernel,
        )
        assert made.launch is not None
        self.plan: Plan = made
        self._loops: dict[OverflowMode, Computation] = {}
        self._casts: dict[OverflowMode, Computation] = {}

    def run(self, inputs: Mapping[str, Array], out: Array, overflow: OverflowMode) -> None:
        """Compute ``inputs`` (views of any strides that broadcast to ``out``'s shape) into the view ``out``.

        Every element is computed from the values before the call, also where ``out`` shares memory with
        an input. Where elements of ``out`` share memory with each other, one of the results stays.
        """
        shape = self.plan.shape
        apart = not any(np.may_share_memory(out, array) for array in inputs.values())
        if self._wanted is self._dtype and apart and _is_plain(out):
            self._loop(overflow).run({**inputs, "out": out}, shape)
            return
        result = np.empty(shape, _CARRIERS[self._dtype])
        self._loop(overflow).run({**inputs, "out": result}, shape)
        if self._wanted is not self._dtype:
            narrowed = np.empty(shape, _CARRIERS[self._wanted])
            self._cast(overflow).run({"x": result, "out": narrowed}, shape)
            result = narrowed
        np.copyto(out, result.view(out.dtype) if result.ndim else result.reshape(1).view(out.dtype)[0])

    def _loop(self, overflow: OverflowMode) -> Computation:
        found = self._loops.get(overflow)
        if found is None:
            from kernel.compile import Computation

            assert self.plan.launch is not None
            found = self._loops[overflow] = Computation(self.plan.launch, self._soc, overflow)
        return found

    def _cast(self, overflow: OverflowMode) -> Computation:
        found = self._casts.get(overflow)
        if found is None:
            from kernel.compile import Computation
            from kernel.surrounding import cast

            launch = cast(self._soc, self._dtype, self._wanted, self.plan.shape)
            found = self._casts[overflow] = Computation(launch, self._soc, overflow)
        return found


def _is_plain(out: Array) -> bool:
    """Whether ``out`` may be written in any order: no two of its elements share memory."""
    if out.flags.c_contiguous:
        return out.flags.aligned
    if not out.flags.aligned or any(stride % out.itemsize for stride in out.strides):
        return False
    reach = 0
    axes = [(abs(s) // out.itemsize, n) for s, n in zip(out.strides, out.shape, strict=True) if n > 1]
    for stride, count in sorted(axes):
        if stride <= reach:
            return False
        reach += stride * (count - 1)
    return True

"""The built-in backend: bits from the fused kernel or the interpreter, time from the device model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.backend import Call
from emulator.result import Result, accuracy_of, assumed_numbers, pipe_rows
from kernel.interpret import CARRIERS
from socs.errors import AtlasError


class Emulated:
    """See the module."""

    def run(self, call: Call) -> Result:
        """Compute, then time. Nothing is launched for an empty tensor: ``out`` stays as it is."""
        if call.out is not None and call.plan.launch is not None:
            _compute(call)
        return _answer(call)


def _compute(call: Call) -> None:
    plan = call.plan
    assert plan.launch is not None
    assert call.out is not None
    carrier = CARRIERS[plan.dtype]
    tensors = {name: _flat(array, carrier) for name, array in {**call.tensors, "out": call.out}.items()}
    if call.bits == "interpreted":
        from kernel.interpret import interpret

        interpret(plan.launch, plan.soc, tensors, overflow=call.overflow)
    elif call.bits == "compiled":
        from kernel.compile import execute

        execute(plan.launch, plan.soc, tensors, overflow=call.overflow)
    else:
        raise AtlasError(f"bits = {call.bits!r}: must be compiled or interpreted")


def _flat(array: NDArray[Any], carrier: type[np.generic]) -> NDArray[Any]:
    # asarray: a subclass such as np.matrix may keep its two dimensions.
    return np.asarray(array).reshape(-1).view(carrier)


def _answer(call: Call) -> Result:
    plan, soc = call.plan, call.plan.soc
    launch = plan.launch if call.timed else None
    timeline, limits, used = None, None, set[str]()
    if launch is not None:
        from emulator.device.bound import bounds
        from emulator.device.device import simulate

        try:
            timeline, device = simulate(launch, soc, l2=call.l2)
            limits, used = bounds(launch, device), device.costs.used
        except (OverflowError, ZeroDivisionError) as error:
            # Each number alone keeps its rule, but a rate per cycle of theirs comes to nothing or no end.
            raise AtlasError(
                f"{soc.name}: a clock of {soc.clock_hz:g} Hz with these rates and latencies gives no "
                f"finite number of cycles ({error})"
            ) from error
    cycles = timeline.cycles if timeline else 0
    return Result(
        operator=plan.operator,
        backend="emulated",
        soc=soc,
        kernel=plan.kernel,
        stand_in_for=plan.stand_in_for,
        dtype=str(plan.dtype),
        shapes={**call.shapes, "out": plan.shape},
        reduction=plan.reduction.name.lower(),
        l2=call.l2,
        overflow=call.overflow,
        block_dim=plan.launch.block_dim if plan.launch else 0,
        tiling=plan.tiling,
        cycles=cycles,
        time_us=cycles / soc.clock_hz * 1e6,
        bounds=limits,
        pipes=pipe_rows(timeline) if timeline else (),
        launch_cycles=timeline.launch_cycles if timeline else 0,
        bytes_read=plan.launch.bytes_read if plan.launch else 0,
        bytes_written=plan.launch.bytes_written if plan.launch else 0,
        assumed=assumed_numbers(soc, used),
        accuracy=accuracy_of(soc, plan.operator, plan.kernel),
        warnings=plan.warnings,
        timeline=timeline,
        output=call.out,
    )

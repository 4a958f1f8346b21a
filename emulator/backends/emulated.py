"""The built-in backend: bits from the fused kernel or the interpreter, time from the device model."""

from __future__ import annotations

import numpy as np

from emulator.accuracy import accuracy_of
from emulator.backend import Call
from emulator.result import Result, assumed_numbers, assumed_of_kernel
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
    arrays = {**call.tensors, "out": call.out}
    if call.bits == "interpreted":
        from kernel.interpret import interpret

        # The launch knows contiguous tensors alone, as the chip's kernel does.
        carriers = {tensor.name: CARRIERS[tensor.dtype] for tensor in plan.launch.tensors}
        flat = {n: np.ascontiguousarray(a).reshape(-1).view(carriers[n]) for n, a in arrays.items()}
        interpret(plan.launch, plan.soc, flat, overflow=call.overflow)
        if not np.shares_memory(flat["out"], call.out):
            call.out[...] = flat["out"].view(call.out.dtype).reshape(call.out.shape)
    elif call.bits == "compiled":
        from kernel.compile import computation

        computation(plan.launch, plan.soc, call.overflow).run(arrays, plan.shape)
    else:
        raise AtlasError(f"bits = {call.bits!r}: must be compiled or interpreted")


def _answer(call: Call) -> Result:
    plan, soc = call.plan, call.plan.soc
    sketch, timed = plan.sketch, None
    if call.timed and sketch is not None:
        from emulator.device.engines import time_plan

        timed = time_plan(plan, l2=call.l2, engine=call.engine, without=call.without)
    cycles = timed.counted.cycles if timed else 0
    return Result(
        operator=plan.operator,
        backend="emulated",
        soc=soc,
        kernel=plan.kernel,
        stand_in_for=plan.stand_in_for,
        dtype=str(plan.dtype),
        shapes={**call.shapes, "out": plan.shape},
        reduction=plan.reduction,
        l2=call.l2,
        overflow=call.overflow,
        block_dim=sketch.block_dim if sketch else 0,
        tiling=plan.tiling,
        cycles=cycles,
        time_us=cycles / soc.clock_hz * 1e6,
        bounds=timed.bounds if timed else None,
        pipes=timed.counted.rows() if timed else (),
        launch_cycles=timed.counted.launch_cycles if timed else 0,
        bytes_read=sketch.bytes_read if sketch else 0,
        bytes_written=sketch.bytes_written if sketch else 0,
        assumed=(
            *assumed_numbers(soc, timed.used if timed else frozenset()),
            *assumed_of_kernel(plan.kernel, plan.assumed),
        ),
        accuracy=accuracy_of(plan, call.l2, cycles / soc.clock_hz * 1e6, whole=not call.without),
        warnings=plan.warnings_with(()) if timed and timed.clean else plan.warnings,
        timeline=timed.timeline if timed and timed.engine == "simpy" else None,
        engine=timed.engine if timed else None,
        without=tuple(sorted(call.without)),
        output=call.out,
    )

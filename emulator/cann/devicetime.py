"""Device times of calls of several kernels, each the recorded one that the launch log names.

The log has a list ``kernels``: the step's name, the operator that is recorded for it (``None`` where none
is), the dtype of its result, and dtype, shape and maybe strides of its inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from emulator import api
from emulator.aclnn.timing import RouteTime, StepTime
from emulator.device.device import simulate
from kernel.layout import Layout, contiguous_strides
from kernel.operators import find
from kernel.surrounding import copy
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc

_COPIES = ("contiguous", "view_copy")


def predict(call: Mapping[str, Any], soc: Soc, l2: str) -> RouteTime | str:
    """The time of each kernel and their sum, or why it is not known.

    ``l2`` holds for the first kernel; later ones find in L2 what fits there.
    """
    steps, assumed = [], dict[str, None]()
    for place, kernel in enumerate(call["kernels"]):
        if kernel["operator"] is None:
            return f"{call['operator']}: no program of {kernel['step']} is recorded"
        state = l2 if place == 0 else "hot"
        try:
            step, used = (_strided if kernel["operator"] in _COPIES else _recorded)(kernel, soc, state)
        except AtlasError as error:
            return f"{call['operator']}: {error}"
        steps.append(step)
        assumed |= dict.fromkeys(used)
    cycles = sum(step.cycles for step in steps)
    return RouteTime(tuple(steps), cycles, cycles / soc.clock_hz * 1e6, tuple(assumed))


def tensors(kernel: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """Dtypes and shapes of a kernel's inputs, and of its result."""
    inputs = kernel["inputs"]
    shape = np.broadcast_shapes(*(tuple(given["shape"]) for given in inputs))
    return inputs, {"dtype": kernel["to"], "shape": list(shape)}


def _recorded(kernel: Mapping[str, Any], soc: Soc, l2: str) -> tuple[StepTime, tuple[str, ...]]:
    operator = find(kernel["operator"])
    given = dict(zip(operator.inputs, kernel["inputs"], strict=True))
    first = given[operator.first]
    found = api.predict(
        operator.name,
        soc=soc,
        shape=first["shape"],
        dtype=first["dtype"],
        input_shapes={name: tensor["shape"] for name, tensor in given.items()},
        input_dtypes={name: tensor["dtype"] for name, tensor in given.items()},
        to=kernel["to"] if operator.casts else None,
        l2=l2,
    )
    step = StepTime(kernel["step"], found.block_dim, found.cycles, found.time_us)
    return step, tuple(number.key for number in found.assumed)


def _strided(kernel: Mapping[str, Any], soc: Soc, l2: str) -> tuple[StepTime, tuple[str, ...]]:
    """As around the gradient's own kernel (:func:`emulator.aclnn.timing.predict`)."""
    (tensor,) = kernel["inputs"]
    shape = tuple(tensor["shape"])
    layout = Layout(shape, tuple(tensor.get("strides", contiguous_strides(shape))))
    name = kernel["operator"]
    layouts = {"source": layout} if name == "contiguous" else {"target": layout}
    try:
        dtype = DType(tensor["dtype"])
    except ValueError:
        raise AtlasError(f"a copy of {tensor['dtype']} is not modelled") from None
    launch = copy(soc, dtype, shape, name=name, **layouts)
    timeline, device = simulate(launch, soc, l2=l2)
    us = timeline.cycles / soc.clock_hz * 1e6
    step = StepTime(kernel["step"], launch.block_dim, timeline.cycles, us)
    return step, soc.assumed(device.costs.used)

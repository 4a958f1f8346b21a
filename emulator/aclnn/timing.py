"""How long the launches of a route take, one after another on a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from emulator.aclnn.codes import DTYPE_NAMES
from emulator.aclnn.route import Route
from emulator.device.device import simulate
from kernel.layout import Layout, contiguous_strides
from kernel.surrounding import cast, copy
from socs.isa import DType
from socs.spec import Soc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.aclnn.descriptor import Descriptor
    from kernel.plan import Plan
    from kernel.program import Launch


@dataclass(frozen=True, slots=True)
class StepTime:
    """One launch of a route."""

    name: str
    block_dim: int
    cycles: int
    time_us: float


@dataclass(frozen=True, slots=True)
class RouteTime:
    """All launches of a call; ``assumed``: keys of the numbers used that nobody has published."""

    steps: tuple[StepTime, ...]
    cycles: int
    time_us: float
    assumed: tuple[str, ...]


def predict(
    soc: Soc, route: Route, plan: Plan, tensors: Mapping[str, Descriptor], out: Descriptor, l2: str
) -> RouteTime:
    """Device time of each launch and their sum. ``l2`` holds for the first one; later ones find in L2
    what fits there, as after a run on the same buffers."""
    steps, used = [], set[str]()
    for place, (name, launch) in enumerate(_launches(soc, route, plan, tensors, out)):
        timeline, device = simulate(launch, soc, l2=l2 if place == 0 else "hot")
        used |= device.costs.used
        us = timeline.cycles / soc.clock_hz * 1e6
        steps.append(StepTime(name, launch.block_dim, timeline.cycles, us))
    cycles = sum(step.cycles for step in steps)
    return RouteTime(tuple(steps), cycles, cycles / soc.clock_hz * 1e6, soc.assumed(used))


def _launches(
    soc: Soc, route: Route, plan: Plan, tensors: Mapping[str, Descriptor], out: Descriptor
) -> list[tuple[str, Launch]]:
    assert plan.launch is not None
    found = []
    wanted = DType(DTYPE_NAMES[out.dtype])
    for step, name in zip(route.steps, route.names, strict=True):
        if step.name == "Contiguous":
            source = tensors[step.reads[0]]
            layout = Layout(source.view_dims, source.strides)
            launch = copy(soc, plan.dtype, source.view_dims, name="contiguous", source=layout)
        elif step.name == "Cast":
            launch = cast(soc, plan.dtype, wanted, plan.shape)
        elif step.name == "ViewCopy":
            strides = out.strides if not out.is_contiguous else contiguous_strides(out.view_dims)
            target = Layout(out.view_dims, strides)
            launch = copy(soc, wanted, out.view_dims, name="view_copy", target=target)
        else:
            launch = plan.launch
        found.append((name, launch))
    return found

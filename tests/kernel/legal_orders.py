"""Executing a block in other orders than the one in which it was issued."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from kernel.interpret import _Core
from kernel.program import Launch, Program
from socs.isa import Op, Pipe
from socs.spec import Soc

Chooser = Callable[[list[Pipe]], Pipe]


class Stuck(Exception):
    """No pipe can go on."""


def execute_in_order(
    launch: Launch, soc: Soc, tensors: dict[str, Any], choose: Chooser, *, saturate: bool = False
) -> None:
    """Like ``interpret``, but ``choose`` picks which pipe executes its next instruction.

    Each pipe keeps its own order; beyond that only flags hold an instruction back.
    """
    size = max(soc.ub.bytes, *(blocks.program.ub_bytes for blocks in launch.blocks))
    for blocks in launch.blocks:
        for start in blocks.starts:
            core = _Core(size, tensors, start, launch.scalars, soc.numerics, saturate)
            for instruction, trip in legal_order(blocks.program, choose):
                core.execute(instruction, trip)


def legal_order(program: Program, choose: Chooser) -> list[Any]:
    queues: dict[Pipe, list[Any]] = {}
    for instruction, trip in program.walk():
        queues.setdefault(instruction.pipe, []).append((instruction, trip))
    for queue in queues.values():
        queue.reverse()
    raised: Counter[Any] = Counter()
    order = []
    while any(queues.values()):
        ready = [
            pipe
            for pipe, queue in queues.items()
            if queue and (queue[-1][0].op is not Op.WAIT_FLAG or raised[queue[-1][0].flag])
        ]
        if not ready:
            raise Stuck
        instruction, trip = queues[choose(ready)].pop()
        if instruction.op is Op.SET_FLAG:
            raised[instruction.flag] += 1
        elif instruction.op is Op.WAIT_FLAG:
            raised[instruction.flag] -= 1
        order.append((instruction, trip))
    return order


def at_random(seed: int) -> Chooser:
    random = np.random.default_rng(seed)
    return lambda ready: ready[random.integers(len(ready))]


def favouring(*pipes: Pipe) -> Chooser:
    """The first pipe of ``pipes`` that can go on: as far ahead as the flags let it."""
    return lambda ready: min(ready, key=pipes.index)

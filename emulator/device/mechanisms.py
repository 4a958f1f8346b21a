"""The mechanisms of the timing model, each of which can be switched off to see what it is worth.

What is switched off becomes ideal: a latency of nothing, a rate without limit, data where they are wanted.
Nearly all of them are numbers of the chip, so both engines need to know nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from kernel.core import EVENT_IDS
from kernel.program import Blocks, Flag, Instruction, Launch, Loop, Program
from socs.errors import AtlasError
from socs.isa import Pipe
from socs.spec import DmaDirection, DmaPath, Model, Soc

M = TypeVar("M", bound=Model)

UNLIMITED_BYTES_PER_S = 1e17
"""A rate that nothing can use up, and whose grains per cycle still fit into 64 bits with a share."""

UNLIMITED_BYTES_PER_CYCLE = 1e6
UNLIMITED_DEPTH = 1 << 30


@dataclass(frozen=True, slots=True)
class Mechanism:
    """One mechanism; ``off`` gives the chip without it. Those that are no number of a chip have none."""

    name: str
    text: str
    off: Callable[[Soc], Soc] | None = None


def _with(model: M, **changes: object) -> M:
    return model.model_copy(update=changes)


def _no_heads(soc: Soc) -> Soc:
    costs = {
        op: {key: _with(cost, head_cycles=0) for key, cost in kinds.items()}
        for op, kinds in soc.vector.costs.items()
    }
    loop = soc.vector.register_loop
    loop = None if loop is None else _with(loop, start_cycles=0, drain_cycles=0)
    return _with(soc, vector=_with(soc.vector, costs=costs, register_loop=loop))


def _no_gap(soc: Soc) -> Soc:
    return _with(soc, vector=_with(soc.vector, issue_gap_cycles=1))


def _no_conflicts(soc: Soc) -> Soc:
    return _with(soc, ub=_with(soc.ub, banks=_with(soc.ub.banks, decode="unknown")))


def _paths(soc: Soc, **changes: object) -> Soc:
    def path(old: DmaPath) -> DmaPath:
        return _with(old, **changes)

    def direction(old: DmaDirection) -> DmaDirection:
        return _with(old, hbm=path(old.hbm), l2=path(old.l2))

    return _dma(soc, load=direction(soc.dma.load), store=direction(soc.dma.store))


def _dma(soc: Soc, **changes: object) -> Soc:
    return _with(soc, dma=_with(soc.dma, **changes))


def _no_latency(soc: Soc) -> Soc:
    return _paths(soc, latency_cycles=0, stream_latency_cycles=0)


def _no_core_rate(soc: Soc) -> Soc:
    free = UNLIMITED_BYTES_PER_CYCLE
    return _paths(soc, port_bytes_per_cycle=free, stream_bytes_per_cycle=free)


def _no_hbm_limit(soc: Soc) -> Soc:
    return _with(soc, memory=_with(soc.memory, hbm_bytes_per_s=UNLIMITED_BYTES_PER_S))


def _no_l2_limit(soc: Soc) -> Soc:
    l2 = _with(soc.memory.l2, bytes_per_s=UNLIMITED_BYTES_PER_S, store_bytes_per_s=None)
    return _with(soc, memory=_with(soc.memory, l2=l2))


def _no_store_limit(soc: Soc) -> Soc:
    return _with(soc, memory=_with(soc.memory, l2=_with(soc.memory.l2, store_bytes_per_s=None)))


def _no_mix(soc: Soc) -> Soc:
    return _with(soc, memory=_with(soc.memory, read_cost=None, write_cost=None))


def _no_residency(soc: Soc) -> Soc:
    return _with(soc, memory=_with(soc.memory, l2=_with(soc.memory.l2, bytes=1)))


def _no_write_back(soc: Soc) -> Soc:
    return _with(soc, memory=_with(soc.memory, write_cost=0.0))


def _no_scalar(soc: Soc) -> Soc:
    idle = {"issue_cycles": 0, "loop_cycles": 0, "set_flag_cycles": 0, "wait_flag_cycles": 0}
    return _with(soc, scalar=_with(soc.scalar, **idle))


def _launch(*names: str) -> Callable[[Soc], Soc]:
    return lambda soc: _with(soc, launch=_with(soc.launch, **dict.fromkeys(names, 0.0)))


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism("heads", "head of a vector instruction, paid when the pipe drains", _no_heads),
        Mechanism("issue_gap", "least distance of independent vector instructions", _no_gap),
        Mechanism("bank_conflicts", "collisions of operands in the UB's banks", _no_conflicts),
        Mechanism("dma_latency", "latency of a transfer", _no_latency),
        Mechanism("core_rate", "rate of one core's loads and stores", _no_core_rate),
        Mechanism(
            "queue_depth",
            "instructions that a pipe's queue holds",
            lambda soc: _dma(soc, queue_depth=UNLIMITED_DEPTH),
        ),
        Mechanism("overlap", "loads of a tile while another one is stored"),
        Mechanism(
            "misalignment",
            "runs that begin inside a line of the memory",
            lambda soc: _dma(soc, misaligned_lines=0.0),
        ),
        Mechanism("hbm", "HBM or DDR shared by all cores", _no_hbm_limit),
        Mechanism("l2_rate", "rate of the L2 cache, shared by all cores", _no_l2_limit),
        Mechanism("l2_stores", "a rate of its own for stores into L2", _no_store_limit),
        Mechanism("residency", "what is found in L2 and stays there", _no_residency),
        Mechanism("write_back", "lines that were written, on their way from L2 to HBM", _no_write_back),
        Mechanism("mixed_traffic", "what reading and writing cost of HBM's rate", _no_mix),
        Mechanism(
            "cold_code",
            "code that is not in the instruction cache",
            _launch("cold_code_s", "cold_code_block_s"),
        ),
        Mechanism("launch_task", "launch, once", _launch("task_s")),
        Mechanism("launch_block", "launch, for each block", _launch("block_s")),
        Mechanism("entry", "start of a block", _launch("entry_s")),
        Mechanism("scalar", "issue, flags and the loop on the scalar unit", _no_scalar),
        Mechanism("imbalance", "blocks of different length"),
    )
}


OF_THE_LAUNCH = frozenset({"overlap", "imbalance"})
"""Mechanisms that are no numbers of a chip."""


def parse(names: Iterable[str]) -> frozenset[str]:
    """The mechanisms called ``names``; ``AtlasError`` with those known for any other."""
    found = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(found - set(MECHANISMS)):
        raise AtlasError(f"unknown mechanism {name!r}: there are {', '.join(MECHANISMS)}")
    return found


def idealised(launch: Launch, soc: Soc, without: frozenset[str]) -> tuple[Launch, Soc]:
    """``launch`` and ``soc`` without these mechanisms."""
    if "overlap" in without:
        launch = serialised(launch)
    if "imbalance" in without:
        launch = levelled(launch)
    return launch, idealised_soc(soc, without)


def idealised_soc(soc: Soc, without: frozenset[str]) -> Soc:
    """``soc`` without these mechanisms, as far as they are numbers of a chip."""
    for name in sorted(without):
        off = MECHANISMS[name].off
        if off is not None:
            soc = off(soc)
    return soc


def serialised(launch: Launch) -> Launch:
    """``launch`` with loads and stores in one queue: nothing is loaded until what came before is stored."""
    return replace(
        launch,
        blocks=tuple(Blocks(_one_queue(b.program), b.starts, b.first_block) for b in launch.blocks),
    )


def _one_queue(program: Program) -> Program:
    def moved(instruction: Instruction) -> Instruction:
        flag = instruction.flag
        if flag is not None and Pipe.MTE3 in (flag.source, flag.target):
            # Beyond the ids of the pair, so that no flag of MTE2's own is met.
            flag = Flag(_joined(flag.source), _joined(flag.target), flag.event + EVENT_IDS)
        return replace(instruction, pipe=_joined(instruction.pipe), flag=flag)

    return _changed(program, moved)


def _changed(program: Program, change: Callable[[Instruction], Instruction]) -> Program:
    items = tuple(
        replace(item, body=tuple(map(change, item.body))) if isinstance(item, Loop) else change(item)
        for item in program.items
    )
    return replace(program, items=items)


def _joined(pipe: Pipe) -> Pipe:
    return Pipe.MTE2 if pipe is Pipe.MTE3 else pipe


def levelled(launch: Launch) -> Launch:
    """``launch`` with blocks that all do what is done on average.

    All run the program of the longest one, with counts in proportion: what its tiling would be for that
    length is the kernel's matter, and no part of the imbalance.
    """
    longest = max(launch.blocks, key=lambda group: group.program.length)
    total = sum(group.program.length * group.count for group in launch.blocks)
    count = launch.block_dim
    if total == longest.program.length * count:
        return launch

    def scaled(instruction: Instruction) -> Instruction:
        issued = -(-instruction.issued_count * total // (count * longest.program.length))
        return replace(instruction, issued_count=issued)

    starts = longest.starts
    step = starts.step if len(starts) > 1 else longest.program.length
    program = _changed(longest.program, scaled)
    return replace(launch, blocks=(Blocks(program, range(starts[0], starts[0] + count * step, step), 0),))

"""What the timing tests build: small programs by hand, launches of the real kernel, and their spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import assume, reject, settings
from hypothesis import strategies as st

import socs
from emulator.device.device import Device, simulate
from emulator.device.timeline import Reason, Span, Timeline
from kernel import registry
from kernel.core import Core, GlobalTensor, LocalTensor, Tile, Tiles
from kernel.mse_loss_backward import Reduction, plan, supported_dtypes
from kernel.program import Blocks, Launch, Program, TensorArg, Window
from kernel.tiling import Problem, TilingOptions
from socs.isa import DType, Pipe
from socs.spec import Soc

F32, F16 = DType.FLOAT32, DType.FLOAT16

GENERATIONS = (
    "Ascend910B4-1",
    "Ascend910_9391",
    "Ascend310P3",
    "Ascend910A",
    "Ascend310B4",
    "Ascend950PR_9599",
)
"""One chip of each file of the catalogue."""

SAME_EVERY_TIME = settings(deadline=None, derandomize=True, database=None)


def bare(name: str, **numbers: float) -> Soc:
    """A chip whose blocks start at cycle 0, whose transfers follow each other, whose L2 takes stores as fast
    as loads and holds nothing dirty; with other numbers by dotted key (``__`` for the dot)."""
    soc = socs.load(name)
    held = {key for key, _ in soc.numbers()}
    nothing = {f"launch.{key}": 0 for key in soc.launch.model_dump()}
    nothing |= {
        f"dma.{way}.{memory}.overlap_cycles": 0 for way in ("load", "store") for memory in ("hbm", "l2")
    }
    nothing |= {"memory.l2.dirty_share": 0, "memory.read_cost": 1, "memory.write_cost": 1}
    nothing |= {
        "memory.l2.store_bytes_per_s": numbers.get("memory__l2__bytes_per_s", soc.memory.l2.bytes_per_s)
    }
    given = {key.replace("__", "."): value for key, value in numbers.items()}
    return socs.load(name, {key: value for key, value in nothing.items() if key in held} | given)


def at(address: int, count: int, dtype: DType = F32) -> LocalTensor:
    return LocalTensor(address, dtype, count)


def gm(count: int, offset: int = 0, dtype: DType = F32, name: str = "x") -> Window:
    return GlobalTensor(name, dtype)[Tile(0, offset, count, False)]


def program(write: Callable[[Core], None], length: int = 1 << 20) -> Program:
    core = Core(length)
    write(core)
    return core.finish()


def launch_of(*programs: Program, counts: tuple[int, ...] | None = None, step: int = 1 << 20) -> Launch:
    """One group of blocks for each program, all starts on a line of the memory."""
    groups, first = [], 0
    for item, count in zip(programs, counts or (1,) * len(programs), strict=True):
        groups.append(Blocks(item, range(first * step, (first + count) * step, step), first))
        first += count
    tensors = (TensorArg("x", F32, 1 << 20), TensorArg("out", F32, 1 << 20, written=True))
    return Launch("handmade", tuple(groups), tensors)


def run(
    soc: Soc, write: Callable[[Core], None], *, l2: str = "cold", skip: bool = True
) -> tuple[Timeline, Device]:
    return simulate(launch_of(program(write)), soc, l2=l2, skip=skip)


def spans(timeline: Timeline, pipe: Pipe, label: str | None = None, core: int = 0) -> list[Span]:
    """Spans of one pipe in time order; with ``label`` those in which that instruction itself ran."""
    found = [s for s in timeline.spans if s.pipe is pipe and s.core == core]
    if label is not None:
        found = [s for s in found if s.label == label and s.reason is Reason.EXECUTE and not s.detail]
    return sorted(found, key=lambda s: s.start)


def cut(
    name: str,
    dtype: DType,
    shape: tuple[int, ...],
    *,
    tile_length: int | None = None,
    buffer_num: int | None = None,
    block_dim: int | None = None,
    **named: Any,
) -> Launch:
    """The launch of the operator's own kernel."""
    found = plan(
        socs.load(name),
        shape=shape,
        dtype=dtype,
        reduction=Reduction.MEAN,
        options=TilingOptions(tile_length, buffer_num, block_dim),
        **named,
    ).launch
    assert found is not None
    return found


def instructions(launch: Launch) -> int:
    return sum(blocks.program.instruction_count for blocks in launch.blocks)


def totals(timeline: Timeline) -> list[dict[Pipe, tuple[dict[Any, int], int]]]:
    """Of every core group: cycles by reason and instructions of every pipe."""
    return [
        {pipe: (dict(+sums.cycles), sums.instructions) for pipe, sums in core.pipes.items()}
        for core in timeline.cores
    ]


def everything(timeline: Timeline) -> tuple[Any, ...]:
    """All that a run says, spans as a multiset."""
    return timeline.cycles, totals(timeline), Counter(timeline.expanded(1 << 30))


@st.composite
def real_launches(draw: st.DrawFn, most: int = 3_000) -> tuple[Soc, Launch, str]:
    """(chip, launch of the real kernel, l2) with at most ``most`` instructions."""
    name = draw(st.sampled_from(socs.names()))
    soc = socs.load(name)
    dtype = draw(st.sampled_from(supported_dtypes(soc)))
    total = draw(st.integers(1, 64) | st.integers(1, 1 << 21))
    cores = min(soc.vector_cores, total)
    # Alike, a single grad_output element, or a row of grad_output for all rows.
    rows = draw(st.sampled_from([d for d in (1, 2, 3, 8, 64) if total % d == 0]))
    grad = draw(st.sampled_from([None, None, (), (total // rows,)]))
    try:
        launch = cut(
            name,
            dtype,
            (rows, total // rows) if grad else (total,),
            grad_shape=grad,
            release=draw(st.sampled_from(("newer", "older"))),
            tile_length=draw(st.none() | st.sampled_from((32, 96, 100, 1000, 2048, 4096))),
            buffer_num=draw(st.none() | st.integers(1, 4)),
            block_dim=draw(st.none() | st.integers(1, cores)),
        )
    except socs.AtlasError:
        reject()  # the buffers of the longest tile do not fit into the UB, or have no event ids
    assume(instructions(launch) <= most)
    return soc, launch, draw(st.sampled_from(("hot", "cold")))


@st.composite
def mixed_launches(draw: st.DrawFn, trips: int = 40) -> tuple[Soc, Launch, str]:
    """(chip, launch, l2) of two or three core groups that loop at different paces over shared memory."""
    soc = socs.load(draw(st.sampled_from(GENERATIONS)))
    record = registry.find("mse_loss_grad_v2").record
    groups, first, start, tensors = [], 0, 0, []
    dtype = draw(st.sampled_from(supported_dtypes(soc)))
    for _ in range(draw(st.integers(2, 3))):
        tile = draw(st.sampled_from((64, 480, 512, 1024, 1536)))
        count = draw(st.integers(1, 20))
        length = draw(st.integers(1, trips * tile))
        item = record(soc, Problem(dtype, (length,)), Tiles(length, tile), 1536, draw(st.integers(1, 2)))
        groups.append(Blocks(item, range(start, start + count * length, length), first))
        first, start = first + count, start + count * length
    tensors = [
        TensorArg(t, dtype, start, written=t == "out") for t in ("self", "target", "grad_output", "out")
    ]
    return soc, Launch("mixed", tuple(groups), tuple(tensors)), draw(st.sampled_from(("hot", "cold")))


def grid() -> Iterator[tuple[str, DType]]:
    for name in GENERATIONS:
        for dtype in supported_dtypes(socs.load(name)):
            yield name, dtype

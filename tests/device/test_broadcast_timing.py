"""What the kernels that broadcast cost: worked by hand where one number decides, else compared."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from handmade import F16, F32, at, bare, cut, everything, run, spans

import socs
from emulator.device.bound import bounds
from emulator.device.device import Device, simulate
from emulator.device.memory import GRAINS
from emulator.device.timeline import Reason
from kernel.core import Core
from kernel.program import Instruction, Launch, Loop, Window
from socs.isa import DType, Op, Pipe

BF16 = DType.BFLOAT16
KERNELS: list[Any] = [
    # (chip, dtype, what is asked for, the kernel that it takes)
    ("Ascend910A", F16, {}, "mse_loss_grad"),
    ("Ascend310B4", F32, {}, "mse_loss_grad"),
    ("Ascend910B4-1", BF16, {"grad_shape": ()}, "mse_loss_grad"),
    ("Ascend910_9391", F32, {"target_shape": (3,)}, "mse_loss_grad"),
    ("Ascend310P3", F16, {"grad_shape": (7, 1)}, "mse_loss_grad"),
    ("Ascend950PR_9599", F32, {}, "mse_loss_grad_v2_950"),
    ("Ascend950PR_9599", BF16, {"grad_shape": (), "target_shape": (3,)}, "mse_loss_grad_v2_950"),
    ("Ascend950PR_9599", F32, {"release": "older"}, "mse_loss_grad_950"),
    ("Ascend950PR_9599", F16, {"release": "older", "grad_shape": ()}, "mse_loss_grad_950"),
]


def launch_for(name: str, dtype: DType, named: dict[str, Any], columns: int = 3, **options: int) -> Launch:
    """Seven rows of ``columns`` elements; 3 in the shapes asked for stands for ``columns``."""
    shapes = {
        key: tuple(columns if d == 3 else d for d in value) if isinstance(value, tuple) else value
        for key, value in named.items()
    }
    return cut(name, dtype, (7, columns), **options, **shapes)


def work(launch: Launch, op: Op) -> list[Instruction]:
    """The instructions with ``op`` of all blocks, each body once."""
    items = [item for blocks in launch.blocks for item in blocks.program.items]
    flat = [i for item in items for i in (item.body if isinstance(item, Loop) else (item,))]
    return [i for i in flat if i.op is op]


@pytest.mark.parametrize(("name", "dtype", "named", "kernel"), KERNELS)
@pytest.mark.parametrize("l2", ["hot", "cold"])
@pytest.mark.parametrize("columns", [3, 9_001, 300_000])
def test_each_kernel_keeps_its_bounds_its_accounts_and_its_cycles(
    name: str, dtype: DType, named: Any, kernel: str, l2: str, columns: int
) -> None:
    launch, soc = launch_for(name, dtype, named, columns), socs.load(name)
    assert launch.kernel == kernel
    timeline, device = simulate(launch, soc, l2=l2)
    found = bounds(launch, device)
    assert found.lower <= timeline.cycles <= found.serial
    assert all(sums.total == timeline.cycles for core in timeline.cores for sums in core.pipes.values())
    for core, blocks in zip(timeline.cores, launch.blocks, strict=True):
        assert sum(s.instructions for s in core.pipes.values()) == blocks.program.instruction_count
    assert everything(simulate(launch, soc, l2=l2)[0]) == everything(timeline)
    slow, _ = simulate(launch, soc, l2=l2, skip=False)
    assert slow.cycles == timeline.cycles
    assert everything(slow) == everything(timeline)


def test_a_register_loop_costs_its_start_one_body_and_its_drain() -> None:
    # 5000 float32 are ceil(5000 / 64) = 79 repeats. Three loads at 2 a cycle: 1.5 cycles a repeat; one
    # store 1, three computations at 2 a cycle 1.5. 23 + ceil(118.5) + 12 = 154.
    def write(core: Core) -> None:
        a, b, c = (at(20_480 * number, 5_000) for number in range(3))
        with core.register_loop():
            core.sub(a, a, b)
            core.muls(a, a, "k")
            core.mul(a, a, c)

    timeline, _ = run(bare("Ascend950PR_9599"), write)
    ran = [s for s in timeline.spans if s.pipe is Pipe.V and s.reason is Reason.EXECUTE]
    assert sum(s.end - s.start for s in ran) == 23 + math.ceil(79 * 1.5) + 12 == 154


@pytest.mark.parametrize("key", ["start_cycles", "drain_cycles"])
def test_one_cycle_more_of_a_register_loop_is_one_cycle_more_of_a_tile(key: str) -> None:
    launch = cut("Ascend950PR_9599", F32, (2_000,))
    base = socs.load("Ascend950PR_9599")
    assert base.vector.register_loop is not None
    value = getattr(base.vector.register_loop, key)
    more = socs.load("Ascend950PR_9599", {f"vector.register_loop.{key}": value + 100})
    assert simulate(launch, more, l2="hot")[0].cycles - simulate(launch, base, l2="hot")[0].cycles == 100


def test_a_fused_loop_is_cheaper_than_its_instructions_one_by_one() -> None:
    def write(fused: bool) -> int:
        def kernel(core: Core) -> None:
            a, b, c = (at(20_480 * number, 5_000) for number in range(3))

            def three() -> None:
                core.sub(a, a, b)
                core.muls(a, a, "k")
                core.mul(a, a, c)

            if fused:
                with core.register_loop():
                    three()
            else:
                three()

        return run(bare("Ascend950PR_9599"), kernel)[0].cycles

    assert write(fused=True) < write(fused=False)


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("Ascend910A", "newer"),
        ("Ascend910B4-1", "newer"),
        ("Ascend310P3", "newer"),
        ("Ascend950PR_9599", "newer"),
        ("Ascend950PR_9599", "older"),
    ],
)
def test_a_single_grad_output_moves_one_element_a_tile(name: str, release: str) -> None:
    soc = socs.load(name)
    launch = cut(name, F16, (100_000,), grad_shape=(1,), release=release)
    costs = Device(launch, soc, l2="hot").costs
    moved: dict[str, set[bool]] = {"self": set(), "target": set(), "grad_output": set()}
    for blocks in launch.blocks:
        for load in work(replace(launch, blocks=(blocks,)), Op.COPY_IN):
            (window,) = load.srcs
            assert isinstance(window, Window)
            grains = costs.transfer(load, blocks).demand.grains
            # Two bytes and no part of a line beside them; the others move all they ask for.
            moved[window.tensor].add(grains == 2 * GRAINS)
            assert grains == 2 * GRAINS or grains >= 2 * load.issued_count * GRAINS
    assert moved == {"self": {False}, "target": {False}, "grad_output": {True}}
    assert launch.bytes_read == 2 * 100_000 * 2 + 2


@pytest.mark.parametrize(
    ("name", "dtype", "named", "broadcasts"),
    [
        ("Ascend910A", F16, {}, 0),
        ("Ascend910A", F16, {"grad_shape": ()}, 1),
        ("Ascend910B4-1", BF16, {"target_shape": (3,), "grad_shape": ()}, 2),
        ("Ascend950PR_9599", F32, {"grad_shape": ()}, 0),  # its copies expand on the way
        ("Ascend950PR_9599", F32, {"release": "older", "target_shape": (3,)}, 0),
        ("Ascend950PR_9599", F32, {"release": "older", "grad_shape": ()}, 1),
        # Only grad_output has a form of its own for a single element; others are expanded by the copy.
        ("Ascend950PR_9599", F32, {"release": "older", "target_shape": ()}, 0),
    ],
)
def test_each_repeated_input_costs_one_broadcast_a_tile(
    name: str, dtype: DType, named: Any, broadcasts: int
) -> None:
    launch = launch_for(name, dtype, named, 3, block_dim=1)
    tiles = len(work(launch, Op.COPY_OUT))
    assert len(work(launch, Op.BROADCAST)) == broadcasts * tiles
    timeline, _ = simulate(launch, socs.load(name), l2="hot")
    assert len(spans(timeline, Pipe.V, "broadcast")) == broadcasts * tiles


def test_a_broadcast_costs_its_head_and_a_cycle_a_repeat() -> None:
    # 1000 float32: 16 repeats of 64, on top of a head of 16. Written and read at once: arch 2201's bank
    # rules let equal bases pass.
    def write(core: Core) -> None:
        core.broadcast(at(0, 1_000), at(0, 1_000))

    timeline, device = run(bare("Ascend910B4-1"), write)
    ran = [s for s in timeline.spans if s.pipe is Pipe.V and s.reason is Reason.EXECUTE]
    assert sum(s.end - s.start for s in ran) == 16 + 16
    assert "vector.costs.broadcast.float32" in device.costs.used


@pytest.mark.parametrize("dtype", [F32, F16])
def test_nothing_of_two_tiles_overlaps_in_the_register_based_kernel(dtype: DType) -> None:
    launch = cut("Ascend950PR_9599", dtype, (2_000,), tile_length=500, block_dim=1)
    timeline, _ = simulate(launch, socs.load("Ascend950PR_9599"), l2="hot")
    stores = spans(timeline, Pipe.MTE3, "copy_out")
    loads = spans(timeline, Pipe.MTE2, "copy_in")
    assert (len(stores), len(loads)) == (4, 12)
    for tile in range(3):
        assert loads[3 * tile + 3].start >= stores[tile].end


def test_two_buffers_let_the_older_kernel_load_while_it_computes() -> None:
    launch = cut("Ascend950PR_9599", F32, (20_000,), tile_length=2_000, block_dim=1, release="older")
    timeline, _ = simulate(launch, socs.load("Ascend950PR_9599"), l2="hot")
    # One buffer would have to wait until the last instruction of the first tile has read it.
    assert spans(timeline, Pipe.MTE2, "copy_in")[3].start < spans(timeline, Pipe.V, "mul")[0].start

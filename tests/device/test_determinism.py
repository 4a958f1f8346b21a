"""The same request gives the same spans: on every run, in every process, in any order of events."""

from __future__ import annotations

import hashlib
import heapq
import os
import random
import subprocess
import sys
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
import simpy
from handmade import F16, F32, SAME_EVERY_TIME, cut, everything, mixed_launches, real_launches, totals
from hypothesis import given, settings
from hypothesis import strategies as st

import socs
from emulator.device import device as device_module
from emulator.device.bound import bounds
from emulator.device.device import Device, simulate
from emulator.device.timeline import Timeline
from kernel.program import Blocks, Launch
from socs.isa import DType
from socs.spec import Soc

REQUESTS = (
    ("Ascend910B4-1", F16, 1_000_003, "hot"),
    ("Ascend310P3", F32, 300_007, "cold"),
    ("Ascend950PR_9599", F16, 1 << 22, "cold"),
)


def fingerprint() -> str:
    """A hash of every span, in the order of recording, and of the numbers used and assumed."""
    digest = hashlib.sha256()
    for name, dtype, total, l2 in REQUESTS:
        soc = socs.load(name)
        launch = cut(name, DType(dtype), (total,))
        timeline, device = simulate(launch, soc, l2=l2)
        digest.update(repr((timeline.spans, timeline.repeats, totals(timeline), timeline.cycles)).encode())
        digest.update(repr((soc.assumed(device.costs.used), bounds(launch, device))).encode())
    return digest.hexdigest()


def test_the_same_request_gives_the_same_spans_in_the_same_order() -> None:
    assert fingerprint() == fingerprint()


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_another_process_with_other_hashes_gives_the_same_spans(seed: str) -> None:
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{here}{os.pathsep}{here.parents[1]}"}
    script = "import test_determinism; print(test_determinism.fingerprint())"
    found = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert found.stdout.strip() == fingerprint()


def by_first_block(timeline: Timeline) -> list[Any]:
    """Ends and totals of the groups, whatever their order in the launch."""
    found = zip(timeline.cores, totals(timeline), strict=True)
    return sorted(((core.first_block, core.end, sums) for core, sums in found), key=lambda x: x[0])


@settings(SAME_EVERY_TIME, max_examples=40)
@given(case=mixed_launches(), order=st.randoms(use_true_random=False))
def test_the_order_in_which_groups_are_listed_changes_nothing(
    case: tuple[Soc, Launch, str], order: random.Random
) -> None:
    soc, launch, l2 = case
    groups = list(launch.blocks)
    order.shuffle(groups)
    ours = simulate(launch, soc, l2=l2)[0]
    for blocks in (tuple(groups), launch.blocks[::-1]):
        turned = Launch(launch.kernel, blocks, launch.tensors, launch.scalars)
        theirs = simulate(turned, soc, l2=l2)[0]
        assert ours.cycles == theirs.cycles
        assert by_first_block(ours) == by_first_block(theirs)


@settings(SAME_EVERY_TIME, max_examples=10)
@given(case=mixed_launches(trips=12))
def test_the_order_in_which_pipes_are_started_changes_nothing(case: tuple[Soc, Launch, str]) -> None:
    soc, launch, l2 = case
    expected = everything(simulate(launch, soc, l2=l2)[0])
    for order in list(permutations(range(4)))[::5]:
        turned = Device(launch, soc, l2=l2)
        for core in turned.cores:
            units = list(core.units.items())
            core.units = dict(units[i] for i in order)
        assert everything(turned.run()) == expected


class Shuffled(simpy.Environment):
    """Events of one cycle and priority in random order instead of that of their scheduling."""

    chance = random.Random(0)

    def schedule(self, event: Any, priority: Any = 1, delay: Any = 0) -> None:
        heapq.heappush(self._queue, (self._now + delay, priority, self.chance.random(), event))  # type: ignore[misc]


CASES = mixed_launches(trips=12) | real_launches(most=1_500)


@settings(SAME_EVERY_TIME, max_examples=60)
@given(case=CASES, seed=st.integers(0, 1 << 30))
def test_the_order_of_events_within_a_cycle_changes_nothing(case: tuple[Soc, Launch, str], seed: int) -> None:
    soc, launch, l2 = case
    expected = everything(simulate(launch, soc, l2=l2)[0])
    Shuffled.chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_module.simpy, "Environment", Shuffled)
        for skip in (True, False):
            assert everything(simulate(launch, soc, l2=l2, skip=skip)[0]) == expected


# ---- groups -------------------------------------------------------------------------------------


def apart(launch: Launch, most: int) -> Launch:
    """The same blocks, each group split into at most ``most`` groups."""
    groups = []
    for blocks in launch.blocks:
        parts = min(most, blocks.count)
        edges = [blocks.count * i // parts for i in range(parts + 1)]
        for low, high in pairwise(edges):
            groups.append(Blocks(blocks.program, blocks.starts[low:high], blocks.first_block + low))
    return Launch(launch.kernel, tuple(groups), launch.tensors, launch.scalars)


@pytest.mark.parametrize("parts", [3, 40])
@pytest.mark.parametrize("dtype", [F16, F32])
@pytest.mark.parametrize("l2", ["hot", "cold"])
def test_equal_blocks_are_the_same_as_one_group_or_as_many(parts: int, dtype: DType, l2: str) -> None:
    """With starts on a line of the memory: what a block's own phase costs is not split up here."""
    soc = socs.load("Ascend910B4-1")
    launch = cut("Ascend910B4-1", dtype, (40 * 256 * 12,), tile_length=512, buffer_num=2, block_dim=40)
    split = apart(launch, parts)
    assert split.block_dim == launch.block_dim == 40
    assert len(split.blocks) == parts
    for skip in (True, False):
        one, many = (simulate(item, soc, l2=l2, skip=skip)[0] for item in (launch, split))
        assert one.cycles == many.cycles
        assert {str(sums) for sums in totals(many)} == {str(totals(one)[0])}


@settings(SAME_EVERY_TIME, max_examples=30)
@given(case=mixed_launches(trips=12), parts=st.integers(2, 5))
def test_splitting_groups_changes_no_cycle_beside_other_groups_either(
    case: tuple[Soc, Launch, str], parts: int
) -> None:
    soc, launch, l2 = case
    # No block starts off a line, so that all phases are equal.
    lined = tuple(
        Blocks(b.program, range(b.first_block * 4096, (b.first_block + b.count) * 4096, 4096), b.first_block)
        for b in launch.blocks
    )
    launch = Launch(launch.kernel, lined, launch.tensors, launch.scalars)
    one, many = (simulate(item, soc, l2=l2)[0] for item in (launch, apart(launch, parts)))
    assert one.cycles == many.cycles
    ends = {core.first_block: core.end for core in many.cores}
    assert all(ends[core.first_block] == core.end for core in one.cores)


def test_a_group_off_the_lines_is_charged_the_worst_phase_of_its_blocks() -> None:
    """A known simplification: one group of blocks is charged alike, where single ones differ by phase."""
    soc = socs.load("Ascend910B4-1")
    launch = cut("Ascend910B4-1", F32, (40 * 24_640 + 40,), tile_length=4096, buffer_num=2)
    assert launch.blocks[0].starts.step * 4 % 512
    one, many = (simulate(item, soc, l2="cold")[0] for item in (launch, apart(launch, 40)))
    assert many.cycles <= one.cycles
    assert len({core.end for core in many.cores}) > 1

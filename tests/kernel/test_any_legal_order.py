"""Whatever the pipes' relative speed, the flags alone make the result: what "no race" means."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from legal_orders import Chooser, at_random, execute_in_order, favouring
from mse_oracle import as_bits, chip_dtypes, depth_for, expected, launched, random_tensors

import socs
from kernel.interpret import interpret
from kernel.mse_loss_backward import Reduction, coefficient
from kernel.program import Instruction, Launch, Loop
from kernel.verify import verify
from socs.isa import DType, Op, Pipe

SATURATING = ("Ascend310P3", "Ascend910A", "Ascend310B1")
EXTREMES = [favouring(*order) for order in permutations(Pipe)]


def in_order(launch: Launch, name: str, tensors: dict[str, Any], choose: Chooser) -> Any:
    mine = {**tensors, "out": tensors["out"].copy()}
    execute_in_order(launch, socs.load(name), mine, choose, saturate=name in SATURATING)
    return as_bits(mine["out"])


def oracle(name: str, dtype: DType, tensors: dict[str, Any]) -> Any:
    factor = coefficient((tensors["out"].size,), Reduction.MEAN)
    return expected(tensors, dtype, factor, saturate=name in SATURATING)


@pytest.mark.parametrize(("name", "dtype"), chip_dtypes())
@pytest.mark.parametrize("depth", [1, 3])
def test_every_pipe_may_run_as_far_ahead_as_the_flags_let_it(name: str, dtype: DType, depth: int) -> None:
    n = 33 * 5 + 7
    tensors = random_tensors(dtype, n, 1)
    launch = launched(name, dtype, n, tile_length=33, buffer_num=depth_for(name, depth), block_dim=1)
    good = oracle(name, dtype, tensors)
    for choose in EXTREMES:
        np.testing.assert_array_equal(in_order(launch, name, tensors, choose), good)


@settings(max_examples=60, deadline=None)
@given(
    chip_dtype=st.sampled_from(chip_dtypes()),
    n=st.integers(1, 900),
    tile=st.integers(16, 200),
    depth=st.integers(1, 4),
    seed=st.integers(0, 2**31),
)
def test_random_orders_give_the_bits_of_the_issue_order(
    chip_dtype: Any, n: int, tile: int, depth: int, seed: int
) -> None:
    name, dtype = chip_dtype
    tensors = random_tensors(dtype, n, seed)
    launch = launched(name, dtype, n, tile_length=tile, buffer_num=depth_for(name, depth))
    result = in_order(launch, name, tensors, at_random(seed))
    np.testing.assert_array_equal(result, oracle(name, dtype, tensors))


def without(launch: Launch, flag: str, which: int) -> Launch:
    """``launch`` (one block, no loop) without its ``which``-th wait for ``flag``."""
    (blocks,) = launch.blocks
    items = blocks.program.items
    assert not any(isinstance(item, Loop) for item in items)
    waits = [
        place
        for place, item in enumerate(items)
        if isinstance(item, Instruction) and item.op is Op.WAIT_FLAG and str(item.flag).startswith(flag)
    ]
    place = waits[which]
    program = replace(blocks.program, items=(*items[:place], *items[place + 1 :]))
    return replace(launch, blocks=(replace(blocks, program=program),))


@pytest.mark.parametrize("flag", ["MTE2->V", "V->MTE2", "V->MTE3", "MTE3->V"])
@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("which", [0, 1])
def test_where_verify_finds_a_race_some_order_gives_other_bits(flag: str, depth: int, which: int) -> None:
    name, n = "Ascend910B4-1", 64 * 4
    tensors = random_tensors(DType.FLOAT32, n, 2)
    launch = launched(name, DType.FLOAT32, n, tile_length=64, buffer_num=depth, block_dim=1)
    good = oracle(name, DType.FLOAT32, tensors)
    broken = without(launch, flag, which)
    assert "race" in {finding.rule for finding in verify(broken, socs.load(name))}
    results = [in_order(broken, name, tensors, choose) for choose in EXTREMES]
    assert any((result != good).any() for result in results)
    # In the order of issue everything is in time: the interpreter alone shows nothing.
    interpret(broken, socs.load(name), tensors)
    np.testing.assert_array_equal(as_bits(tensors["out"]), good)


def test_gap_an_early_scalar_store_of_310ps_tail_shows_in_no_order() -> None:
    # verify calls it a race, rightly; but the whole tail tile is stored as well, after it is computed,
    # and which of the two stores comes last in global memory is not modelled.
    name, n = "Ascend310P3", 64 * 2 + 5
    tensors = random_tensors(DType.FLOAT16, n, 2)
    launch = launched(name, DType.FLOAT16, n, tile_length=64, buffer_num=1, block_dim=1)
    broken = without(launch, "V->S", 0)
    assert "race" in {finding.rule for finding in verify(broken, socs.load(name))}
    for choose in EXTREMES:
        result = in_order(broken, name, tensors, choose)
        np.testing.assert_array_equal(result, oracle(name, DType.FLOAT16, tensors))

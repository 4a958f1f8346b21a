"""The coefficient against exact fractions, each rounded once to float32 by integer arithmetic."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import socs
from kernel.mse_loss_backward import Reduction, coefficient, plan
from socs.isa import DType


def nearest_float32(value: Fraction) -> Fraction:
    """``value`` (positive, normal) to 24 significant bits, ties to even."""
    exponent = 0
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while value < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    whole, rest = divmod(value, unit)
    up = rest * 2 > unit or (rest * 2 == unit and whole % 2 == 1)
    return (whole + up) * unit


def bits(value: Fraction | np.float32) -> int:
    return int.from_bytes(struct.pack(">f", float(value)), "big")


def stepwise(shape: tuple[int, ...]) -> Fraction:
    product = Fraction(1)
    for dim in shape:
        product = nearest_float32(product * nearest_float32(Fraction(dim)))
    return nearest_float32(nearest_float32(1 / product) * 2)


SHAPES = st.lists(st.one_of(st.integers(1, 64), st.integers(1, 2**31)), max_size=4).map(tuple)


@settings(max_examples=200, deadline=None)
@given(SHAPES)
@example(())
@example((16777217,))
@example((2**31 - 1, 2**31 - 1, 3))
def test_the_coefficient_rounds_each_step_once(shape: tuple[int, ...]) -> None:
    assert bits(coefficient(shape, Reduction.MEAN)) == bits(stepwise(shape))


def test_the_coefficient_is_the_nearest_to_2_over_n_while_n_is_exact() -> None:
    random = np.random.default_rng(0)
    edges = [
        *range(1, 600),
        *range(2**24 - 300, 2**24 + 1),
        *(2**k + d for k in range(2, 24) for d in (-1, 1)),
    ]
    for n in (*edges, *random.integers(1, 2**24, 800).tolist()):
        assert bits(coefficient((n,), Reduction.MEAN)) == bits(nearest_float32(Fraction(2, n))), n


def test_above_2_to_the_24_the_coefficient_may_miss_the_nearest() -> None:
    ours = coefficient((16777217,), Reduction.MEAN)
    assert bits(ours) == 0x34000000
    assert bits(nearest_float32(Fraction(2, 16777217))) == 0x33FFFFFF


def test_the_order_of_dimensions_can_change_the_coefficient() -> None:
    random = np.random.default_rng(7)
    differing = [
        (a, b, c)
        for a, b, c in random.integers(3, 5000, (4000, 3)).tolist()
        if coefficient((a, b, c), Reduction.MEAN) != coefficient((c, b, a), Reduction.MEAN)
    ]
    assert differing
    for shape in differing[:20]:
        assert bits(stepwise(shape)) != bits(stepwise(shape[::-1]))


@pytest.mark.parametrize("shape", [(), (1,), (7, 9), (16777217,)])
def test_none_and_sum_have_the_coefficient_2(shape: tuple[int, ...]) -> None:
    for reduction in (Reduction.NONE, Reduction.SUM):
        assert bits(coefficient(shape, reduction)) == 0x40000000


def test_a_launch_carries_the_coefficient_of_selfs_own_shape() -> None:
    shape = (4099, 4099, 3)
    launch = plan(socs.load("Ascend910B4"), shape=shape, dtype=DType.FLOAT16, reduction=Reduction.MEAN).launch
    assert launch is not None
    assert bits(np.float32(launch.scalars["coefficient"])) == bits(stepwise(shape))
    assert launch.scalars["coefficient"] == float(np.float32(launch.scalars["coefficient"]))

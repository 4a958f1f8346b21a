"""The factor that ``reduction="mean"`` puts before the gradient, by the rule of each kernel.

All rules take the size of ``self`` before broadcasting and mean 2/N; they round differently. With
``none`` and ``sum`` every kernel multiplies by 2.

Facts: operator, 3.2 (V2), 3.3 (950, older ops-nn), 3.5 (TBE), 5.5 (950, newer ops-nn).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

PLAIN = np.float32(2.0)
"""The factor of ``none`` and ``sum``."""


def v2(shape: Sequence[int]) -> np.float32:
    """``MseLossGradV2``: ``(1 / r) * 2``, r the product of the dimensions, each step in float32.

    ``shape``: the dimensions of ``self``, each at least 1; ``()`` gives 2
    (``mse_loss_grad_v2_tiling.cpp``).
    """
    product = np.float32(1.0)
    for dim in shape:
        product = np.float32(product * np.float32(dim))
    return np.float32(np.float32(np.float32(1.0) / product) * np.float32(2.0))


def tbe(count: int) -> np.float32:
    """``MseLossGrad`` in TBE: 2/N rounded once to float32 (``count`` 0 gives 2).

    Which formula today's tiling has is not public: this is the default reading, and
    :func:`tbe_iterated` the other.
    """
    if count == 0:
        return PLAIN
    # Division by hand, in numbers that an int64 holds too, because the C libraries compile this function. A
    # quotient of 31 bits with a sticky last bit: exact as float64, so rounded only once.
    power = 1
    while power <= count >> 1:
        power <<= 1
    quotient, rest = 0, power
    for _ in range(31):
        quotient <<= 1
        if rest >= count:
            quotient += 1
            rest -= count
        rest <<= 1
    if rest != 0:
        quotient |= 1
    return np.float32(float(quotient) * 2.0**-29 / float(power))


def tbe_iterated(shape: Sequence[int]) -> np.float32:
    """``MseLossGrad`` in TBE, the alternative: 1 divided by each dimension in turn, then doubled.

    Every step in float32 (canndev ``op_tiling/mse_loss_grad.cc``, 2021, with its factor 2).
    """
    factor = np.float32(1.0)
    for dim in shape:
        factor = np.float32(factor / np.float32(dim))
    return np.float32(np.float32(2.0) * factor)


def atvoss(count: int) -> np.float32:
    """``MseLossGrad`` on the 950, older ops-nn: ``(float)(2.0 / (double)N)``.

    ``count``: N, at least 1 (``mse_loss_grad_tiling_arch35.cpp``).
    """
    return np.float32(2.0 / float(count))


def register_based(count: int) -> np.float32:
    """``MseLossGradV2`` on the 950, newer ops-nn: ``2.0f / (float)N``. ``count``: N, at least 1."""
    return np.float32(np.float32(2.0) / np.float32(count))

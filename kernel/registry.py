"""The kernels by name. A new kernel is one file and one entry here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from kernel import coefficient, mse_loss_grad, mse_loss_grad_950, mse_loss_grad_triton, mse_loss_grad_v2
from kernel.core import Tiles
from kernel.program import Program
from kernel.tiling import Problem, Tiling, TilingOptions, with_options
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its host tiling and its recorded program, both functions of the chip and the problem.

    ``mean``: the coefficient of ``reduction="mean"`` from self's dimensions. ``broadcasts``: whether it
    takes shapes that differ. ``assumed``: what of it no public source settles. ``queues``: whether it has
    any, so that the number of their buffers means something. ``cut``: the host tiling of a kernel that takes
    the user's numbers into account itself.
    """

    name: str
    title: str
    tiling: Callable[[Soc, Problem], Tiling]
    record: Callable[[Soc, Problem, Tiles, int, int], Program]
    mean: Callable[[Sequence[int]], np.float32]
    broadcasts: bool
    assumed: tuple[str, ...] = ()
    queues: bool = True
    cut: Callable[[Soc, Problem, TilingOptions], Tiling] | None = None

    def tiled(self, soc: Soc, problem: Problem, options: TilingOptions) -> Tiling:
        """The kernel's cut with the user's numbers in place of its own."""
        if self.cut is not None:
            return self.cut(soc, problem, options)
        return with_options(self.tiling(soc, problem), options, problem.dtype.itemsize)


def _v2_tiling(soc: Soc, problem: Problem) -> Tiling:
    return mse_loss_grad_v2.tiling(soc, problem.dtype, problem.total)


def _v2_record(soc: Soc, problem: Problem, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    return mse_loss_grad_v2.record(soc, problem.dtype, tiles, buffer_length, buffer_num)


KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            "mse_loss_grad_v2",
            "MseLossGradV2 (AscendC)",
            _v2_tiling,
            _v2_record,
            coefficient.v2,
            broadcasts=False,
        ),
        Kernel(
            "mse_loss_grad",
            "MseLossGrad (TBE)",
            mse_loss_grad.tiling,
            mse_loss_grad.record,
            lambda shape: coefficient.tbe(math.prod(shape)),
            broadcasts=True,
            assumed=("tiling", "queues", "coefficient"),
        ),
        Kernel(
            "mse_loss_grad_v2_950",
            "MseLossGradV2 (register-based, Ascend 950, newer release)",
            mse_loss_grad_950.register_based_tiling,
            mse_loss_grad_950.record_register_based,
            lambda shape: coefficient.register_based(math.prod(shape)),
            broadcasts=True,
            queues=False,
        ),
        Kernel(
            "mse_loss_grad_950",
            "MseLossGrad (atvoss, Ascend 950, older release)",
            mse_loss_grad_950.atvoss_tiling,
            mse_loss_grad_950.record_atvoss,
            lambda shape: coefficient.atvoss(math.prod(shape)),
            broadcasts=True,
            assumed=("queues",),
        ),
        Kernel(
            "mse_loss_grad_triton",
            "MseLossGrad (Triton)",
            lambda soc, problem: mse_loss_grad_triton.tiling(soc, problem, TilingOptions()),
            mse_loss_grad_triton.record,
            lambda shape: coefficient.tbe(math.prod(shape)),
            broadcasts=True,
            assumed=("queues", "coefficient"),
            cut=mse_loss_grad_triton.tiling,
        ),
    )
}

DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16)

V2_SHORT_NAMES = ("Ascend910B", "Ascend910_93", "Ascend310P")
"""Chips whose L0 operator takes ``MseLossGradV2`` when shapes and formats agree (``mse_loss_grad.cpp``)."""

REGISTER_ARCH = 3510
RELEASES = ("newer", "older")


def find(name: str) -> Kernel:
    """The kernel called ``name``; ``AtlasError`` with the known names otherwise."""
    try:
        return KERNELS[name]
    except KeyError:
        raise AtlasError(f"unknown kernel {name!r}: there are {', '.join(sorted(KERNELS))}") from None


def choose(soc: Soc, *, alike: bool, release: str = "newer") -> str:
    """The kernel that the chip runs. ``alike``: the three view shapes agree, and so do the formats.

    ``release``: of ops-nn; the two differ on the 950 alone (facts: operator, 1.5 and 5.5).
    """
    if release not in RELEASES:
        raise AtlasError(f"release = {release!r}: must be {' or '.join(RELEASES)}")
    if soc.npu_arch == REGISTER_ARCH:
        return "mse_loss_grad_v2_950" if release == "newer" else "mse_loss_grad_950"
    return "mse_loss_grad_v2" if alike and soc.short_name in V2_SHORT_NAMES else "mse_loss_grad"

"""The kernels by name. A new kernel is one file and one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernel import mse_loss_grad_v2
from kernel.core import Tiles
from kernel.program import Blocks, Program
from kernel.tiling import Tiling
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel: its host tiling and its recorded program, both functions of the chip.

    ``short_names``: the chips (CANN short names) whose binary package holds this kernel as modelled.
    """

    name: str
    tiling: Callable[[Soc, DType, int], Tiling]
    record: Callable[[Soc, DType, Tiles, int, int], Program]
    dtypes: tuple[DType, ...]
    short_names: tuple[str, ...]

    def blocks(self, soc: Soc, dtype: DType, tiling: Tiling) -> tuple[Blocks, ...]:
        """The recorded programs of a launch, one for each shape of block."""
        return tuple(
            Blocks(self.record(soc, dtype, tiles, buffer_length, buffer_num), starts, first)
            for starts, first, tiles, buffer_length, buffer_num in tiling.shapes()
        )


KERNELS = {
    "mse_loss_grad_v2": Kernel(
        name="mse_loss_grad_v2",
        tiling=mse_loss_grad_v2.tiling,
        record=mse_loss_grad_v2.record,
        dtypes=(DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16),
        short_names=("Ascend910B", "Ascend910_93", "Ascend310P"),
    ),
}


def find(name: str) -> Kernel:
    """The kernel called ``name``; ``AtlasError`` with the known names otherwise."""
    try:
        return KERNELS[name]
    except KeyError:
        raise AtlasError(f"unknown kernel {name!r}: there are {', '.join(sorted(KERNELS))}") from None

"""Atlas emulator: what a Huawei Atlas (Ascend) NPU would compute, how long it would take, and why.

``mse_loss_backward`` gives the bits, ``predict`` the time, ``run`` both; ``soc`` a chip. Everything is
imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from emulator.api import mse_loss_backward, predict, run, soc
    from emulator.result import Result
    from emulator.rounding import rounding_error
    from kernel.tiling import TilingOptions
    from socs.errors import AtlasError, UnknownCost
    from socs.spec import Soc

__all__ = [
    "AtlasError",
    "Result",
    "Soc",
    "TilingOptions",
    "UnknownCost",
    "__version__",
    "mse_loss_backward",
    "predict",
    "rounding_error",
    "run",
    "soc",
]

_HOMES = {
    "AtlasError": "socs.errors",
    "UnknownCost": "socs.errors",
    "Soc": "socs.spec",
    "TilingOptions": "kernel.tiling",
    "Result": "emulator.result",
    "mse_loss_backward": "emulator.api",
    "predict": "emulator.api",
    "rounding_error": "emulator.rounding",
    "run": "emulator.api",
    "soc": "emulator.api",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'emulator' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

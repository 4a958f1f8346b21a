"""What a call is made with where it does not say."""

from __future__ import annotations

import os


class Default(str):
    """A default that can be told from the same text where a caller gives that."""

    __slots__ = ()


DEFAULT_SOC = Default("Ascend910B3")
"""Where no chip is named. A backend that runs on one chip alone takes that one instead."""

EMULATED = "emulated"
BACKEND_VARIABLE = "ATLAS_EMU_BACKEND"


def default_backend() -> str:
    """The backend where none is named: the environment's, else the emulated one."""
    return os.environ.get(BACKEND_VARIABLE) or EMULATED

"""Where the clients are, and the compiler for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.cann import toolchain
from socs.errors import AtlasError

CLIENTS = Path(__file__).parent / "clients"
STRICT = ("-Wall", "-Wextra", "-Werror")


def compiler_or_skip() -> str:
    try:
        return toolchain.find()[0]
    except AtlasError as error:
        pytest.skip(str(error))

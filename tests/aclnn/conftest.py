"""Every test starts without messages and with the chip's own overflow mode."""

from __future__ import annotations

import pytest

from emulator import aclnn
from emulator.aclnn.stream import _Device


@pytest.fixture(autouse=True)
def _fresh_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    aclnn.aclGetRecentErrMsg()
    monkeypatch.setattr(_Device, "overflow", None)

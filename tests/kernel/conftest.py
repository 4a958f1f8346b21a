"""Compiled kernels go to a folder of the test run, never to the user's cache."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("ATLAS_EMU_CACHE")
    os.environ["ATLAS_EMU_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["ATLAS_EMU_CACHE"]
    else:
        os.environ["ATLAS_EMU_CACHE"] = before

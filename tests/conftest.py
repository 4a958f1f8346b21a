"""For all tests: goldens that one flag writes anew, and a cache that is not the user's."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew; then read it")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """``golden(name, text)``: the text is what ``tests/golden/name`` holds."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), "see --update-golden"

    return check


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled kernels go to a folder of the test run, never to the user's cache."""
    before = os.environ.get("ATLAS_EMU_CACHE")
    base = tmp_path_factory.getbasetemp()
    # One for all workers of pytest-xdist, whose folders lie side by side: each kernel is compiled once.
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    cache.mkdir(exist_ok=True)
    os.environ["ATLAS_EMU_CACHE"] = str(cache)
    yield
    if before is None:
        del os.environ["ATLAS_EMU_CACHE"]
    else:
        os.environ["ATLAS_EMU_CACHE"] = before


@pytest.fixture
def signals_by_default() -> Iterator[None]:
    """Programs start with the signals of a terminal, also where the tests run under nohup."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    # A handler of ours becomes the default in a program that is started; what is ignored stays so.
    before = {
        number: signal.signal(number, signal.SIG_DFL)
        for number in numbers
        if signal.getsignal(number) is signal.SIG_IGN
    }
    try:
        for number in numbers:
            _check_that_it_ends_a_program(number)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _check_that_it_ends_a_program(number: signal.Signals) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            pytest.skip(f"{number.name} does not end a program here, whatever is tested")

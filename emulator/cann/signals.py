"""Signals to ``atlas-emu exec``: the client that runs decides what becomes of them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from types import FrameType

FORWARDED = (signal.SIGTERM, signal.SIGHUP)


class Signals:
    """Where signals go: to the client while it runs; else they end this process, with its clean-up."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = False
        self._early: list[int] = []

    def wait_for(self, start: Callable[[], subprocess.Popen[bytes]]) -> int:
        """Start a client and wait for it; gives its status as ``Popen`` has it."""
        self._starting = True
        try:
            process = self._process = start()
            for number in self._early:
                process.send_signal(number)
            return process.wait()
        finally:
            self._process, self._starting = None, False

    def forward(self, number: int, _: FrameType | None) -> None:
        if self._process is not None:
            self._process.send_signal(number)
        elif self._starting:
            self._early.append(number)
        else:
            raise SystemExit(128 + number)

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        # The terminal sends a Ctrl-C to the client too.
        if not self._starting:
            signal.default_int_handler(number, frame)


@contextlib.contextmanager
def handled() -> Iterator[Signals]:
    """Within it signals go by :class:`Signals`; those that were ignored before (nohup) still are."""
    signals = Signals()
    wanted = {**dict.fromkeys(FORWARDED, signals.forward), signal.SIGINT: signals.interrupt}
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number, handler in wanted.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, handler)
    try:
        yield signals
    finally:
        for number, old in before.items():
            signal.signal(number, old)

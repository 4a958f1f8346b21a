"""Signals to ``atlas-emu exec``: the client that runs decides what becomes of them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
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
            return _ended(process)
        finally:
            self._process, self._starting = None, False
            self._early.clear()

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


def _ended(process: subprocess.Popen[bytes]) -> int:
    """``process.wait()`` during which every signal is handled at once.

    One that arrives between Python's last look at them and ``waitpid`` does not interrupt that: its handler
    would wait for the end of the very process to which it is to pass the signal on.
    """
    if threading.current_thread() is not threading.main_thread():  # where no signal is handled
        return process.wait()
    try:
        ended = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # an older kernel, or the process has been waited for
        return _polled(process)
    try:
        with _wakeup() as woken:
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            poll.register(woken, select.POLLIN)
            while process.poll() is None:
                if any(descriptor == woken.fileno() for descriptor, _ in poll.poll()):
                    woken.recv(4096)
    finally:
        os.close(ended)
    return process.wait()


def _polled(process: subprocess.Popen[bytes]) -> int:
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(0.1)


@contextlib.contextmanager
def _wakeup() -> Iterator[socket.socket]:
    """A socket with a byte for each signal."""
    reader, writer = socket.socketpair()
    with reader, writer:
        for end in (reader, writer):
            end.setblocking(False)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield reader
        finally:
            signal.set_wakeup_fd(before)


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

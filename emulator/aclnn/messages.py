"""What ``aclGetRecentErrMsg`` tells: messages of the calling thread, newest first.

Facts: runtime sources of CANN 8.5 and newer (format and error codes by the status' leading digit).
No message was checked against hardware.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from datetime import datetime

KINDS = {
    1: ("EZ1001", "AclNN_Parameter_Error"),
    3: ("EZ9903", "AclNN_Runtime_Error"),
    5: ("EZ9999", "AclNN_Inner_Error"),
}
"""Error code and title by the leading digit of the status."""

KEPT = 64
"""Messages kept per thread; older ones are dropped."""


class StatusError(Exception):
    """A call ends with ``status``; ``str()`` is the message. Never leaves this package."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class _Recent(threading.local):
    def __init__(self) -> None:
        self.messages: deque[str] = deque(maxlen=KEPT)


_recent = _Recent()


def report(status: int, message: str) -> int:
    """Keep ``message`` for the calling thread; returns ``status``."""
    code, title = KINDS[status // 100000]
    now = datetime.now()
    time = f"{now:%Y-%m-%d-%H:%M:%S}.{now.microsecond // 1000:03d}.{now.microsecond % 1000:03d}"
    _recent.messages.appendleft(f"[PID: {os.getpid()}] {time} {title}({code}): {message}")
    return status


def keep(text: str) -> None:
    """Keep a text for the calling thread that has a head already: another library's."""
    _recent.messages.appendleft(text.rstrip("\n"))


def aclGetRecentErrMsg() -> str | None:  # noqa: N802
    """The messages of the calling thread, newest first, which this clears; ``None`` where there is none.

    The newest stands on the first line, as ``[PID: 1234] 2026-01-31-12:34:56.123.456
    AclNN_Parameter_Error(EZ1001): text``; older ones follow under a ``TraceBack`` line.
    """
    messages = _recent.messages
    if not messages:
        return None
    newest, *older = messages
    messages.clear()
    text = newest + "\n"
    if older:
        text += "TraceBack (most recent call last):\n" + "".join(f"        {line}\n" for line in older)
    return text

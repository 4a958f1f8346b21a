"""A device: initialised once for the process, set in every thread that uses it, given back at the end."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
from functools import partial

from emulator.backends.npu.errors import NpuError
from emulator.backends.npu.held import Held, attempt
from emulator.backends.npu.libraries import Libraries, libraries, load
from emulator.backends.npu.places import Installation
from socs.errors import AtlasError

VARIABLE = "ATLAS_EMU_DEVICE"
"""The number of the device where none is given; default 0."""

REPEAT_INITIALIZE = 100002


class Device:
    """A device of initialised libraries. Made by :func:`open_device`."""

    def __init__(self, found: Libraries, number: int) -> None:
        self.libraries = found
        self.number = number
        self.outstanding: set[Held] = set()
        """What outlives a call: of executors between the phases."""
        self._lock = threading.Lock()
        self.times_set = 0
        """How often threads set the device, and did not give it back so far."""

    def enter(self, visit: Held) -> None:
        """Make the device the calling thread's until ``visit`` is over, then what was there before."""
        if self._is_here():
            return
        before = self._context()
        if before is not None:
            visit.keep("aclrtSetCurrentContext", before)
        self._set()

    def need_context(self) -> None:
        """Make the device that of a thread without any; one that a caller has chosen stays."""
        if self._context() is None:
            self._set()

    def _set(self) -> None:
        self.libraries.call("aclrtSetDevice", self.number)
        with self._lock:
            self.times_set += 1

    def _is_here(self) -> bool:
        here = ctypes.c_int32()
        answered = self.libraries.status("aclrtGetDevice", ctypes.byref(here)) == 0
        if not answered:
            self.libraries.recent()  # tells of what was only a question
        return answered and here.value == self.number

    def _context(self) -> int | None:
        context = ctypes.c_void_p()
        answered = self.libraries.status("aclrtGetCurrentContext", ctypes.byref(context)) == 0
        if not answered:
            self.libraries.recent()
        return context.value if answered else None

    @property
    def soc_name(self) -> str:
        """What the card calls its chip. ``AtlasError`` where it does not say."""
        self.need_context()
        name = self.libraries.text("aclrtGetSocName")
        if not name:
            raise AtlasError(f"backend npu: aclrtGetSocName of device {self.number} gives no name")
        return name

    def leave(self) -> None:
        """Give back what is outstanding, and the device as often as it was set."""
        error = attempt(self._give_back, None)
        reset = partial(self.libraries.call, "aclrtResetDevice", self.number)
        while self.times_set:
            failed = attempt(reset, None)
            if failed is not None:
                error = error or failed
                break
            self.times_set -= 1
        if error is not None:
            raise error

    def _give_back(self) -> None:
        if not self.outstanding:
            return
        with Held(self.libraries) as visit:
            self.enter(visit)
            error: BaseException | None = None
            while self.outstanding:
                error = attempt(partial(self.outstanding.pop().close, None), error)
            if error is not None:
                raise error


class _Opened:
    """What this process has initialised."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.devices: dict[tuple[Installation, int], Device] = {}
        self.initialised: dict[Installation, bool] = {}  # whether it is ours to finalize


_opened = _Opened()


def open_device(number: int | None = None) -> Device:
    """The device of that number, of the libraries that the environment names; opened once.

    Raises ``AtlasError`` where libraries or device are missing, naming what was looked at.
    """
    wanted = _number() if number is None else number
    found = libraries()
    key = (found.installation, wanted)
    with _opened.lock:
        initialise(found)
        if key not in _opened.devices:
            count = device_count(found)
            if not 0 <= wanted < count:
                there = f"{count} device{'s' if count != 1 else ''}" if count else "no device"
                raise AtlasError(
                    f"backend npu: device {wanted}: the libraries under {found.installation.root} see {there}"
                )
            _opened.devices[key] = Device(found, wanted)
        return _opened.devices[key]


def device_count(found: Libraries) -> int:
    """How many devices initialised libraries see."""
    count = ctypes.c_uint32()
    found.call("aclrtGetDeviceCount", ctypes.byref(count))
    return count.value


def shutdown() -> None:
    """Give back every device, and finalize what this process itself initialised; a later call opens anew.

    Done at the end of the process. No thread may be in a call.
    """
    with _opened.lock:
        error: BaseException | None = None
        for key, device in list(_opened.devices.items()):
            # What could not be given back stays, here as below.
            failed = attempt(device.leave, None)
            if not device.times_set:
                del _opened.devices[key]
            error = error or failed
        for installation, ours in list(_opened.initialised.items()):
            failed = attempt(partial(load(installation).call, "aclFinalize"), None) if ours else None
            if failed is None:
                del _opened.initialised[installation]
            error = error or failed
        if error is not None:
            raise error


@atexit.register
def _at_exit() -> None:
    # Another user of the libraries (torch_npu) may have finalized them before.
    with contextlib.suppress(AtlasError):
        shutdown()


def initialise(found: Libraries) -> None:
    """``aclInit``, once. That somebody else did it before is fine, and then theirs to undo."""
    if found.installation in _opened.initialised:
        return
    code = found.status("aclInit", None)
    told = found.recent() if code != 0 else ""
    if code not in (0, REPEAT_INITIALIZE):
        raise NpuError("aclInit", code, told)
    _opened.initialised[found.installation] = code == 0


def _number() -> int:
    text = os.environ.get(VARIABLE) or "0"
    if not (text.isascii() and text.isdigit()):
        raise AtlasError(f"{VARIABLE} = {text!r}: must be the number of a device")
    return int(text)

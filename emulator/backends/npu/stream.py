"""The stream of a call: one of its own, or the caller's."""

from __future__ import annotations

import ctypes
import threading

from emulator.aclnn.codes import ACL_RT_OVERFLOW_MODE_INFNAN, ACL_RT_OVERFLOW_MODE_SATURATION
from emulator.backends.npu.device import Device
from emulator.backends.npu.held import Held
from socs.errors import AtlasError
from socs.spec import OverflowMode

_MODES = {"saturation": ACL_RT_OVERFLOW_MODE_SATURATION, "inf_nan": ACL_RT_OVERFLOW_MODE_INFNAN}

_mode = threading.Lock()
"""The mode belongs to the device: no two threads may change it at once."""


def enter(device: Device, visit: Held, given: int | None) -> None:
    """Make the calling thread ready for a stream of its own, or for one that was ``given`` as an address."""
    if given is None:
        device.enter(visit)
    else:
        device.need_context()


def stream_of(device: Device, held: Held, given: int | None, overflow: OverflowMode | None) -> int:
    """``given``, else a stream that ``held`` destroys.

    ``overflow``: the mode to create it in, where that is not the device's own.
    """
    libraries = device.libraries
    if given is not None:
        if overflow is not None:
            raise AtlasError(f"overflow = {overflow!r}: a stream that is given has its mode already")
        return given
    if overflow is None:
        made = libraries.made("aclrtCreateStream")
        held.keep("aclrtDestroyStream", made)
        return made
    with _mode:
        before = ctypes.c_int()
        libraries.call("aclrtGetDeviceSatMode", ctypes.byref(before))
        with Held(libraries) as changed:
            changed.keep("aclrtSetDeviceSatMode", before.value)
            libraries.call("aclrtSetDeviceSatMode", _MODES[overflow])
            made = libraries.made("aclrtCreateStream")
            held.keep("aclrtDestroyStream", made)
    return made

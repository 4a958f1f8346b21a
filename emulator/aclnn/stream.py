"""Streams, as far as results depend on them: the overflow mode that a stream was created in.

Work is executed when it is enqueued, so a stream never has anything pending.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.aclnn.codes import (
    ACL_ERROR_RT_PARAM_INVALID,
    ACL_RT_OVERFLOW_MODE_INFNAN,
    ACL_RT_OVERFLOW_MODE_SATURATION,
    ACL_SUCCESS,
)
from socs.spec import OverflowMode, Soc

_MODES: dict[int, OverflowMode] = {
    ACL_RT_OVERFLOW_MODE_SATURATION: "saturation",
    ACL_RT_OVERFLOW_MODE_INFNAN: "inf_nan",
}
_NUMBERS = {mode: number for number, mode in _MODES.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """A stream. ``overflow``: the mode set when it was created; ``None`` is the chip's default."""

    overflow: OverflowMode | None = None


class _Device:
    """What has been set for the device; the emulator has one."""

    overflow: OverflowMode | None = None


def aclrtSetDeviceSatMode(mode: int) -> int:  # noqa: N802
    """Set the overflow mode of streams created from now on; returns a status.

    ``mode``: 0 saturation, 1 INF/NAN (``aclrtFloatOverflowMode``); another number is refused with 107000.
    A chip without that mode ignores it. Streams that exist keep theirs, the default stream among them.
    """
    chosen = _MODES.get(mode) if isinstance(mode, int) else None
    if chosen is None:
        return ACL_ERROR_RT_PARAM_INVALID
    _Device.overflow = chosen
    return ACL_SUCCESS


def aclrtGetDeviceSatMode(soc: str | Soc = "Ascend910B3") -> tuple[int, int]:  # noqa: N802
    """(status, the mode that a stream created now would have on ``soc``). Raises ``AtlasError``."""
    from socs import load

    chip = soc if isinstance(soc, Soc) else load(soc)
    return ACL_SUCCESS, _NUMBERS[overflow_on(chip, aclrtCreateStream()[1])]


def aclrtCreateStream() -> tuple[int, Stream]:  # noqa: N802
    """(status, a stream with the overflow mode of the device as it is now)."""
    return ACL_SUCCESS, Stream(_Device.overflow)


def overflow_on(soc: Soc, stream: Stream | None) -> OverflowMode:
    """The overflow mode of ``stream`` on ``soc``.

    ``None`` is the default stream, which is as old as the device: no mode set later reaches it.
    """
    numerics = soc.numerics
    if stream is not None and stream.overflow in numerics.overflow_modes:
        return stream.overflow
    return numerics.default_overflow_mode

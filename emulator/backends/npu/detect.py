"""Whether there is a card, and if not, why not."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from emulator.backends.npu.device import device_count, open_device
from emulator.backends.npu.libraries import Libraries, libraries
from socs.errors import AtlasError

_VERSION = re.compile(r"^[^#\n]*running_version=\[?([^\]\n:]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Detection:
    """What was found. ``reason``: why nothing can run; ``None`` where it can.

    ``root``, ``origin``, ``files``: where the libraries are, what named that place, which they are.
    ``version``: of the toolkit, by its ``version.cfg``. ``emulated``: whether they are this project's own.
    ``devices``: how many they see; ``device``, ``soc``: the one to be used, and its chip.
    """

    reason: str | None
    root: str | None = None
    origin: str | None = None
    files: tuple[str, ...] = ()
    version: str | None = None
    emulated: bool = False
    devices: int | None = None
    device: int | None = None
    soc: str | None = None

    @property
    def available(self) -> bool:
        return self.reason is None

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""
        return {"available": self.available, **asdict(self), "files": list(self.files)}


def detect() -> Detection:
    """Look for libraries, load them, ask for a device and its chip; the first that fails is the reason.

    Nothing is raised, and nothing computed. The device stays open for calls of this process.
    """
    try:
        found = libraries()
    except AtlasError as error:
        return Detection(str(error))
    about = _about(found)
    try:
        device = open_device()
        return Detection(
            None, **about, devices=device_count(found), device=device.number, soc=device.soc_name
        )
    except AtlasError as error:
        return Detection(str(error), **about)


def _about(found: Libraries) -> dict[str, Any]:
    where = found.installation
    version = _VERSION.search(found.version)
    return {
        "root": str(where.root),
        "origin": where.origin,
        "files": tuple(str(path) for path in (where.runtime, where.base, *where.operators)),
        "version": version.group(1) if version else None,
        "emulated": found.emulated,
    }

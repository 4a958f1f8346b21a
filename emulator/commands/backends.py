"""``atlas-emu backends``."""

from __future__ import annotations

from emulator.commands import standard_streams
from emulator.commands.options import (
    JsonOption,
)


def backends(as_json: JsonOption = False) -> None:
    """The backends: which can run here, on which card, and why others cannot."""
    from emulator.backends.npu.detect import detect
    from emulator.report.backends import backends_json, backends_table

    detection = detect()
    if as_json:
        standard_streams.write_json(backends_json(detection))
    else:
        standard_streams.render(backends_table(detection))

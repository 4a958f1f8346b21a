"""The backend ``npu``: the same call on a real card, through the vendor's own libraries and ``ctypes``.

Nothing here was ever run on a card: the tests run it against the emulated libraries of ``cann-root``
(``docs/hardware.md``).
"""

from emulator.backends.npu.backend import Npu
from emulator.backends.npu.errors import NpuError

__all__ = ["Npu", "NpuError"]

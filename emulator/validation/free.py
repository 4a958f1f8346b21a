"""The numbers of a chip that a calibration may change, and how far physics lets them go.

None of them belongs to a shape, a dtype or a kernel. What an instruction costs in the vector unit is not
among them: it is documented, and elementwise launches hardly show it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from socs.isa import REPEAT_BYTES
from socs.spec import Soc

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Free:
    """A number that may be fitted: its dotted key, its limits on a chip, and where the limits come from."""

    key: str
    limits: Callable[[Soc], Range]
    why: str


def _fixed(low: float, high: float) -> Callable[[Soc], Range]:
    return lambda soc: (low, high)


def _of_rate(soc: Soc, key: str, floor: float) -> Range:
    """From ``floor`` to the highest figure that any source gives."""
    told = [other.value for other in soc.source(key).alternatives if isinstance(other.value, (int, float))]
    return floor, max([number(soc, key), *told])


def _hbm(soc: Soc) -> Range:
    low, high = _of_rate(soc, "memory.hbm_bytes_per_s", soc.memory.hbm_bytes_per_s / 4)
    return low, high


def _l2(soc: Soc) -> Range:
    ports = 2.0 * soc.vector_cores * PORT_BYTES * soc.clock_hz
    return soc.memory.l2.bytes_per_s / 4, max(ports, soc.memory.l2.bytes_per_s)


PORT_BYTES = 128
"""Bytes per cycle between one core and L2 in one direction (Ascend/msopprof: 195 GB/s of a core)."""

_HEAD = (1e-8, 5.6e-6)
_HEAD_TEXT = "half a tick of the profiler's 50 MHz counter, to the longest first task (hw-native-sys/simpler)"
_LATENCY_TEXT = "ten cycles of issue, to four times the unloaded latency of the slowest published transfer"
_RATE_TEXT = "an eighth of a block per cycle, to two repeats of the vector unit per cycle"

FREE: tuple[Free, ...] = (
    Free("launch.task_s", _fixed(*_HEAD), _HEAD_TEXT),
    Free("launch.block_s", _fixed(1e-10, 0.8e-6), "nearly nothing, to a core switch (hw-native-sys/simpler)"),
    Free("launch.entry_s", _fixed(*_HEAD), _HEAD_TEXT),
    Free("launch.cold_code_s", _fixed(*_HEAD), _HEAD_TEXT),
    Free(
        "launch.cold_code_block_s",
        _fixed(1e-10, 0.8e-6),
        "nearly nothing, to a core switch (hw-native-sys/simpler)",
    ),
    Free("memory.hbm_bytes_per_s", _hbm, "a quarter of the chip's, to the highest figure of any source"),
    Free("memory.read_cost", _fixed(0.5, 2.0), "half to twice a byte of mixed traffic"),
    Free("memory.write_cost", _fixed(0.5, 2.0), "half to twice a byte of mixed traffic"),
    Free("memory.l2.bytes_per_s", _l2, "a quarter of the chip's, to the ports of all cores, both ways"),
    Free("memory.l2.store_bytes_per_s", _l2, "a quarter of the chip's, to the ports of all cores, both ways"),
    Free("memory.l2.dirty_share", _fixed(1e-3, 1.0), "a share"),
    *(
        Free(f"dma.{way}.{memory}.{name}", _fixed(low, high), text)
        for way in ("load", "store")
        for memory in ("hbm", "l2")
        for name, low, high, text in (
            ("latency_cycles", 10.0, 1000.0, _LATENCY_TEXT),
            ("port_bytes_per_cycle", 4.0, 2.0 * REPEAT_BYTES, _RATE_TEXT),
            ("stream_latency_cycles", 1.0, 1000.0, _LATENCY_TEXT),
            ("stream_bytes_per_cycle", 4.0, 2.0 * REPEAT_BYTES, _RATE_TEXT),
            ("overlap_cycles", 1.0, 1000.0, _LATENCY_TEXT),
        )
    ),
    Free("dma.misaligned_lines", _fixed(0.01, 8.0), "hardly any, to twice the two lines at either end"),
    Free("scalar.loop_cycles", _fixed(1.0, 500.0), "one instruction, to two misses of the instruction cache"),
    Free("scalar.issue_cycles", _fixed(1.0, 32.0), "one instruction, to a dependent load from the stack"),
)


def free_of(soc: Soc) -> tuple[Free, ...]:
    """Those that ``soc`` has."""
    held = {key for key, _ in soc.numbers()}
    return tuple(free for free in FREE if free.key in held)


def number(soc: Soc, key: str) -> float:
    """The number of a chip at a dotted key."""
    held: Any = soc
    for part in key.split("."):
        held = getattr(held, part)
    return float(held)


def with_numbers(soc: Soc, numbers: Mapping[str, float]) -> Soc:
    """``soc`` with other numbers, which are whole where the chip's are. They are within their limits, so the
    model need not check them again."""
    for key, value in numbers.items():
        soc = _replaced(soc, key.split("."), value)
    return soc


def _replaced(model: Any, parts: list[str], value: float) -> Any:
    head, *rest = parts
    held = getattr(model, head)
    if rest:
        return model.model_copy(update={head: _replaced(held, rest, value)})
    return model.model_copy(update={head: round(value) if isinstance(held, int) else float(value)})

"""What a call answers: bits, time, the reason for it, and how far to trust it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from emulator.accuracy import Accuracy
from emulator.device.timeline import PipeRow, Timeline
from emulator.measured import Measured
from kernel.remember import remembered
from kernel.tiling import Tiling
from socs.spec import Soc

if TYPE_CHECKING:
    from emulator.device.bound import Bounds


@dataclass(frozen=True, slots=True)
class Assumed:
    """A number that nobody knows and that went into the result."""

    key: str
    ref: str
    note: str


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to ``run`` or ``predict``.

    ``output`` is the gradient (``None`` for ``predict``). Times count from the start of the task on the
    device to its end; ``cycles`` are of the vector cores' clock. ``stand_in_for`` names the kernel that
    the chip really runs where another was asked for. ``engine``: which one counted the cycles; ``timeline``
    has every span that ``simpy`` saw, ``fast`` keeps none. ``measured``: what a card took, where one ran the
    call; nothing is predicted then, and all of the model's numbers are 0.
    """

    operator: str
    backend: str
    soc: Soc
    kernel: str
    stand_in_for: str | None
    dtype: str
    shapes: dict[str, tuple[int, ...]]
    reduction: str | None
    l2: str
    overflow: str
    block_dim: int
    tiling: Tiling | None
    cycles: int
    time_us: float
    bounds: Bounds | None
    pipes: tuple[PipeRow, ...]
    launch_cycles: int
    bytes_read: int
    bytes_written: int
    assumed: tuple[Assumed, ...]
    accuracy: Accuracy
    warnings: tuple[str, ...]
    engine: str | None = field(default=None, compare=False)
    without: tuple[str, ...] = ()
    measured: Measured | None = None
    timeline: Timeline | None = field(default=None, repr=False, compare=False)
    output: NDArray[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def bound_cycles(self) -> int:
        """The closed-form lower limit."""
        return self.bounds.lower if self.bounds else 0

    @property
    def serial_cycles(self) -> int:
        """Everything one after another, with all cores on the memory."""
        return self.bounds.serial if self.bounds else 0

    def us(self, cycles: int) -> float:
        """Cycles in microseconds on this chip."""
        return cycles / self.soc.clock_hz * 1e6

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys; the output tensor is not part of it."""
        return {
            "operator": self.operator,
            "backend": self.backend,
            "soc": self.soc.name,
            "kernel": self.kernel,
            "stand_in_for": self.stand_in_for,
            "dtype": self.dtype,
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "reduction": self.reduction,
            "l2": self.l2,
            "overflow": self.overflow,
            "block_dim": self.block_dim,
            "tiling": asdict(self.tiling) if self.tiling else None,
            "engine": self.engine,
            "without": list(self.without),
            "cycles": self.cycles,
            "time_us": self.time_us,
            "clock_hz": self.soc.clock_hz,
            "bound_cycles": self.bound_cycles,
            "bound_us": self.us(self.bound_cycles),
            "serial_cycles": self.serial_cycles,
            "limits_cycles": dict(self.bounds.limits) if self.bounds else {},
            "limiter": self.bounds.limiter if self.bounds else None,
            "pipes": [asdict(row) for row in self.pipes],
            "launch": {"cycles": self.launch_cycles, "us": self.us(self.launch_cycles)},
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "assumed": [asdict(entry) for entry in self.assumed],
            "accuracy": asdict(self.accuracy),
            "warnings": list(self.warnings),
            "measured": None if self.measured is None else self.measured.to_json(),
        }


@remembered(256)
def assumed_numbers(soc: Soc, used: frozenset[str]) -> tuple[Assumed, ...]:
    """Those of the numbers used that are marked ``assumed``, by key."""
    found: dict[str, Assumed] = {}
    for key in soc.assumed(set(used)):
        source = soc.source(key)
        found[key] = Assumed(key, source.ref, source.note)
    return tuple(found.values())


def assumed_of_kernel(kernel: str, what: tuple[str, ...]) -> tuple[Assumed, ...]:
    """What of a kernel's structure no public source settles, as entries beside the numbers."""
    return tuple(
        Assumed(f"kernel.{kernel}.{item}", f"kernel/{kernel}.py", "chosen here; the real one is not public")
        for item in what
    )

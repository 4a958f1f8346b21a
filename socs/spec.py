"""The models of a chip. Every number has its unit in its name and a source in ``sources``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from socs.isa import DType, RoundMode

Positive = Annotated[int, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]
PositiveRate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegativeReal = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]

Tier = Literal["documented", "measured", "derived", "assumed"]
OverflowMode = Literal["inf_nan", "saturation"]


class Model(BaseModel):
    """Base of all models: frozen, and a key that is not a field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class Alternative(Model):
    """A figure that another source gives for the same number."""

    value: float | int | str | bool
    ref: str


class Source(Model):
    """Where a number comes from.

    ``documented``: vendor document, data file or tool. ``measured``: on silicon. ``derived``:
    arithmetic from the two. ``assumed``: nobody knows; taken over from a related chip or chosen.
    """

    tier: Tier
    ref: str = Field(min_length=1)
    note: str = ""
    alternatives: tuple[Alternative, ...] = ()


class Banks(Model):
    """Banks of the unified buffer and the rule by which accesses collide.

    ``decode`` names how an address maps to them: ``group_low`` (address bits 5.. select the
    group, then depth, then bank: arch 2201), ``group_bank_depth`` (group, bank, depth from bit
    5 up: arch 3510) or ``unknown`` (no conflicts are modelled).
    """

    count: Positive
    groups: Positive
    bank_bytes: Positive
    decode: Literal["group_low", "group_bank_depth", "unknown"]
    reads_per_group: Positive
    writes_per_group: Positive
    read_excludes_write: bool


class UnifiedBuffer(Model):
    """The buffer of one vector core. ``reserved_bytes`` is what the host tiling leaves free."""

    bytes: Positive
    reserved_bytes: NotNegative
    banks: Banks


class VectorCost(Model):
    """Cycles of a vector instruction: ``head + interval * repeats`` from issue to retire."""

    head_cycles: NotNegative
    interval_cycles: PositiveRate


class RegisterLoop(Model):
    """A fused loop in vector registers (arch 3510): per repeat it waits for its slowest port."""

    start_cycles: NotNegative
    drain_cycles: NotNegative
    loads_per_cycle: Positive
    stores_per_cycle: Positive
    computes_per_cycle: Positive


class VectorUnit(Model):
    """The vector pipe: dtypes it takes, casts with their rounding modes, and costs.

    ``costs[op][dtype]``, for casts ``costs["cast"]["float32_to_float16"]``; ``interval_cycles`` is
    the conflict-free one where ``ub.banks.decode`` is known.
    """

    arithmetic_dtypes: tuple[DType, ...]
    casts: dict[str, tuple[RoundMode, ...]]
    issue_gap_cycles: Positive
    costs: dict[str, dict[str, VectorCost]]
    register_loop: RegisterLoop | None = None


class ScalarUnit(Model):
    """The scalar pipe, which issues to the others."""

    issue_cycles: NotNegative
    loop_cycles: NotNegative
    set_flag_cycles: NotNegative
    wait_flag_cycles: NotNegative
    set_value_cycles_per_element: Positive
    get_value_cycles_per_element: Positive


class DmaPath(Model):
    """One direction between the unified buffer and one memory, for one core.

    A transfer of B bytes takes ``max(latency + B / port, stream_latency + served)``: the first
    is an unloaded transfer; ``served`` is the time in which the shared memory delivers the bytes
    at no more than ``stream_bytes_per_cycle`` per core. ``overlap_cycles`` before its end the next transfer
    may begin, if this one begins on a block of 32 bytes (without it: only after it).
    """

    latency_cycles: NotNegative
    port_bytes_per_cycle: PositiveRate
    stream_latency_cycles: NotNegative
    stream_bytes_per_cycle: PositiveRate
    overlap_cycles: NotNegative | None = None


class DmaDirection(Model):
    """MTE2 (load) or MTE3 (store): one path per memory."""

    hbm: DmaPath
    l2: DmaPath


class Dma(Model):
    """Data movement of one core.

    ``line_bytes`` is the granule of the shared memory; a run that does not start on one moves
    ``misaligned_lines`` lines more (on average over its phases) than its bytes.
    """

    load: DmaDirection
    store: DmaDirection
    queue_depth: Positive
    line_bytes: Positive
    misaligned_lines: NotNegativeReal
    byte_granular: bool


class L2(Model):
    """The cache that all cores share.

    ``bytes_per_s`` is what all cores together can load, ``store_bytes_per_s`` what they can store at the
    same time (without it: as much again). ``dirty_share``: of the lines that a cold start finds, those that
    have to be written to HBM before they can be replaced (without it: none).
    """

    bytes: Positive
    bytes_per_s: PositiveRate
    store_bytes_per_s: PositiveRate | None = None
    dirty_share: Share | None = None
    replacement: Literal["random", "lru"]


class MemorySystem(Model):
    """What all cores share. ``hbm_bytes_per_s`` is sustained traffic of HBM or DDR.

    ``read_cost``, ``write_cost``: bytes of that traffic that a byte read or written counts for (without
    them: one), where reading alone or writing alone is faster or slower than both together.
    """

    kind: str
    bytes: Positive | None = None
    hbm_bytes_per_s: PositiveRate
    read_cost: PositiveRate | None = None
    write_cost: PositiveRate | None = None
    l2: L2


class Launch(Model):
    """From the start of the task to the first instruction.

    ``task_s`` once and ``block_s`` for each block, before any block starts; then ``entry_s`` in every
    block, in which its scalar unit reads the tiling and sets up the queues. Where the kernel's code is in no
    instruction cache yet, the entry takes ``cold_code_s`` longer, and ``cold_code_block_s`` for each block,
    because all cores fetch the same lines (without them: nothing).
    """

    task_s: NotNegativeReal
    block_s: NotNegativeReal
    entry_s: NotNegativeReal
    cold_code_s: NotNegativeReal | None = None
    cold_code_block_s: NotNegativeReal | None = None


class Numerics(Model):
    """Arithmetic choices. Each that no source settles is ``assumed`` in ``sources``.

    ``overflow_modes[0]`` is the default. In ``saturation`` the narrowing of a result turns
    overflow and infinities into the largest finite value and NaN into +0.
    ``float32_overflow``: whether saturation mode also reaches float32 results (``saturate``) or
    leaves them IEEE (``ieee``). ``nan``: bits of a NaN that an instruction produces.
    """

    overflow_modes: tuple[OverflowMode, ...] = Field(min_length=1)
    float32_overflow: Literal["ieee", "saturate"]
    subnormals: Literal["kept", "flushed"]
    nan: Literal["all_ones", "quiet"]

    @property
    def default_overflow_mode(self) -> OverflowMode:
        return self.overflow_modes[0]


class Validation(Model):
    """How far predictions of one kind were from silicon. Written by ``atlas-emu``, not by hand.

    The kind: ``operator`` (or ``any``), ``size`` (a class of bytes moved, or ``any``) and the state of
    ``l2``, which is that of the rows where ``l2_known``, and otherwise what was taken for it. Measured over
    predicted, less one, lies between ``low`` and ``high`` for all of the ``rows`` but the 5 % furthest out on
    each side. The errors are of predicted over measured, less one, without sign. ``fitted``: how many of the
    rows the chip's numbers were fitted to.
    """

    operator: str
    size: str
    l2: Literal["hot", "cold", "dirty"]
    l2_known: bool
    rows: Positive
    low: Annotated[float, Field(gt=-1, allow_inf_nan=False)]
    high: Annotated[float, Field(gt=-1, allow_inf_nan=False)]
    median_error: NotNegativeReal
    worst_error: NotNegativeReal
    fitted: NotNegative = 0
    ref: str


class Soc(Model):
    """One chip version."""

    name: str = Field(min_length=1)
    short_name: str
    family: str
    products: tuple[str, ...]
    npu_arch: Positive
    architecture: str
    vector_cores: Positive
    clock_hz: PositiveRate
    ub: UnifiedBuffer
    vector: VectorUnit
    scalar: ScalarUnit
    dma: Dma
    memory: MemorySystem
    launch: Launch
    numerics: Numerics
    validation: tuple[Validation, ...] = ()
    sources: dict[str, Source]
    origin: str = Field(default="", description="file that the chip was read from")

    @model_validator(mode="after")
    def _every_number_has_a_source(self) -> Soc:
        bare = [key for key, _ in self.numbers() if self.source_key(key) is None]
        if bare:
            raise ValueError(f"no source for {', '.join(bare[:5])}")
        return self

    @model_validator(mode="after")
    def _reserve_fits(self) -> Soc:
        if self.ub.reserved_bytes >= self.ub.bytes:
            raise ValueError(
                f"ub.reserved_bytes {self.ub.reserved_bytes} leaves nothing of ub.bytes {self.ub.bytes}"
            )
        return self

    def numbers(self) -> Iterator[tuple[str, Any]]:
        """Every leaf that needs a source, as (dotted key, value)."""
        skip = {"name", "short_name", "family", "origin", "sources", "validation"}
        for key, value in self.model_dump(exclude=skip).items():
            yield from _leaves(key, value)

    def source_key(self, key: str) -> str | None:
        """The longest key of ``sources`` that is ``key`` or a dotted prefix of it."""
        parts = key.split(".")
        for length in range(len(parts), 0, -1):
            prefix = ".".join(parts[:length])
            if prefix in self.sources:
                return prefix
        return None

    def source(self, key: str) -> Source:
        """The source of the number at ``key`` (dotted). Raises ``KeyError`` where there is none."""
        found = self.source_key(key)
        if found is None:
            raise KeyError(key)
        return self.sources[found]

    def assumed(self, keys: set[str]) -> tuple[str, ...]:
        """Those of ``keys`` whose number nobody knows, sorted."""
        return tuple(sorted(key for key in keys if self.source(key).tier == "assumed"))


def _leaves(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(f"{prefix}.{key}", inner)
    elif value is not None:
        yield prefix, value

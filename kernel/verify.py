"""Static checks of a recorded launch: what would go wrong on the chip, before anything runs.

UB capacity, alignment, bounds, flag balance and deadlock, races between pipes, reads of unwritten UB, and
whether the blocks together write every element of the output exactly once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from kernel.program import Blocks, Flag, Instruction, Launch, Program, Region, TensorArg, Window
from socs.isa import BLOCK_BYTES, Op, Pipe
from socs.spec import Soc

TRIPS = 4
"""Trips of a folded loop that are checked: the first ones and the last. The rest repeat them."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One defect. ``rule`` is a stable word: capacity, alignment, flags, deadlock, race, unwritten,
    bounds or coverage."""

    rule: str
    message: str
    instruction: Instruction | None = None

    def __str__(self) -> str:
        where = f" at {self.instruction}" if self.instruction else ""
        return f"{self.rule}: {self.message}{where}"


def verify(launch: Launch, soc: Soc) -> list[Finding]:
    """All findings of a launch; an empty list means that none of the rules is broken."""
    findings: list[Finding] = []
    for blocks in launch.blocks:
        findings += check_blocks(blocks, launch, soc)
    findings += joins(places_of(launch), launch.tensors)
    return findings


def check_blocks(blocks: Blocks, launch: Launch, soc: Soc) -> list[Finding]:
    """The rules that concern equal blocks of a launch and no others."""
    findings = check_program(blocks.program, soc)
    findings += _bounds(blocks, launch)
    findings += _stores(blocks, launch)
    return findings


def check_program(program: Program, soc: Soc) -> list[Finding]:
    """The rules that concern one block alone."""
    findings = list(capacity(program, soc))
    stream = list(program.walk(TRIPS))
    findings += _alignment(stream, soc)
    findings += _inside(stream, program)
    order, flag_findings = _schedule(stream)
    findings += flag_findings
    if not any(f.rule == "deadlock" for f in flag_findings):
        findings += _races(stream, order)
        findings += _unwritten(stream)
    return findings


def capacity(program: Program, soc: Soc) -> Iterable[Finding]:
    """Whether the buffers fit the physical UB."""
    if program.ub_bytes > soc.ub.bytes:
        yield Finding(
            "capacity",
            f"the tile needs {program.ub_bytes:,} B of UB, {soc.name} has {soc.ub.bytes:,} B "
            f"({soc.origin}: ub.bytes)",
        )


def _alignment(stream: list[tuple[Instruction, int]], soc: Soc) -> Iterable[Finding]:
    seen: set[int] = set()
    for instruction, _ in stream:
        if id(instruction) in seen:
            continue
        seen.add(id(instruction))
        for operand in instruction.operands():
            # The scalar unit addresses single elements.
            if not isinstance(operand, Region) or instruction.op in (Op.SET_VALUE, Op.GET_VALUE):
                continue
            odd = operand.address
            if operand.rows > 1 and not odd % BLOCK_BYTES:
                odd += operand.pitch * operand.dtype.itemsize
            if odd % BLOCK_BYTES:
                yield Finding(
                    "alignment", f"UB address {odd} is not a multiple of {BLOCK_BYTES} B", instruction
                )
        if instruction.op in (Op.COPY_IN, Op.COPY_OUT) and not soc.dma.byte_granular:
            region = instruction.dst if instruction.op is Op.COPY_IN else instruction.srcs[0]
            assert region is not None
            nbytes = instruction.issued_count * region.dtype.itemsize
            if nbytes % BLOCK_BYTES:
                yield Finding(
                    "alignment",
                    f"{soc.name} copies whole {BLOCK_BYTES} B blocks, this one is {nbytes} B",
                    instruction,
                )


def _inside(stream: list[tuple[Instruction, int]], program: Program) -> Iterable[Finding]:
    """UB accesses outside the buffers that the kernel reserved, or across two of them."""
    seen: set[int] = set()
    for instruction, _ in stream:
        if id(instruction) in seen:
            continue
        seen.add(id(instruction))
        for region, _ in _accesses(instruction):
            for start, stop in region.spans():
                if not any(b.address <= start and stop <= b.address + b.bytes for b in program.buffers):
                    yield Finding(
                        "bounds", f"UB bytes {start}..{stop} do not lie in one reserved buffer", instruction
                    )


def _schedule(
    stream: list[tuple[Instruction, int]],
) -> tuple[list[dict[Pipe, int]], list[Finding]]:
    """Run the flags alone. Returns for each instruction the happens-before clock, and findings.

    A clock maps each pipe to the position in the stream of the last instruction of that pipe that is
    certain to have finished before this one starts. The scalar unit issues in order: while it waits,
    what comes later in the stream does not reach its pipe.
    """
    findings: list[Finding] = []
    queues: dict[Pipe, deque[int]] = {}
    for position, (instruction, _) in enumerate(stream):
        queues.setdefault(instruction.pipe, deque()).append(position)
    clocks: list[dict[Pipe, int]] = [{} for _ in stream]
    last: dict[Pipe, dict[Pipe, int]] = {pipe: {} for pipe in queues}
    raised: dict[Flag, deque[dict[Pipe, int]]] = {}
    lowered: dict[Flag, int] = {}
    scalar = queues.get(Pipe.S, deque())
    progress = True
    while progress:
        progress = False
        for pipe, queue in queues.items():
            while queue:
                position = queue[0]
                if scalar and scalar[0] < position:
                    break
                instruction, _ = stream[position]
                clock = dict(last[pipe])
                if instruction.op is Op.WAIT_FLAG:
                    assert instruction.flag is not None
                    if not raised.get(instruction.flag):
                        break
                    for other, at in raised[instruction.flag].popleft().items():
                        clock[other] = max(clock.get(other, -1), at)
                    lowered[instruction.flag] = position
                queue.popleft()
                progress = True
                clocks[position] = clock
                after = {**clock, pipe: position}
                last[pipe] = after
                if instruction.op is Op.SET_FLAG:
                    assert instruction.flag is not None
                    # Whatever the order of the pipes: the wait before must be certain to be over. A flag
                    # raised too often still counts, so that what it fails to order is found as well.
                    pending = raised.setdefault(instruction.flag, deque())
                    waited = clock.get(instruction.flag.target, -1) >= lowered.get(instruction.flag, -1)
                    if pending or not waited:
                        findings.append(
                            Finding("flags", f"{instruction.flag} is raised twice before a wait", instruction)
                        )
                    pending.append(after)
    for queue in queues.values():
        if queue:
            instruction, _ = stream[queue[0]]
            findings.append(
                Finding(
                    "deadlock", f"pipe {instruction.pipe} waits for {instruction.flag} forever", instruction
                )
            )
    findings += [
        Finding("flags", f"{flag} is raised and never waited for") for flag in raised if raised[flag]
    ]
    return clocks, findings


def _races(stream: list[tuple[Instruction, int]], clocks: list[dict[Pipe, int]]) -> Iterable[Finding]:
    """Overlapping UB accesses of two pipes, one of them a write, that no flag orders."""
    live: list[tuple[int, int, int, bool]] = []
    reported: set[tuple[int, int]] = set()
    ranges: dict[int, list[tuple[int, int, bool]]] = {}
    for position, (instruction, _) in enumerate(stream):
        clock = clocks[position]
        if id(instruction) not in ranges:
            ranges[id(instruction)] = [
                (*span, writes) for operand, writes in _accesses(instruction) for span in operand.spans()
            ]
        for start, stop, writes in ranges[id(instruction)]:
            kept = []
            for access in live:
                other, begin, end, wrote = access
                before = stream[other][0]
                ordered = before.pipe is instruction.pipe or clock.get(before.pipe, -1) >= other
                if not ordered and (writes or wrote) and begin < stop and start < end:
                    key = (id(before), id(instruction))
                    if key not in reported:
                        reported.add(key)
                        yield Finding(
                            "race",
                            f"UB bytes {max(start, begin)}..{min(stop, end)} are "
                            f"{'written' if writes else 'read'} with nothing that orders it after {before}",
                            instruction,
                        )
                if not (writes and ordered and start <= begin and end <= stop):
                    kept.append(access)
            live = kept
            live.append((position, start, stop, writes))


def _accesses(instruction: Instruction) -> Iterable[tuple[Region, bool]]:
    for source in instruction.srcs:
        if isinstance(source, Region):
            yield source, False
    if isinstance(instruction.dst, Region):
        yield instruction.dst, True


class _Spans:
    """A set of byte ranges."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []

    def add(self, start: int, stop: int) -> None:
        apart = []
        for low, high in self._spans:
            if high < start or stop < low:
                apart.append((low, high))
            else:
                start, stop = min(start, low), max(stop, high)
        self._spans = [*apart, (start, stop)]

    def covers(self, start: int, stop: int) -> bool:
        return any(low <= start and stop <= high for low, high in self._spans)


def _unwritten(stream: list[tuple[Instruction, int]]) -> Iterable[Finding]:
    """Reads of UB bytes that nothing wrote before."""
    written = _Spans()
    reported: set[int] = set()
    seen: set[int] = set()
    for instruction, _ in stream:
        # What is written stays so: an instruction that was in order is so in later trips.
        if id(instruction) in seen:
            continue
        seen.add(id(instruction))
        for region, writes in _accesses(instruction):
            for start, stop in region.spans():
                if writes:
                    written.add(start, stop)
                elif not written.covers(start, stop) and id(instruction) not in reported:
                    reported.add(id(instruction))
                    low, high = next(row for row in region.each_row() if not written.covers(*row))
                    yield Finding(
                        "unwritten", f"UB bytes {low}..{high} are read but never written", instruction
                    )


def _bounds(blocks: Blocks, launch: Launch) -> Iterable[Finding]:
    """Useful accesses outside the tensors, and stores into inputs. The last block reaches furthest."""
    lengths = {tensor.name: tensor.length for tensor in launch.tensors}
    outputs = {tensor.name for tensor in launch.tensors if tensor.written}
    start = blocks.last_start
    for instruction, trip in blocks.program.walk(TRIPS):
        if isinstance(instruction.dst, Window) and instruction.dst.tensor not in outputs:
            yield Finding(
                "bounds", f"{instruction.dst.tensor} is an input and may not be stored", instruction
            )
        for operand in instruction.operands():
            if not isinstance(operand, Window):
                continue
            run = operand.at(trip)
            if run.offset < 0 or start + run.offset + run.count > lengths[run.tensor]:
                yield Finding(
                    "bounds",
                    f"{run.tensor}[{start + run.offset}:{start + run.offset + run.count}] is outside its "
                    f"{lengths[run.tensor]} elements",
                    instruction,
                )


def coverage(launch: Launch) -> Iterable[Finding]:
    """Every output element belongs to exactly one block, and is stored in it.

    A block may store an element again with the same value (the inference series does), so stores of
    one block are joined; stores of two blocks must not meet.
    """
    for blocks in launch.blocks:
        yield from _stores(blocks, launch)
    yield from joins(places_of(launch), launch.tensors)


def _stores(blocks: Blocks, launch: Launch) -> Iterable[Finding]:
    """A block stores all its elements."""
    for tensor in (t for t in launch.tensors if t.written):
        stored = _Spans()
        for item in blocks.program.items:
            body = (item,) if isinstance(item, Instruction) else item.body
            trips = 1 if isinstance(item, Instruction) else item.trips
            loop = _Spans()
            steps: list[int] = []
            for instruction in body:
                window = instruction.dst
                if isinstance(window, Window) and window.tensor == tensor.name:
                    loop.add(window.offset, window.offset + window.count)
                    steps.append(window.stride)
            if any(step != steps[0] for step in steps):
                yield Finding(
                    "coverage", f"the stores of a loop into {tensor.name} move by different strides"
                )
            step = max(steps, default=0)
            for low, high in loop._spans:
                if trips > 1 and high - low < step:
                    yield Finding("coverage", f"the loop leaves gaps in {tensor.name}")
                stored.add(low, high + (trips - 1) * step)
        length = blocks.program.length
        if stored._spans != [(0, length)] and length:
            yield Finding(
                "coverage", f"a block stores {stored._spans} of {tensor.name}, not its elements 0..{length}"
            )


Place = tuple[int, int, int, int]
"""Where equal blocks are: the first one's start, from one to the next, how many, elements of each."""


def places_of(launch: Launch) -> list[Place]:
    """Where the blocks of a launch are."""
    return [(b.first_start, b.step, b.count, b.program.length) for b in launch.blocks]


def joins(places: Iterable[Place], tensors: Iterable[TensorArg]) -> Iterable[Finding]:
    """Whether the blocks follow each other without a gap, from one end of the output to the other."""
    for tensor in (t for t in tensors if t.written):
        edge = 0
        for start, step, count, length in places:
            if start != edge or (count > 1 and step != length):
                yield Finding("coverage", f"blocks do not join in {tensor.name} at element {edge}")
            edge = start + (count - 1) * step + length
        if edge != tensor.length:
            yield Finding("coverage", f"{tensor.name} has {tensor.length} elements, blocks end at {edge}")

"""A result as text: what ran, how long, which pipe waited for what, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from emulator.device.timeline import REASON_TEXT, PipeRow, Reason
from emulator.report.console import Whole
from emulator.result import Result
from emulator.wording import counted
from kernel.tiling import Tiling
from socs.isa import Pipe

_WAITS = (Reason.LAUNCH, Reason.ISSUE, Reason.FLAG, Reason.MEMORY, Reason.QUEUE)


def result_report(result: Result) -> Group:
    """Everything about a result, for a terminal of 80 columns."""
    parts: list[RenderableType] = [_head(result)]
    if result.pipes:
        parts += [Text(), Whole(pipe_table(result)), Text(), *_reasons(result)]
    parts += [Text(), *_trust(result)]
    return Group(*parts)


def _head(result: Result) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for key, value in _facts(result):
        table.add_row(key, value)
    return table


def _facts(result: Result) -> Iterable[tuple[str, RenderableType]]:
    reduction = f", reduction {result.reduction}" if result.reduction else ""
    yield "operator", f"{result.operator}{reduction}"
    yield "tensors", f"{_shapes(result)} {result.dtype}"
    soc = result.soc
    name = escape(soc.name)  # a user's file may put anything there
    yield "chip", f"{name}: {soc.vector_cores} vector cores, {soc.clock_hz / 1e6:,.0f} MHz"
    if result.stand_in_for:
        yield (
            "kernel",
            f"{result.kernel}, [yellow]standing in for {escape(result.stand_in_for)}[/yellow], "
            f"which {name} runs here",
        )
    else:
        yield "kernel", result.kernel
    if result.backend == "npu":
        yield from _measured(result)
        return
    if result.tiling is None:
        yield "launch", "none: a tensor is empty"
        return
    yield "tiling", _tiling(result.tiling, result)
    if result.bounds is None:
        return
    yield (
        "latency",
        f"[bold]{result.cycles:,} cycles = {_us(result.time_us)}[/bold], L2 {result.l2}{_without(result)}",
    )
    yield "silicon", result.accuracy.band
    yield (
        "bound",
        f"{result.bound_cycles:,} cycles = {_us(result.us(result.bound_cycles))} "
        f"({result.bounds.limiter} alone); one after another {result.serial_cycles:,} cycles",
    )
    shares = sorted(result.bounds.limits.items(), key=lambda item: -item[1])
    yield (
        "alone",
        ", ".join(f"{name} {100 * cycles / result.cycles:.0f} %" for name, cycles in shares)
        + " of the latency, if that were the only limit",
    )


def _measured(result: Result) -> Iterable[tuple[str, RenderableType]]:
    times = result.measured
    if times is None:
        yield "measured", "nothing: a tensor is empty"
        return
    low, high = times.quartiles_us
    yield (
        "measured",
        f"[bold]{_us(times.median_us)}[/bold] (median), L2 {times.l2}; half of {times.repeats:,} launches "
        f"took {low:,.2f} to {_us(high)}, all {min(times.times_us):,.2f} to {_us(max(times.times_us))}",
    )
    yield "events", f"{_us(times.empty_us)} of that pass with nothing between the two events (median)"


def _shapes(result: Result) -> str:
    """One shape if all are equal, else each with its name."""

    def text(name: str) -> str:
        return f"\\[{', '.join(map(str, result.shapes[name]))}]"

    names = [name for name in result.shapes if name != "out"]
    if len({result.shapes[name] for name in result.shapes}) == 1:
        return text("out")
    return ", ".join(f"{name} {text(name)}" for name in names) + f" to {text('out')}"


def _tiling(tiling: Tiling, result: Result) -> str:
    last = ""
    if tiling.last_block_length != tiling.block_length:
        last = f", the last one {tiling.last_block_length:,}"
    by = ", chosen by the user" if tiling.chosen_by == "user" else ""
    return (
        f"block_dim {result.block_dim}: blocks of {tiling.block_length:,}{last} elements; "
        f"{counted(tiling.tiles_per_block, 'tile')} of {tiling.tile_length:,}, "
        f"buffer_num {tiling.buffer_num}{by}"
    )


def _without(result: Result) -> str:
    return f", without {', '.join(result.without)}" if result.without else ""


def _us(value: float) -> str:
    return f"{value:,.2f} µs"


def pipe_table(result: Result) -> Table:
    """Cycles by pipe: busy, then waiting by reason; ``-`` for none."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("cores", no_wrap=True)
    table.add_column("pipe", no_wrap=True)
    for head in ("busy", "%", *map(str, _WAITS), "done"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in result.pipes:
        first = row.pipe is Pipe.S
        span = f"{row.first_block}" + (f"..{row.first_block + row.blocks - 1}" if row.blocks > 1 else "")
        table.add_row(
            span if first else "",
            str(row.pipe),
            _count(row.busy_cycles),
            f"{100 * row.busy_cycles / result.cycles:.0f}",
            *(_count(_waited(row, reason)) for reason in _WAITS),
            _count(row.done_cycles),
        )
    return table


def _waited(row: PipeRow, reason: Reason) -> int:
    return sum(c for name, c in row.waiting_cycles.items() if name.partition(":")[0] == reason)


def _count(value: int) -> str:
    return f"{value:,}" if value else "-"


def _reasons(result: Result) -> Iterable[RenderableType]:
    """The largest waits of the group with most cores, in words."""
    widest = max(row.blocks for row in result.pipes)
    group = next(row.first_block for row in result.pipes if row.blocks == widest)
    waits = [
        (cycles, row.pipe, name)
        for row in result.pipes
        if row.first_block == group
        for name, cycles in row.waiting_cycles.items()
        # The scalar unit runs ahead: that it waits for a full queue explains nothing.
        if row.pipe is not Pipe.S and not name.startswith(str(Reason.LAUNCH))
    ]
    yield Text("longest waits", style="bold")
    for cycles, pipe, name in sorted(waits, key=lambda wait: (-wait[0], wait[1], wait[2]))[:4]:
        reason, _, flag = name.partition(":")
        what = f"flag {flag} ({_flag_text(flag)})" if flag else REASON_TEXT[Reason(reason)]
        share = 100 * cycles / result.cycles
        what = what.removeprefix("waiting for ").removeprefix("waiting ")
        yield Padding(f"{pipe} waits {cycles:,} cycles ({share:.0f} %) for {what}", (0, 0, 0, 2))


def _flag_text(flag: str) -> str:
    source, _, rest = flag.partition("->")
    target = rest.partition("#")[0]
    if (source, target) in (("MTE2", "V"), ("V", "MTE3")):
        return f"{source} has not finished the tile"
    return f"{source} has not freed the buffer"


def _trust(result: Result) -> Iterable[RenderableType]:
    for warning in result.warnings:
        yield Text(f"warning: {warning}", style="yellow")
    if result.bounds is not None:
        if result.assumed:
            keys = ", ".join(entry.key for entry in result.assumed)
            count = counted(len(result.assumed), "number")
            yield Text(f"assumed: {count} that nobody has published: {keys}", style="yellow")
        else:
            yield Text("assumed: nothing; every number used has a source")
        style = "" if result.accuracy.validated else "yellow"
        yield Text(f"accuracy: {result.accuracy.text}", style=style)

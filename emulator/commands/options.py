"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator import defaults

DEFAULT_SOC = str(defaults.DEFAULT_SOC)

SocOption = Annotated[
    str, typer.Option("--soc", help="CANN name, product, or a TOML file that extends a chip.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Replace one number of the chip; may be repeated."),
]
ReductionOption = Annotated[str, typer.Option("--reduction", help="none, mean or sum.")]
L2Option = Annotated[str, typer.Option("--l2", help="cold, hot or dirty: what L2 holds at the start.")]
KernelOption = Annotated[str | None, typer.Option("--kernel", help="Another kernel than the chip's own.")]
# Text, so that what is no number is refused in our words and with its value.
ReleaseOption = Annotated[
    str, typer.Option("--release", help="newer or older operator library; they differ on the 950.")
]
TileOption = Annotated[str | None, typer.Option("--tile-length", metavar="N", help="Elements of a tile.")]
BufferOption = Annotated[str | None, typer.Option("--buffer-num", metavar="N", help="Buffers of a queue.")]
BlockOption = Annotated[str | None, typer.Option("--block-dim", metavar="N", help="Blocks, one per core.")]
EngineOption = Annotated[str | None, typer.Option("--engine", help="simpy, or fast: compiled, equal cycles.")]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option("--without", metavar="MECHANISM", help="Switch a mechanism of the timing model off."),
]
OpOption = Annotated[
    str, typer.Option("--op", help="Operator: mse_loss_backward, copy, cast, add, sub, mul, div, relu, ...")
]
InputsOption = Annotated[
    str | None, typer.Option("--inputs", metavar="N", help="How many tensors add_n adds: x0, x1, ...")
]
ScalarOption = Annotated[
    str | None, typer.Option("--scalar", metavar="NUMBER", help="The number that fill and muls take.")
]
ToOption = Annotated[str | None, typer.Option("--to", metavar="DTYPE", help="What cast makes of its input.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
TraceOption = Annotated[
    Path | None, typer.Option("--trace", metavar="FILE", help="Chrome trace (Perfetto, MindStudio Insight).")
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="FILE", help="The report as .txt, .html or .svg.")
]

CsvArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="[CSV]",
        help="A table of measurements, op_summary*.csv or kernel_details.csv. Default: the shipped rows.",
    ),
]
RowsSocOption = Annotated[
    str | None, typer.Option("--soc", help="The chip of a raw profile; of a table, the only one to take.")
]
RowsL2Option = Annotated[
    str,
    typer.Option("--l2", help="Of rows that do not say: hot, cold, or band (both, and what lies between)."),
]
ExcludeOption = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="ID", help="Leave out a row, and say so; may be repeated."),
]

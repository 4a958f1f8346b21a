"""``atlas-emu compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emulator.commands import outputs, standard_streams, values
from emulator.commands.options import (
    JsonOption,
    SetOption,
)


def compare(
    backends: Annotated[
        str, typer.Option("--backends", metavar="A,B", help="Two or more; bits are held against the first's.")
    ] = "emulated,npu",
    shape: Annotated[
        list[str] | None, typer.Option("--shape", help="Dimensions, as 1024,65536; may be repeated.")
    ] = None,
    dtype: Annotated[
        list[str] | None, typer.Option("--dtype", help="May be repeated. Default: float32.")
    ] = None,
    reduction: Annotated[
        list[str] | None, typer.Option("--reduction", help="May be repeated. Default: mean.")
    ] = None,
    grad_shape: Annotated[str | None, typer.Option("--grad-shape", help="If not self's.")] = None,
    target_shape: Annotated[str | None, typer.Option("--target-shape", help="If not self's.")] = None,
    cases: Annotated[
        Path | None, typer.Option("--cases", metavar="FILE", help="CSV: shape, and dtype, reduction, ...")
    ] = None,
    soc: Annotated[
        str | None, typer.Option("--soc", help="The card's chip as a file of yours. Default: the card's.")
    ] = None,
    l2: Annotated[str, typer.Option("--l2", help="hot or dirty: what L2 holds before each launch.")] = "hot",
    data: Annotated[
        str, typer.Option("--data", help="normal, wild or bits: what the tensors hold.")
    ] = "normal",
    seed: Annotated[str, typer.Option("--seed", metavar="N", help="Of the tensors.")] = "0",
    warm_up: Annotated[
        str | None, typer.Option("--warm-up", metavar="N", help="Launches before those that are timed: 3.")
    ] = None,
    repeats: Annotated[
        str | None, typer.Option("--repeats", metavar="N", help="Launches that are timed: 20.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--csv", metavar="FILE", help="Measured times, for validate and calibrate."),
    ] = None,
    as_json: JsonOption = False,
    overrides: SetOption = None,
) -> None:
    """The same calls on two backends: bits and latency side by side. Status 1 where bits differ."""
    from emulator import files
    from emulator.comparison import cases as listed
    from emulator.comparison import compare as comparison
    from emulator.comparison.table import measurements
    from emulator.report.comparison import comparison_json, comparison_report
    from emulator.report.progress import Steps
    from socs.errors import AtlasError

    outputs.check(None, output, None, (cases,))
    if (cases is None) == (not shape):
        raise AtlasError("compare takes --shape, once or several times, or --cases FILE")
    if cases is not None and (grad_shape is not None or target_shape is not None):
        raise AtlasError("--cases: the file has columns grad_shape and target_shape, no option is taken")
    kinds, reductions = dtype or ["float32"], reduction or ["mean"]
    if cases is not None:
        wanted = listed.read(cases, kinds, reductions)
    else:
        wanted = listed.made(
            [values.dims(text, "--shape") for text in shape or ()],
            kinds,
            reductions,
            None if grad_shape is None else values.dims(grad_shape, "--grad-shape"),
            None if target_shape is None else values.dims(target_shape, "--target-shape"),
        )
    on = comparison.chosen(
        [name.strip() for name in backends.split(",")],
        values.integer(warm_up, "--warm-up"),
        values.integer(repeats, "--repeats"),
    )
    chip = comparison.chip(on, None if soc is None and not overrides else values.chip(soc, overrides))
    with Steps(1) as progress:
        progress.step("comparing")
        found = list(
            comparison.compare(
                *(wanted, on, chip),
                l2=l2,
                data=data,
                seed=values.integer(seed, "--seed") or 0,
                progress=lambda done, count: progress.tell(f"comparing {done:,} of {count:,} cases"),
            )
        )
    if output is not None:
        files.write_text_atomic(output, measurements(found))
    if as_json:
        standard_streams.write_json(comparison_json(found, chip, l2, None if output is None else str(output)))
    else:
        standard_streams.render(comparison_report(found, chip))
        if output is not None:
            standard_streams.write(f"measurements: {output}\n")
    if not all(one.equal for one in found):
        raise SystemExit(1)

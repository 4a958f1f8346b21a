"""``atlas-emu predict``."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands import outputs, values
from emulator.commands.options import (
    DEFAULT_SOC,
    BlockOption,
    BufferOption,
    EngineOption,
    InputsOption,
    JsonOption,
    KernelOption,
    L2Option,
    OpOption,
    ReductionOption,
    ReleaseOption,
    ReportOption,
    ScalarOption,
    SetOption,
    SocOption,
    TileOption,
    ToOption,
    TraceOption,
    WithoutOption,
)


def predict(
    shape: Annotated[
        str,
        typer.Option("--shape", help="Dimensions of the first input, as 1024,65536; () for a scalar."),
    ],
    op: OpOption = "mse_loss_backward",
    soc: SocOption = DEFAULT_SOC,
    dtype: Annotated[str, typer.Option("--dtype", help="float32, float16 or bfloat16.")] = "float32",
    reduction: ReductionOption = "mean",
    grad_shape: Annotated[str | None, typer.Option("--grad-shape", help="If not self's.")] = None,
    target_shape: Annotated[str | None, typer.Option("--target-shape", help="If not self's.")] = None,
    input_shape: Annotated[
        list[str] | None,
        typer.Option("--input-shape", metavar="NAME=DIMS", help="Another input's shape; may be repeated."),
    ] = None,
    input_dtype: Annotated[
        list[str] | None,
        typer.Option("--input-dtype", metavar="NAME=DTYPE", help="Another input's dtype; may be repeated."),
    ] = None,
    inputs: InputsOption = None,
    scalar: ScalarOption = None,
    to: ToOption = None,
    l2: L2Option = "cold",
    kernel: KernelOption = None,
    release: ReleaseOption = "newer",
    tile_length: TileOption = None,
    buffer_num: BufferOption = None,
    block_dim: BlockOption = None,
    engine: EngineOption = None,
    without: WithoutOption = None,
    trace: TraceOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
    overrides: SetOption = None,
) -> None:
    """The latency of a call, without data: by the kernel's own tiling or yours."""
    from emulator import api
    from emulator.report.progress import Steps

    outputs.check(None, trace, report, ())
    outputs.check_trace(trace, engine)
    with Steps(2) as progress:
        progress.step("timing")
        result = api.predict(
            op,
            soc=api.soc(soc, values.pairs(overrides)),
            shape=values.dims(shape, "--shape"),
            dtype=dtype,
            reduction=reduction,
            grad_shape=None if grad_shape is None else values.dims(grad_shape, "--grad-shape"),
            target_shape=None if target_shape is None else values.dims(target_shape, "--target-shape"),
            input_shapes={
                name: values.dims(dims, f"--input-shape {name}")
                for name, dims in values.named(input_shape, "--input-shape", "NAME=DIMS").items()
            },
            input_dtypes=values.named(input_dtype, "--input-dtype", "NAME=DTYPE"),
            inputs=values.integer(inputs, "--inputs"),
            scalar=values.number(scalar, "--scalar"),
            to=to,
            l2=l2,
            kernel=kernel,
            release=release,
            tiling=values.tiling(tile_length, buffer_num, block_dim),
            engine=engine,
            without=without or (),
        )
        progress.step("writing")
        written = outputs.save(result, None, trace, report)
    outputs.show(result, as_json, written)

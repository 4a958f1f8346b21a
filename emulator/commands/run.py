"""``atlas-emu run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from emulator.commands import outputs, standard_streams, values
from emulator.commands.options import (
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
    TileOption,
    ToOption,
    TraceOption,
    WithoutOption,
)


def run(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="Arrays by name (grad_output, self, target; x, y; ...): .npz or .safetensors. "
            "Default: the example of mse_loss_backward."
        ),
    ] = None,
    op: OpOption = "mse_loss_backward",
    grad: Annotated[Path | None, typer.Option("--grad", help="grad_output as .npy.")] = None,
    self_: Annotated[Path | None, typer.Option("--self", help="self (the prediction) as .npy.")] = None,
    target: Annotated[Path | None, typer.Option("--target", help="target as .npy.")] = None,
    named: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="NAME=FILE", help="One array as .npy; may be repeated."),
    ] = None,
    inputs: InputsOption = None,
    scalar: ScalarOption = None,
    to: ToOption = None,
    soc: Annotated[
        str | None,
        typer.Option("--soc", help="As for predict. Default: Ascend910B3; with --backend npu the card's."),
    ] = None,
    reduction: ReductionOption = "mean",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="The result: .npy, .npz, .safetensors.")
    ] = None,
    trace: TraceOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
    l2: L2Option = "cold",
    kernel: KernelOption = None,
    release: ReleaseOption = "newer",
    tile_length: TileOption = None,
    buffer_num: BufferOption = None,
    block_dim: BlockOption = None,
    overflow: Annotated[
        str | None, typer.Option("--overflow", help="inf_nan or saturation, where the chip has both.")
    ] = None,
    bits: Annotated[
        str, typer.Option("--bits", help="compiled, or interpreted instruction by instruction.")
    ] = "compiled",
    backend: Annotated[
        str | None, typer.Option("--backend", help="emulated, npu, or an installed one (ATLAS_EMU_BACKEND).")
    ] = None,
    engine: EngineOption = None,
    without: WithoutOption = None,
    overrides: SetOption = None,
) -> None:
    """Tensors in; the result that the chip writes, its latency and the reason for it out."""
    from emulator import api, files
    from emulator.report.progress import Steps
    from kernel import operators

    operator = operators.find(op)
    names = api.input_names(operator, values.integer(inputs, "--inputs"))
    single = {n: p for n, p in (("grad_output", grad), ("self", self_), ("target", target)) if p is not None}
    single |= {name: Path(path) for name, path in values.named(named, "--input", "NAME=FILE").items()}
    outputs.check(output, trace, report, (file, *single.values()))
    outputs.check_trace(trace, engine)
    if file is None and not single and operator.reduces:
        file = files.example_path()
        standard_streams.say(
            f"no file given: the example, {file.name} (linear regression on the diabetes data, 442 patients)"
        )
    with Steps(3) as progress:
        progress.step("reading")
        tensors: dict[str, Any] = {}
        tensors |= files.load_arrays(names, file, single)
        progress.step("computing and timing")
        result = api.run(
            op,
            soc=api.DEFAULT_SOC if soc is None and not overrides else values.chip(soc, overrides),
            backend=backend,
            kernel=kernel,
            release=release,
            tiling=values.tiling(tile_length, buffer_num, block_dim),
            l2=l2,
            engine=engine,
            without=without or (),
            reduction=reduction,
            overflow=overflow,
            bits=bits,
            scalar=values.number(scalar, "--scalar"),
            to=to,
            **tensors,
        )
        progress.step("writing")
        written = outputs.save(result, output, trace, report)
    outputs.show(result, as_json, written)

"""The command line ``atlas-emu``. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType

    from emulator.result import Result

app = typer.Typer(
    name="atlas-emu",
    help="What a Huawei Atlas (Ascend) NPU would compute, how long it would take, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DEFAULT_SOC = "Ascend910B3"
INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""

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


def _version(value: bool) -> None:
    if value:
        from emulator import __version__

        typer.echo(f"atlas-emulator {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="The version, and nothing else."),
    ] = False,
) -> None:
    """What a Huawei Atlas (Ascend) NPU would compute, how long it would take, and why."""


@app.command()
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
    names = api.input_names(operator, _integer(inputs, "--inputs"))
    single = {n: p for n, p in (("grad_output", grad), ("self", self_), ("target", target)) if p is not None}
    single |= {name: Path(path) for name, path in _named(named, "--input", "FILE").items()}
    _check_outputs(output, trace, report, (file, *single.values()))
    _check_trace(trace, engine)
    if file is None and not single and operator.reduces:
        file = files.example_path()
        _say(
            f"no file given: the example, {file.name} (linear regression on the diabetes data, 442 patients)"
        )
    with Steps(3) as progress:
        progress.step("reading")
        tensors: dict[str, Any] = {}
        tensors |= files.load_arrays(names, file, single)
        progress.step("computing and timing")
        result = api.run(
            op,
            soc=api.DEFAULT_SOC if soc is None and not overrides else _chip(soc, overrides),
            backend=backend,
            kernel=kernel,
            release=release,
            tiling=_tiling(tile_length, buffer_num, block_dim),
            l2=l2,
            engine=engine,
            without=without or (),
            reduction=reduction,
            overflow=overflow,
            bits=bits,
            scalar=_number(scalar, "--scalar"),
            to=to,
            **tensors,
        )
        progress.step("writing")
        written = _write(result, output, trace, report)
    _show(result, as_json, written)


@app.command()
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

    _check_outputs(None, trace, report, ())
    _check_trace(trace, engine)
    with Steps(2) as progress:
        progress.step("timing")
        result = api.predict(
            op,
            soc=api.soc(soc, _pairs(overrides)),
            shape=_shape(shape, "--shape"),
            dtype=dtype,
            reduction=reduction,
            grad_shape=None if grad_shape is None else _shape(grad_shape, "--grad-shape"),
            target_shape=None if target_shape is None else _shape(target_shape, "--target-shape"),
            input_shapes={
                name: _shape(dims, f"--input-shape {name}")
                for name, dims in _named(input_shape, "--input-shape", "DIMS").items()
            },
            input_dtypes=_named(input_dtype, "--input-dtype", "DTYPE"),
            inputs=_integer(inputs, "--inputs"),
            scalar=_number(scalar, "--scalar"),
            to=to,
            l2=l2,
            kernel=kernel,
            release=release,
            tiling=_tiling(tile_length, buffer_num, block_dim),
            engine=engine,
            without=without or (),
        )
        progress.step("writing")
        written = _write(result, None, trace, report)
    _show(result, as_json, written)


@app.command()
def socs(as_json: JsonOption = False) -> None:
    """All chips."""
    from emulator.report.soc import catalogue_json, catalogue_table
    from socs import all_socs

    chips = all_socs()
    if as_json:
        _json(catalogue_json(chips))
    else:
        _print(catalogue_table(chips))


@app.command()
def soc(
    name: Annotated[str, typer.Argument(help="CANN name, product, or TOML file.")],
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Every number of one chip, with its source."""
    from emulator.report.soc import soc_json, soc_table
    from socs import load

    chip = load(name, _pairs(overrides))
    if as_json:
        _json(soc_json(chip))
    else:
        _print(soc_table(chip))


@app.command()
def validate(
    csv: CsvArgument = None,
    soc: RowsSocOption = None,
    l2: RowsL2Option = "band",
    engine: EngineOption = None,
    exclude: ExcludeOption = None,
    report: ReportOption = None,
    write_bands: Annotated[
        Path | None,
        typer.Option("--write-bands", metavar="FILE", help="The bands beside results, as JSON by chip."),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Also without each mechanism of the timing model.")
    ] = False,
    as_json: JsonOption = False,
    overrides: SetOption = None,
) -> None:
    """Predictions beside measurements: how far off, by chip, operator and size."""
    from emulator import files
    from emulator.report.progress import Steps
    from emulator.report.save import save_report
    from emulator.report.validation import ablation_report, validation_report
    from emulator.validation import bands, compare, document, shipped, summaries
    from emulator.validation.ablation import ablation
    from emulator.validation.calibrate import fitted_ids

    _check_outputs(None, write_bands, report, (csv,))
    source, name = (csv, str(csv)) if csv is not None else (shipped.MEASUREMENTS, shipped.NAME)
    with Steps(3 if ablate else 2) as progress:
        progress.step("reading")
        found = compare.measure(
            source, soc=_rows_soc(soc, overrides), l2=compare.stated(l2), exclude=exclude or ()
        )
        progress.step("timing")
        compared = compare.compare(
            found,
            engine=engine,
            progress=lambda done, count: progress.tell(f"timing {done:,} of {count:,} calls"),
        )
        compare.check_usable(found, len(compared.ids), source)
        ablated = []
        if ablate:
            progress.step("timing without")
            ablated = ablation(
                found,
                engine=engine,
                progress=lambda done, count: progress.tell(
                    f"timing without {done:,} of {count:,} mechanisms"
                ),
            )
    figures = summaries.summaries(compared)
    text: RenderableType = validation_report(compared, figures, name)
    if ablated:
        from rich.console import Group

        text = Group(text, *ablation_report(ablated))
    if report is not None:
        save_report(report, text)
    if write_bands is not None:
        fitted = fitted_ids(compared, shipped.CALIBRATION) if csv is None else ()
        files.write_text_atomic(write_bands, bands.bands_text(bands.bands(compared, fitted)))
    if as_json:
        for part in document.document(compared, figures, name, ablated):
            _out(part)
        return
    _print(text)
    for what, path in (("report", report), ("bands", write_bands)):
        if path is not None:
            _out(f"{what}: {path}\n")


@app.command()
def calibrate(
    csv: CsvArgument = None,
    soc: Annotated[str, typer.Option("--soc", help="The chip whose rows are taken: name or TOML file.")] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="The fitted chip, as .toml.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option("--exclude", metavar="ID", help="Report a row, but do not fit it; may be repeated."),
    ] = None,
    free: Annotated[
        list[str] | None,
        typer.Option("--free", metavar="KEY", help="Fit only this number; may be repeated."),
    ] = None,
    kernel: Annotated[
        list[str] | None,
        typer.Option("--kernel", metavar="KIND", help="Kernels to fit: vendor (default), triton, ..."),
    ] = None,
    l2: RowsL2Option = "band",
    engine: EngineOption = None,
    report: ReportOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fit the free numbers of a chip to measured rows, and say what it was worth."""
    from emulator import api, files
    from emulator.report.calibration import calibration_json, calibration_report
    from emulator.report.progress import Steps
    from emulator.report.save import save_report
    from emulator.validation import calibrate as calibration
    from emulator.validation import compare, shipped
    from socs.errors import AtlasError

    if not soc:
        raise AtlasError("calibrate needs --soc, the chip whose numbers are fitted")
    if output is not None:
        files.check_writable(output, (".toml",))
    _check_outputs(None, output, report, (csv, Path(soc) if soc.lower().endswith(".toml") else None))
    chip = api.soc(soc)
    source, name = (csv, str(csv)) if csv is not None else (shipped.MEASUREMENTS, shipped.NAME)
    recipe = calibration.recipes(shipped.CALIBRATION).get(chip.name, {}) if csv is None else {}
    with Steps(2) as progress:
        progress.step("reading")
        found = compare.measure(source, soc=chip, l2=compare.stated(l2))
        compare.check_usable(found, len(found.ids), source)
        progress.step("fitting")
        fitted = calibration.calibrate(
            found,
            chip,
            kernels=kernel or recipe.get("kernels", ("vendor",)),
            exclude=exclude if exclude is not None else recipe.get("exclude", ()),
            keys=free or recipe.get("free", ()),
            engine=engine,
            tell=progress.tell,
        )
    if output is not None:
        extends = os.path.relpath(soc, output.parent) if soc.lower().endswith(".toml") else chip.name
        files.write_text_atomic(output, calibration.calibrated_text(fitted, extends, source.name))
    text = calibration_report(fitted, name)
    if report is not None:
        save_report(report, text)
    if as_json:
        _json(calibration_json(fitted, name, None if output is None else str(output)))
        return
    _print(text)
    for what, path in (("chip", output), ("report", report)):
        if path is not None:
            _out(f"{what}: {path}\n")


@app.command("backends")
def backends_(as_json: JsonOption = False) -> None:
    """The backends: which can run here, on which card, and why others cannot."""
    from emulator.backends.npu.detect import detect
    from emulator.report.backends import backends_json, backends_table

    detection = detect()
    if as_json:
        _json(backends_json(detection))
    else:
        _print(backends_table(detection))


@app.command()
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

    _check_outputs(None, output, None, (cases,))
    if (cases is None) == (not shape):
        raise AtlasError("compare takes --shape, once or several times, or --cases FILE")
    if cases is not None and (grad_shape is not None or target_shape is not None):
        raise AtlasError("--cases: the file has columns grad_shape and target_shape, no option is taken")
    kinds, reductions = dtype or ["float32"], reduction or ["mean"]
    if cases is not None:
        wanted = listed.read(cases, kinds, reductions)
    else:
        wanted = listed.made(
            [_shape(text, "--shape") for text in shape or ()],
            kinds,
            reductions,
            None if grad_shape is None else _shape(grad_shape, "--grad-shape"),
            None if target_shape is None else _shape(target_shape, "--target-shape"),
        )
    on = comparison.chosen(
        [name.strip() for name in backends.split(",")],
        _integer(warm_up, "--warm-up"),
        _integer(repeats, "--repeats"),
    )
    chip = comparison.chip(on, None if soc is None and not overrides else _chip(soc, overrides))
    with Steps(1) as progress:
        progress.step("comparing")
        found = list(
            comparison.compare(
                *(wanted, on, chip),
                l2=l2,
                data=data,
                seed=_integer(seed, "--seed") or 0,
                progress=lambda done, count: progress.tell(f"comparing {done:,} of {count:,} cases"),
            )
        )
    if output is not None:
        files.write_text_atomic(output, measurements(found))
    if as_json:
        _json(comparison_json(found, chip, l2, None if output is None else str(output)))
    else:
        _print(comparison_report(found, chip))
        if output is not None:
            _out(f"measurements: {output}\n")
    if not all(one.equal for one in found):
        raise SystemExit(1)


@app.command("cann-root")
def cann_root(
    directory: Annotated[Path, typer.Argument(help="Where to: a new or empty folder, or a root of before.")],
    soc: SocOption = DEFAULT_SOC,
    compiler: Annotated[
        str | None,
        typer.Option("--cc", metavar="COMMAND", help="The C compiler. Default: CC, gcc, clang, zig."),
    ] = None,
    faults: Annotated[
        bool, typer.Option("--faults", help="For tests: ATLAS_EMU_FAULT makes functions fail.")
    ] = False,
    as_json: JsonOption = False,
    overrides: SetOption = None,
) -> None:
    """Headers and libraries for C, C++ and PyTorch clients of the emulated NPU."""
    from emulator import api
    from emulator.cann.root import lay_out
    from emulator.report.progress import Steps

    with Steps(4) as progress:
        root = lay_out(
            *(directory, api.soc(soc, _pairs(overrides))),
            compiler=compiler,
            with_faults=faults,
            tell=progress.step,
        )
    if as_json:
        _json(root.to_json())
        return
    _out(
        f"{root.path}: {root.soc} by default, {root.chips} chips by ATLAS_EMU_SOC "
        f"({root.compiler}, {root.level})\nbefore compiling and running: source {root.path / 'set_env.sh'}\n"
    )


@app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def exec_(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND ...", help="The program and its arguments.")
    ],
    soc: SocOption = DEFAULT_SOC,
    root: Annotated[
        Path | None, typer.Option("--root", metavar="DIR", help="Of cann-root. Default: one in the cache.")
    ] = None,
    l2: L2Option = "cold",
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="All kernels as op_summary.csv.")
    ] = None,
    trace: TraceOption = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="The launch log: one JSON object per line.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No report on standard error.")] = False,
    overrides: SetOption = None,
) -> None:
    """Run a C, C++ or Python client on the emulated NPU; report its device time; exit with its status."""
    from emulator import api, files
    from emulator.cann import execute
    from emulator.cann.trace import trace as trace_of
    from emulator.report.progress import Steps
    from emulator.states import check_l2
    from socs.errors import AtlasError

    outputs = [path for path in (summary, trace, log) if path is not None]
    for path in outputs:
        files.check_writable(path)
    if len({path.resolve() for path in outputs}) < len(outputs):
        raise AtlasError(f"{' '.join(map(str, outputs))}: two outputs cannot go into one file")
    check_l2(l2)
    chip = api.soc(soc, _pairs(overrides))
    if root is None:
        with Steps(4) as progress:
            root = execute.default_root(chip, progress.step)
    elif not (root / "lib64/libascendcl.so").exists():
        raise AtlasError(f"--root {root}: has no lib64/libascendcl.so; atlas-emu cann-root {root} makes it")
    done = execute.execute(command, root, chip, l2=l2, log=log)
    if summary is not None:
        files.write_text_atomic(summary, execute.op_summary(done))
    if trace is not None:
        files.write_text_atomic(trace, trace_of(done, chip))
    if not quiet:
        with contextlib.suppress(OSError):
            typer.echo(execute.table(done, chip), err=True, nl=False)
    raise SystemExit(done.status)


def main() -> None:
    """Entry point: errors are one line on standard error, with exit status 2."""
    from socs.errors import AtlasError

    for stream in (sys.stdout, sys.stderr):
        # A locale without the letters of a name or of a unit is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        status = app(prog_name="atlas-emu", standalone_mode=False)
    except AtlasError as error:
        _fail("; ".join([str(error), *getattr(error, "__notes__", ())]))
    except typer.Abort:
        raise SystemExit(INTERRUPTED) from None
    except MemoryError:
        _fail("not enough memory for these tensors")
    except OSError as error:
        # Files have errors of their own, so that this is about a standard stream.
        _fail(f"standard output: {error.strerror or error}")
    except Exception as error:
        # Of Click's errors, which Typer brings along in some versions: only their shape is common.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # whose message is the help
            _end(error.format_message())
        _fail(error.format_message())
    else:
        raise SystemExit(status)


def _fail(message: str) -> NoReturn:
    _end(f"atlas-emu: error: {' '.join(message.split())}")


def _end(message: str) -> NoReturn:
    # Where even standard error takes nothing, the status still tells.
    with contextlib.suppress(OSError):
        typer.echo(message, err=True)
    raise SystemExit(2) from None


def _say(message: str) -> None:
    with contextlib.suppress(OSError):
        typer.echo(f"atlas-emu: {message}", err=True)


def _print(what: RenderableType) -> None:
    from emulator.report.console import terminal, trimmed

    # Captured, since Rich ends the process by itself when the reader has gone.
    console = terminal()
    with console.capture() as captured:
        console.print(what, crop=False)
    _out(trimmed(captured.get()))


def _out(text: str) -> None:
    # Not typer.echo, which would take away colours that FORCE_COLOR asked for.
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (``| head``), which is no failure.
        raise SystemExit(0) from None


def _json(document: dict[str, Any]) -> None:
    # ASCII alone: whole in every encoding of standard output, whatever a path or a source holds.
    _out(json.dumps(document, indent=2) + "\n")


def _pairs(texts: list[str] | None) -> Mapping[str, object] | None:
    from socs.errors import AtlasError

    pairs: dict[str, object] = {}
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise AtlasError(f"--set {text!r}: must be KEY=VALUE, as in memory.hbm_bytes_per_s=1.2e12")
        pairs[key.strip()] = value.strip()
    return pairs or None


def _chip(name: str | None, overrides: list[str] | None) -> Any:
    from emulator import api

    return api.soc(api.DEFAULT_SOC if name is None else name, _pairs(overrides))


def _rows_soc(name: str | None, overrides: list[str] | None) -> Any:
    from emulator import api
    from socs.errors import AtlasError

    if name is not None:
        return api.soc(name, _pairs(overrides))
    if overrides:
        raise AtlasError("--set changes a chip: name it with --soc")
    return None


def _shape(text: str, option: str) -> tuple[int, ...]:
    from socs.errors import AtlasError

    inner = text.strip()
    if inner[:1] + inner[-1:] in ("()", "[]"):
        inner = inner[1:-1].strip().removesuffix(",")
        if not inner:
            return ()
    try:
        return tuple(int(part) for part in inner.replace("x", ",").split(","))
    except ValueError:
        raise AtlasError(f"{option} {text!r}: must be integers separated by commas, as 1024,65536") from None


def _tiling(tile_length: str | None, buffer_num: str | None, block_dim: str | None) -> Any:
    from kernel.tiling import TilingOptions

    return TilingOptions(
        _integer(tile_length, "--tile-length"),
        _integer(buffer_num, "--buffer-num"),
        _integer(block_dim, "--block-dim"),
    )


def _integer(text: str | None, option: str) -> int | None:
    from socs.errors import AtlasError

    try:
        return None if text is None else int(text)
    except ValueError:
        raise AtlasError(f"{option} {text!r}: must be a whole number") from None


def _number(text: str | None, option: str) -> float | None:
    from socs.errors import AtlasError

    try:
        return None if text is None else float(text)
    except ValueError:
        raise AtlasError(f"{option} {text!r}: must be a number") from None


def _named(texts: list[str] | None, option: str, what: str) -> dict[str, str]:
    from socs.errors import AtlasError

    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise AtlasError(f"{option} {text!r}: must be NAME={what}")
        found[name.strip()] = value.strip()
    return found


def _check_outputs(
    output: Path | None, trace: Path | None, report: Path | None, inputs: tuple[Path | None, ...]
) -> None:
    from emulator import files
    from emulator.report.save import SUFFIXES
    from socs.errors import AtlasError

    if output is not None:
        files.check_writable(output, files.SUFFIXES)
    if trace is not None:
        files.check_writable(trace)
    if report is not None:
        files.check_writable(report, SUFFIXES)
    chosen = [path for path in (output, trace, report) if path is not None]
    resolved = [path.resolve() for path in chosen]
    for index, path in enumerate(resolved):
        if path in resolved[:index]:
            raise AtlasError(f"{chosen[index]}: two outputs cannot go into one file")
    for path in chosen:
        if any(read is not None and _same_file(path, read) for read in inputs):
            raise AtlasError(f"{path}: is an input, which an output may not replace")
        if _is_stdout(path):
            raise AtlasError(f"{path}: is standard output, which the result itself goes to")


def _check_trace(trace: Path | None, engine: str | None) -> None:
    from socs.errors import AtlasError

    if trace is not None and engine == "fast":
        raise AtlasError(
            f"--trace {trace}: needs --engine simpy, which keeps every span; fast keeps sums alone"
        )


def _same_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except (OSError, ValueError):
        return False


def _is_stdout(path: Path) -> bool:
    """Whether both are one file or pipe; a device such as ``/dev/null`` may well be both."""
    try:
        ours, given = os.fstat(sys.stdout.fileno()), path.stat()
    except (OSError, ValueError, AttributeError):
        return False
    return os.path.samestat(ours, given) and not stat.S_ISCHR(given.st_mode)


def _write(result: Result, output: Path | None, trace: Path | None, report: Path | None) -> list[str]:
    from emulator import files

    # What may be refused comes before the first file is written.
    text = None
    if trace is not None:
        from emulator.export.chrome import chrome_trace

        text = chrome_trace(result)
    written = []
    if output is not None:
        assert result.output is not None
        gradient = result.reduction is not None
        files.save_tensor(output, result.output, files.OUTPUT if gradient else "out")
        written.append(f"{'gradient' if gradient else 'result'}: {output}")
    if trace is not None and text is not None:
        files.write_text_atomic(trace, text)
        written.append(f"trace: {trace} (open it at ui.perfetto.dev or in MindStudio Insight)")
    if report is not None:
        from emulator.report.run import result_report
        from emulator.report.save import save_report

        save_report(report, result_report(result))
        written.append(f"report: {report}")
    return written


def _show(result: Result, as_json: bool, written: list[str]) -> None:
    if as_json:
        _json(result.to_json())
        return
    from emulator.report.run import result_report

    _print(result_report(result))
    _out("".join(f"{line}\n" for line in written))


if __name__ == "__main__":
    main()

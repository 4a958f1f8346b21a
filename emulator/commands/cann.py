"""``atlas-emu cann-root`` and ``atlas-emu exec``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands import standard_streams, values
from emulator.commands.options import (
    DEFAULT_SOC,
    JsonOption,
    L2Option,
    SetOption,
    SocOption,
    TraceOption,
)


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
            *(directory, api.soc(soc, values.pairs(overrides))),
            compiler=compiler,
            with_faults=faults,
            tell=progress.step,
        )
    if as_json:
        standard_streams.write_json(root.to_json())
        return
    standard_streams.write(
        f"{root.path}: {root.soc} by default, {root.chips} chips by ATLAS_EMU_SOC "
        f"({root.compiler}, {root.level})\nbefore compiling and running: source {root.path / 'set_env.sh'}\n"
    )


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
    chip = api.soc(soc, values.pairs(overrides))
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

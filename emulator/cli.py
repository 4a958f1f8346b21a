"""The command line ``atlas-emu``. Everything heavy is imported by the command that needs it."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from emulator.commands import standard_streams
from emulator.commands.backends import backends
from emulator.commands.calibrate import calibrate
from emulator.commands.cann import cann_root, exec_
from emulator.commands.catalogue import soc, socs
from emulator.commands.compare import compare
from emulator.commands.predict import predict
from emulator.commands.run import run
from emulator.commands.validate import validate

app = typer.Typer(
    name="atlas-emu",
    help="What a Huawei Atlas (Ascend) NPU would compute, how long it would take, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

INTERRUPTED = 130
"""What a shell reports for a process that Ctrl-C ended."""


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


for command in (run, predict, socs, soc, validate, calibrate, backends, compare):
    app.command()(command)
app.command("cann-root")(cann_root)
# What follows the program's name is the program's own.
app.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})(
    exec_
)


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
        standard_streams.fail("; ".join([str(error), *getattr(error, "__notes__", ())]))
    except typer.Abort:
        raise SystemExit(INTERRUPTED) from None
    except MemoryError:
        standard_streams.fail("not enough memory for these tensors")
    except OSError as error:
        # Files have errors of their own, so that this is about a standard stream.
        standard_streams.fail(f"standard output: {error.strerror or error}")
    except Exception as error:
        # Of Click's errors, which Typer brings along in some versions: only their shape is common.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # whose message is the help
            standard_streams.end(error.format_message())
        standard_streams.fail(error.format_message())
    else:
        raise SystemExit(status)


if __name__ == "__main__":
    main()

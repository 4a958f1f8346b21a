"""What commands write: results to standard output, all else to standard error."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType


def fail(message: str) -> NoReturn:
    """End with status 2 and one line on standard error."""
    end(f"atlas-emu: error: {' '.join(message.split())}")


def end(message: str) -> NoReturn:
    """End with status 2 and ``message`` as it stands on standard error."""
    # Where even standard error takes nothing, the status still tells.
    with contextlib.suppress(OSError):
        typer.echo(message, err=True)
    raise SystemExit(2) from None


def say(message: str) -> None:
    """A line on standard error, which is no part of the result."""
    with contextlib.suppress(OSError):
        typer.echo(f"atlas-emu: {message}", err=True)


def render(what: RenderableType) -> None:
    """Write a table or text of Rich's to standard output."""
    from emulator.report.console import terminal, trimmed

    # Captured, since Rich ends the process by itself when the reader has gone.
    console = terminal()
    with console.capture() as captured:
        console.print(what, crop=False)
    write(trimmed(captured.get()))


def write(text: str) -> None:
    """Write to standard output. Raises ``OSError`` where it is full, ``SystemExit(0)`` where nobody reads."""
    # Not typer.echo, which would take away colours that FORCE_COLOR asked for.
    if sys.stdout is None:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has seen enough (``| head``), which is no failure.
        raise SystemExit(0) from None


def write_json(document: dict[str, Any]) -> None:
    # ASCII alone: whole in every encoding of standard output, whatever a path or a source holds.
    write(json.dumps(document, indent=2) + "\n")

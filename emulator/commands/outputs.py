"""Files that commands write: refused before the work, written after it."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.commands import standard_streams

if TYPE_CHECKING:
    from emulator.result import Result


def check(
    output: Path | None, trace: Path | None, report: Path | None, inputs: tuple[Path | None, ...]
) -> None:
    """Raise ``AtlasError`` for a file that cannot be written, or stands for two things."""
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


def check_trace(trace: Path | None, engine: str | None) -> None:
    """Raise ``AtlasError`` where the engine keeps nothing to draw."""
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


def save(result: Result, output: Path | None, trace: Path | None, report: Path | None) -> list[str]:
    """Write what is asked for; gives a line on each file. Raises ``AtlasError``, then before the first."""
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


def show(result: Result, as_json: bool, written: list[str]) -> None:
    """The result on standard output, as JSON or as a report with a line on each file."""
    if as_json:
        standard_streams.write_json(result.to_json())
        return
    from emulator.report.run import result_report

    standard_streams.render(result_report(result))
    standard_streams.write("".join(f"{line}\n" for line in written))

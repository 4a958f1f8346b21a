"""``atlas-emu calibrate``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from emulator.commands import outputs, standard_streams
from emulator.commands.options import (
    CsvArgument,
    EngineOption,
    JsonOption,
    ReportOption,
    RowsL2Option,
)


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
    outputs.check(None, output, report, (csv, Path(soc) if soc.lower().endswith(".toml") else None))
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
        standard_streams.write_json(calibration_json(fitted, name, None if output is None else str(output)))
        return
    standard_streams.render(text)
    for what, path in (("chip", output), ("report", report)):
        if path is not None:
            standard_streams.write(f"{what}: {path}\n")

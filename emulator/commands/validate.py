"""``atlas-emu validate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.commands import outputs, standard_streams, values
from emulator.commands.options import (
    CsvArgument,
    EngineOption,
    ExcludeOption,
    JsonOption,
    ReportOption,
    RowsL2Option,
    RowsSocOption,
    SetOption,
)

if TYPE_CHECKING:
    from rich.console import RenderableType


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

    outputs.check(None, write_bands, report, (csv,))
    source, name = (csv, str(csv)) if csv is not None else (shipped.MEASUREMENTS, shipped.NAME)
    with Steps(3 if ablate else 2) as progress:
        progress.step("reading")
        found = compare.measure(
            source, soc=values.rows_chip(soc, overrides), l2=compare.stated(l2), exclude=exclude or ()
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
            standard_streams.write(part)
        return
    standard_streams.render(text)
    for what, path in (("report", report), ("bands", write_bands)):
        if path is not None:
            standard_streams.write(f"{what}: {path}\n")

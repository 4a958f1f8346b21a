"""``atlas-emu socs`` and ``atlas-emu soc``."""

from __future__ import annotations

from typing import Annotated

import typer

from emulator.commands import standard_streams, values
from emulator.commands.options import (
    JsonOption,
    SetOption,
)


def socs(as_json: JsonOption = False) -> None:
    """All chips."""
    from emulator.report.soc import catalogue_json, catalogue_table
    from socs import all_socs

    chips = all_socs()
    if as_json:
        standard_streams.write_json(catalogue_json(chips))
    else:
        standard_streams.render(catalogue_table(chips))


def soc(
    name: Annotated[str, typer.Argument(help="CANN name, product, or TOML file.")],
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Every number of one chip, with its source."""
    from emulator.report.soc import soc_json, soc_table
    from socs import load

    chip = load(name, values.pairs(overrides))
    if as_json:
        standard_streams.write_json(soc_json(chip))
    else:
        standard_streams.render(soc_table(chip))

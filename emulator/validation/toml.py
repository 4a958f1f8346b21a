"""A calibrated chip as a TOML file that extends the chip it was calibrated from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from emulator.validation.fit import Number
from socs.spec import Soc


def chip_text(
    soc: Soc,
    extends: str,
    numbers: Iterable[Number],
    *,
    ref: str,
    validation: Iterable[Mapping[str, Any]],
) -> str:
    """The file: the fitted numbers with their sources, and how far predictions with them were from the rows.

    ``soc`` is the chip before, ``extends`` what to name it by, ``ref`` what the numbers were fitted to.
    """
    numbers = list(numbers)
    lines = [
        f"# {len(numbers)} numbers fitted by least squares; everything else is that of {_shown(soc.name)}.",
        f"extends = {_string(extends)}",
        f"name = {_string(soc.name)}",
        "",
    ]
    lines += [f"{one.key} = {_number(soc, one.key, one.after)}" for one in numbers]
    for one in numbers:
        before = soc.source(one.key)
        lines += [
            "",
            f"[sources.{_string(one.key)}]",
            'tier = "measured"',
            f"ref = {_string(ref)}",
            f"note = {_string(_note(one))}",
            "alternatives = [",
            f"    {{ value = {_number(soc, one.key, one.before)}, ref = {_string(before.ref)} }},",
            "]",
        ]
    for entry in validation:
        lines += ["", "[[validation]]"]
        lines += [f"{key} = {_value(value)}" for key, value in entry.items()]
    return "\n".join(lines) + "\n"


def _note(one: Number) -> str:
    text = f"standard error {one.standard_error:.1%}"
    if one.one_sided:
        way = "no smaller" if one.after > one.before else "no larger"
        text = f"the rows say {way} than about this, and no more"
    if one.at_limit:
        text += f"; at its limit of {one.after:.4g}"
    return text


def _number(soc: Soc, key: str, value: float) -> str:
    held: Any = soc
    for part in key.split("."):
        held = getattr(held, part)
    return str(round(value)) if isinstance(held, int) else repr(float(value))


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _string(value) if isinstance(value, str) else repr(value)


def _string(text: str) -> str:
    """A basic string: JSON's escapes are TOML's, but for what JSON leaves as it is."""
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")


def _shown(text: str) -> str:
    return text if text.isprintable() else repr(text)

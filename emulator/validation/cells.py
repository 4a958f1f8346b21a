"""The cells of a row as values. A cell that says nothing usable raises :class:`Unusable`."""

from __future__ import annotations

import math
import re

Shape = tuple[int, ...]

_ABSENT = {"", "n/a", "na", "none", "null", "nan", "-"}

_DTYPES = {
    "float": "float32",
    "fp32": "float32",
    "f32": "float32",
    "half": "float16",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "double": "float64",
}
"""Names of dtypes other than NumPy's: those of the profilers (``FLOAT``, ``DT_BF16``) and of Ascend C."""

_KNOWN = re.compile(r"(?:float|bfloat|u?int|complex)\d+|bool|string|float8_\w+|hifloat\d+|undefined")

MAX_DIGITS = 18
"""Of a dimension: more cannot be a number of elements, and would only be slow."""


class Unusable(Exception):
    """Why a row cannot be predicted: a ``reason`` that rows are counted under, and what it was here."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


def duration_us(text: str) -> float:
    """A duration in microseconds: a positive, finite number."""
    text = text.strip()
    if text.casefold() in _ABSENT:
        raise Unusable("no duration" if text.casefold() != "nan" else "duration is not a number")
    try:
        value = float(text)
    except ValueError:
        raise Unusable("duration is not a number") from None
    if math.isnan(value):
        raise Unusable("duration is not a number")
    if value <= 0:
        raise Unusable("duration is zero or negative")
    if math.isinf(value):
        raise Unusable("duration is infinite")
    return value


def dtypes(text: str, what: str) -> tuple[str, ...]:
    """``FLOAT16;FLOAT`` or ``float16;float32`` as NumPy's names; empty where the cell is."""
    text = _unquoted(text)
    if text.casefold() in _ABSENT:
        return ()
    found = []
    for part in text.split(";"):
        name = _unquoted(part).casefold().removeprefix("dt_").removeprefix("acl_")
        name = _DTYPES.get(name, name)
        if not _KNOWN.fullmatch(name):
            raise Unusable(f"unknown dtype of an {what}")
        found.append(name)
    return tuple(found)


def shapes(text: str, count: int, what: str) -> tuple[Shape, ...]:
    """``4096,1;128`` as tuples; a tensor without dimensions is a scalar. ``count`` tensors are expected."""
    text = _unquoted(text)
    if text.casefold() in _ABSENT - {""}:
        raise Unusable(f"no shape of the {what}s")
    parts = text.split(";")
    # A separator behind the last tensor too, as some releases of the profiler write it.
    if len(parts) == count + 1 and not parts[-1].strip():
        parts.pop()
    if len(parts) != count:
        raise Unusable(f"numbers of {what} shapes and dtypes differ")
    return tuple(_shape(part, what) for part in parts)


def _shape(text: str, what: str) -> Shape:
    text = _unquoted(text)
    if text[:1] + text[-1:] in ("[]", "()"):
        text = text[1:-1].strip()
    if not text:
        return ()
    dims = []
    for part in text.split(","):
        digits = part.strip()
        if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_DIGITS:
            raise Unusable(f"malformed shape of an {what}")
        dims.append(int(digits))
    return tuple(dims)


def whole(text: str) -> int | None:
    """A positive whole number, else ``None``: what only describes is not worth a row."""
    digits = text.strip().removesuffix(".0")
    return (
        int(digits) or None if digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS else None
    )


def _unquoted(text: str) -> str:
    """Without the quotes that the profilers put around a whole cell, doubled."""
    return text.strip().strip('"').strip()

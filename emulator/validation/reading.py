"""Rows of a CSV file, one after another: nothing of the file is kept."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Protocol

from emulator.validation.columns import Format, Layout, RawRow, recognise
from socs.errors import AtlasError


class Broken(str):
    """Why a line is no row."""

    __slots__ = ()


Numbered = tuple[int, RawRow | Broken]


class _Reader(Protocol):
    """What ``csv.reader`` returns, which has no public name before Python 3.13."""

    line_num: int

    def __next__(self) -> list[str]: ...


@contextlib.contextmanager
def opened(path: Path, *, needs_soc: bool = True) -> Iterator[tuple[Format, Iterator[Numbered]]]:
    """The format of a file, and its rows with the number of the line that each ends on.

    UTF-8 with or without a byte-order mark; bytes that are not are replaced, since only free text has them.
    A line that is no row comes as :class:`Broken`. Raises ``AtlasError`` for a file that cannot be read or
    whose header lacks columns.
    """
    shown = str(path) if str(path).isprintable() else repr(str(path))
    try:
        if path.is_dir():
            raise AtlasError(f"{shown}: is a directory, must be a CSV file")
        file = path.open(encoding="utf-8-sig", errors="replace", newline="")
    except FileNotFoundError:
        raise AtlasError(f"{shown}: there is no such file") from None
    except (OSError, ValueError) as error:
        if isinstance(error, AtlasError):
            raise
        raise AtlasError(f"{shown}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    with file:
        lines = csv.reader(file)
        try:
            header = next((cells for cells in lines if any(cell.strip() for cell in cells)), None)
        except csv.Error as error:
            raise AtlasError(f"{shown}: its header is not CSV: {error}") from None
        if header is None:
            raise AtlasError(f"{shown}: is empty, must begin with a line of column names")
        layout = recognise(header, shown, needs_soc=needs_soc)
        yield layout.format, _rows(lines, layout)


def _rows(lines: _Reader, layout: Layout) -> Iterator[Numbered]:
    width, pick = layout.width, itemgetter(*layout.places)
    while True:
        try:
            cells = next(lines)
        except StopIteration:
            return
        except csv.Error as error:
            yield lines.line_num, Broken(f"the line is not CSV ({error})")
            continue
        if len(cells) == width:
            cells.append("")
            yield lines.line_num, RawRow._make(pick(cells))
        elif not any(cell.strip() for cell in cells):
            continue
        else:
            word = "fewer" if len(cells) < width else "more"
            yield lines.line_num, Broken(f"the line has {word} cells than the header")

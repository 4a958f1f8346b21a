"""The calls to compare: from lists of shapes, dtypes and reductions, or from a file."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from emulator.arrays import one_line
from emulator.validation.cells import Unusable, shapes
from kernel.mse_loss_backward import Reduction
from socs.errors import AtlasError

Shape = tuple[int, ...]

COLUMNS = ("shape", "dtype", "reduction", "grad_shape", "target_shape")
"""Of a file of cases; ``shape`` is needed. Shapes as in ``1024,65536``."""

DTYPES = ("float32", "float16", "bfloat16")
SCALAR = "()"


@dataclass(frozen=True, slots=True)
class Case:
    """One call: shapes of the three inputs, their dtype, the reduction by its name."""

    grad_output: Shape
    self: Shape
    target: Shape
    dtype: str
    reduction: str

    @property
    def shapes(self) -> dict[str, Shape]:
        """By the names of the operator's arguments."""
        return {"grad_output": self.grad_output, "self": self.self, "target": self.target}


def made(
    sizes: Sequence[Shape],
    dtypes: Sequence[str],
    reductions: Sequence[str],
    grad_shape: Shape | None = None,
    target_shape: Shape | None = None,
) -> list[Case]:
    """Every shape in every dtype by every reduction. Raises ``AtlasError`` for what is none of them."""
    return [
        _case(shape, dtype, reduction, grad_shape, target_shape)
        for shape, dtype, reduction in itertools.product(sizes, dtypes, reductions)
    ]


def read(path: Path, dtypes: Sequence[str], reductions: Sequence[str]) -> list[Case]:
    """The calls of a CSV file with the columns :data:`COLUMNS`, of which all but ``shape`` may be missing.

    A row that says no dtype or reduction is taken with each of those given. Raises ``AtlasError`` that names
    file, line and cell.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            found = list(_rows(path, csv.reader(file), dtypes, reductions))
    except (OSError, UnicodeError, csv.Error) as error:
        raise AtlasError(f"{path}: cannot be read: {one_line(error)}") from None
    if not found:
        raise AtlasError(f"{path}: has column names and no rows")
    return found


def _rows(
    path: Path, lines: Iterator[list[str]], dtypes: Sequence[str], reductions: Sequence[str]
) -> Iterator[Case]:
    header = [cell.strip().casefold() for cell in next(lines, [])]
    unknown = [name for name in header if name not in COLUMNS]
    if "shape" not in header or unknown or len(set(header)) != len(header):
        found = ", ".join(header) or "none"
        raise AtlasError(f"{path}: its columns are {found}; must be {', '.join(COLUMNS)}")
    for number, cells in enumerate(lines, start=2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise AtlasError(f"{path}, line {number}: has {len(cells)} cells, the header {len(header)}")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        try:
            own = _shape(row["shape"] or SCALAR)
            others = [_shape(row[name]) if row.get(name) else None for name in COLUMNS[3:]]
            for dtype in [row["dtype"]] if row.get("dtype") else dtypes:
                for reduction in [row["reduction"]] if row.get("reduction") else reductions:
                    yield _case(own, dtype, reduction, *others)
        except AtlasError as error:
            raise AtlasError(f"{path}, line {number}: {error}") from None


def _shape(text: str) -> Shape:
    try:
        return shapes(text, 1, "input")[0]
    except Unusable:
        raise AtlasError(f"shape {text!r}: must be whole numbers separated by commas, or ()") from None


def _case(
    shape: Shape, dtype: str, reduction: str, grad_shape: Shape | None, target_shape: Shape | None
) -> Case:
    if dtype not in DTYPES:
        raise AtlasError(f"dtype = {dtype!r}: must be {', '.join(DTYPES[:-1])} or {DTYPES[-1]}")
    named = Reduction.parse(reduction).name.lower()
    return Case(
        shape if grad_shape is None else grad_shape,
        shape,
        shape if target_shape is None else target_shape,
        dtype,
        named,
    )

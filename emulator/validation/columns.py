"""Which file is it: the columns of a table of measurements, of msprof and of the framework profiler.

Column names: msprof's ``op_summary_*.csv`` and torch_npu's ``kernel_details.csv`` as their documentation
lists them (hiascend.com, "op_summary (Operator Details)"; Ascend/pytorch ``_csv_headers.py``); ``Block Dim``
is called ``Block Num`` in newer releases. Case, blanks at the ends and a byte-order mark do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from socs.errors import AtlasError


class RawRow(NamedTuple):
    """The cells of one line that anything is made of, as text; ``""`` where there is no such column."""

    id: str
    soc: str
    kernel: str
    op: str
    name: str
    core: str
    in_dtypes: str
    out_dtypes: str
    in_shapes: str
    out_shapes: str
    block_dim: str
    l2_state: str
    duration: str
    note: str
    source: str


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file: its columns by field of :class:`RawRow` (the first that is there counts).

    ``raw``: a profile, which names no chip. ``needed`` fields must have a column.
    """

    name: str
    columns: dict[str, tuple[str, ...]]
    needed: tuple[str, ...]
    raw: bool


_SHAPES = {
    "in_shapes": ("Input Shapes",),
    "in_dtypes": ("Input Data Types",),
    "out_shapes": ("Output Shapes",),
    "out_dtypes": ("Output Data Types",),
    "block_dim": ("Block Dim", "Block Num"),
}

FORMATS = (
    Format(
        "a table of measurements",
        {
            **{field: (field,) for field in RawRow._fields if field not in ("duration", "name", "core")},
            "duration": ("duration_us",),
        },
        ("soc", "op", "in_dtypes", "in_shapes", "duration"),
        raw=False,
    ),
    Format(
        "msprof's op_summary",
        {
            "name": ("Op Name",),
            "op": ("OP Type",),
            "core": ("Task Type",),
            "duration": ("Task Duration(us)", "Task Duration"),
            **_SHAPES,
        },
        ("op", "in_dtypes", "in_shapes", "duration"),
        raw=True,
    ),
    Format(
        "torch_npu's kernel_details",
        {
            "name": ("Name",),
            "op": ("Type",),
            "core": ("Accelerator Core",),
            "duration": ("Duration(us)", "Duration"),
            **_SHAPES,
        },
        ("op", "in_dtypes", "in_shapes", "duration"),
        raw=True,
    ),
)


@dataclass(frozen=True, slots=True)
class Layout:
    """A header that was recognised: the format, the header's width, and the place of each field's column.

    A field without a column has the place ``width``, where a reader appends an empty cell.
    """

    format: Format
    width: int
    places: tuple[int, ...]


def recognise(header: Sequence[str], shown: str, *, needs_soc: bool = True) -> Layout:
    """The layout of a file with this header. ``shown`` names the file in errors.

    ``needs_soc`` False: the chip is given otherwise, so that no column need name it. Raises ``AtlasError``
    naming the missing columns of the format that comes closest.
    """
    cells = [_normal(cell) for cell in header]
    places = {cell: place for place, cell in reversed(list(enumerate(cells)))}

    def place(form: Format, field: str) -> int | None:
        names = form.columns.get(field, ())
        return next((places[_normal(name)] for name in names if _normal(name) in places), None)

    def missing(form: Format) -> list[str]:
        needed = (field for field in form.needed if needs_soc or field != "soc")
        return [form.columns[field][0] for field in needed if place(form, field) is None]

    best = min(FORMATS, key=lambda form: (len(missing(form)), form.raw))
    lacking = missing(best)
    if lacking:
        # With nothing in common, any one format would be a guess.
        if len(lacking) == len([field for field in best.needed if needs_soc or field != "soc"]):
            known = "; ".join(
                f"{form.name}: {', '.join(form.columns[field][0] for field in form.needed)}"
                for form in FORMATS
            )
            raise AtlasError(f"{shown}: its header has none of the columns that are needed ({known})")
        noun = "column" if len(lacking) == 1 else "columns"
        raise AtlasError(f"{shown}: no {noun} {', '.join(lacking)}, which {best.name} needs")
    found = (place(best, field) for field in RawRow._fields)
    return Layout(best, len(cells), tuple(len(cells) if p is None else p for p in found))


def _normal(cell: str) -> str:
    return " ".join(cell.replace("\ufeff", "").strip().strip('"').casefold().split())

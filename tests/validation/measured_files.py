"""Small files of measurements."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

COLUMNS = (
    *("id", "soc", "kernel", "op", "in_dtypes", "out_dtypes", "in_shapes", "out_shapes"),
    *("block_dim", "l2_state", "duration_us", "note"),
)

ROW = {
    "id": "1",
    "soc": "Ascend910B4-1",
    "kernel": "vendor",
    "op": "MseLossGrad",
    "in_dtypes": "float32;float32;float32",
    "out_dtypes": "float32",
    "in_shapes": "64,64;64,64;64,64",
    "out_shapes": "64,64",
    "block_dim": "",
    "l2_state": "hot",
    "duration_us": "2.2",
    "note": "",
}
"""A row that is predicted."""


def text_of(rows: Iterable[Mapping[str, str]], columns: Iterable[str] = COLUMNS) -> str:
    """CSV with a header; what a row leaves out is as in :data:`ROW`."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(columns), extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({**ROW, **row} for row in rows)
    return out.getvalue()


def write(path: Path, *rows: Mapping[str, str], columns: Iterable[str] = COLUMNS) -> Path:
    path.write_text(text_of(rows, columns), encoding="utf-8")
    return path

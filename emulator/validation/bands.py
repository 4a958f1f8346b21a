"""How far predictions of each kind were from silicon: the numbers beside every result, from a comparison.

A kind is an operator (or any), a class of size (or any) and a state of L2. Written by
``atlas-emu validate --write-bands``; read back as ``Soc.validation``.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.accuracy import ANY
from emulator.validation.compare import COLD, HOT, Comparison
from emulator.validation.summaries import labels, size_labels
from emulator.validation.timing import BAND, STATES

Mask = NDArray[np.bool_]

MIN_ROWS = 3
"""Rows that make a band; fewer are an anecdote."""

OUTSIDE = 0.05
"""Share of the rows beyond either end of a band: none of fewer than 20."""


def bands(of: Comparison, fitted: Collection[str] = ()) -> dict[str, list[dict[str, Any]]]:
    """The entries of ``Soc.validation`` for every chip with enough rows of the vendor's kernels.

    Rows whose state of L2 is not known speak of hot and of dirty predictions alike, apart from the others.
    ``fitted``: ids of rows that the chips' numbers were fitted to.
    """
    socs = labels(of, lambda case: case.soc)
    known = set(fitted)
    mark = np.array([identity in known for identity in of.ids], dtype=bool)
    return {
        name: found
        for place, name in enumerate(socs.names)
        if (found := list(_of_chip(of, of.vendor & (socs.places == place), mark, _ref(of, name))))
    }


def bands_text(found: dict[str, list[dict[str, Any]]]) -> str:
    """As JSON with one line for each entry, so that a change can be read."""
    chips = []
    for name, entries in found.items():
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
        chips.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(chips) + "\n}\n"


def _of_chip(of: Comparison, mask: Mask, fitted: Mask, ref: str) -> Iterator[dict[str, Any]]:
    operators, sizes = labels(of, lambda case: case.operator), size_labels(of)
    for states, known in ((STATES, True), (BAND, False)):
        for state, l2 in enumerate(states):
            some = mask & ((of.state == state) if known else (of.state > COLD))
            predicted = of.hot if state == HOT else of.cold
            for operator, by_operator in {ANY: some, **operators.by(some, _same)}.items():
                for size, rows in {ANY: by_operator, **sizes.by(by_operator, _same)}.items():
                    if int(rows.sum()) >= MIN_ROWS:
                        yield {
                            "operator": operator,
                            "size": size,
                            "l2": l2,
                            "l2_known": known,
                            **_figures(of.measured[rows] / predicted[rows]),
                            "fitted": int((rows & fitted).sum()),
                            "ref": ref,
                        }


def _ref(of: Comparison, soc: str) -> str:
    return "; ".join(of.of.sources.get(soc, ())) or "measured rows"


def _figures(ratio: NDArray[np.float64]) -> dict[str, Any]:
    """Of measured over predicted times."""
    ordered = np.sort(ratio) - 1
    cut = math.floor(OUTSIDE * len(ordered))
    errors = np.abs(1 / ratio - 1)
    return {
        "rows": len(ordered),
        "low": round(float(ordered[cut]), 4),
        "high": round(float(ordered[len(ordered) - 1 - cut]), 4),
        "median_error": round(float(np.median(errors)), 4),
        "worst_error": round(float(errors.max()), 4),
    }


def _same(mask: Mask) -> Mask:
    return mask

"""A comparison as one JSON document, piece by piece: a million rows need not be in memory as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from emulator.validation.ablation import Ablated
from emulator.validation.compare import COLD, STATE_NAMES, Comparison
from emulator.validation.naive import TEXT, launch_us
from emulator.validation.sizes import size_class
from emulator.validation.summaries import SCOPE, TRACE_SCOPE, Band, Summaries

CHUNK = 1000


def document(of: Comparison, found: Summaries, source: str, ablated: Sequence[Ablated] = ()) -> Iterator[str]:
    """The text of the document. Keys are stable; what is not known is ``null``.

    Top level: ``source``, ``engine``, ``scope``, ``naive``, ``overall``, ``by_soc``, ``by_op``, ``by_size``,
    ``by_kernel``, ``groups``, ``trace``, ``skipped``, ``rows``, and before the rows ``ablation`` where it was
    asked for. Durations are in microseconds, errors and
    shares are fractions.
    """
    told = head(of, found, source)
    if ablated:
        told["ablation"] = [one.to_json() for one in ablated]
    yield json.dumps(told, indent=2).removesuffix("\n}")
    yield ',\n  "rows": ['
    first = True
    chunk: list[str] = []
    for row in rows(of):
        chunk.append(f"{'' if first else ','}\n    {json.dumps(row)}")
        first = False
        if len(chunk) >= CHUNK:
            yield "".join(chunk)
            chunk.clear()
    yield "".join(chunk)
    yield "]\n}\n" if first else "\n  ]\n}\n"


def head(of: Comparison, found: Summaries, source: str) -> dict[str, Any]:
    """Everything but the rows."""
    return {
        "source": source,
        "engine": of.engine,
        "scope": SCOPE,
        "naive": {
            "text": TEXT,
            "by_soc": {
                name: {"bytes_per_s": soc.memory.hbm_bytes_per_s, "launch_us": launch_us(soc)}
                for name, soc in sorted(of.of.socs.items())
            },
        },
        "overall": asdict(found.overall),
        "by_soc": {name: asdict(one) for name, one in found.by_soc.items()},
        "by_op": {name: asdict(one) for name, one in found.by_op.items()},
        "by_size": {name: asdict(one) for name, one in found.by_size.items()},
        "by_kernel": {name: asdict(one) for name, one in found.by_kernel.items()},
        "groups": [
            {"soc": soc, "op": op, "size": size, **asdict(one)}
            for (soc, op, size), one in found.groups.items()
        ],
        "trace": {
            "scope": TRACE_SCOPE,
            **_band(found.trace),
            "by_soc": {name: _band(one) for name, one in found.trace_by_soc.items()},
            "by_op": {name: _band(one) for name, one in found.trace_by_op.items()},
            "by_size": {name: _band(one) for name, one in found.trace_by_size.items()},
            "by_kernel": {name: _band(one) for name, one in found.trace_by_kernel.items()},
        },
        "skipped": {
            "total": of.skipped.total,
            "of_rows": of.of.rows,
            "reasons": [
                {"reason": text, "count": why.count, "first_ids": why.ids, "detail": why.detail or None}
                for text, why in of.skipped.by_count()
            ],
        },
    }


def rows(of: Comparison) -> Iterator[dict[str, Any]]:
    """Every row that was predicted, in the order of the file."""
    inside = of.inside.tolist()
    columns = zip(
        of.ids,
        of.case.tolist(),
        of.state.tolist(),
        *(column.tolist() for column in (of.measured, of.predicted, of.hot, of.cold, of.bound, of.naive)),
        of.nbytes.tolist(),
        inside,
        strict=True,
    )
    for identity, place, state, measured, predicted, hot, cold, bound, naive, nbytes, within in columns:
        case = of.of.cases[place]
        band = state > COLD
        yield {
            "id": identity,
            "soc": case.soc,
            "kernel": case.kernel,
            "op": case.op,
            "operator": case.operator,
            "shapes": [list(shape) for shape in case.shapes],
            "dtypes": list(case.dtypes),
            "l2_state": STATE_NAMES[state],
            "size": size_class(nbytes),
            "bytes": nbytes,
            "measured_us": measured,
            "predicted_us": predicted,
            "error": predicted / measured - 1,
            "bound_us": bound,
            "naive_us": naive,
            "predicted_hot_us": _known(hot),
            "predicted_cold_us": _known(cold),
            "inside_band": within if band else None,
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _band(band: Band) -> dict[str, Any]:
    return {
        **asdict(band.summary),
        "inside_band": band.inside_band,
        "median_hot_to_cold": band.median_hot_to_cold,
    }

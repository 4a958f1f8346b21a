"""The catalogue of chips, and one chip with the source of every number: as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from emulator.accuracy import ANY, kind_text
from emulator.report.console import Whole
from socs.isa import DType
from socs.spec import Soc, Source

_TIER_STYLE = {"documented": "", "measured": "green", "derived": "yellow", "assumed": "bold red"}
_KEY_WIDTH = 41


# ---- the catalogue ------------------------------------------------------------------------------


def catalogue_table(socs: Sequence[Soc]) -> Whole:
    """One row per chip. ``bf16``: ``yes`` (arithmetic and casts), ``casts`` alone, or ``no``."""
    # Units stand in the head and products are counted, so that a row fits on 80 columns.
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("name", no_wrap=True)
    table.add_column("family", overflow="fold", min_width=9)
    table.add_column("products", overflow="fold")
    for head in ("vector\ncores", "MHz", "UB\nKiB"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("bf16", no_wrap=True)
    for head in ("memory\nGB/s", "L2\nMiB"):
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("default\noverflow", no_wrap=True)
    for soc in socs:
        table.add_row(
            Text(soc.name),
            Text(soc.family.removesuffix(" series").removeprefix("Atlas ").removeprefix("Ascend ")),
            Text(_short(soc.products)),
            str(soc.vector_cores),
            f"{soc.clock_hz / 1e6:.6g}",
            f"{soc.ub.bytes / 1024:.6g}",
            _bfloat16(soc),
            f"{soc.memory.hbm_bytes_per_s / 1e9:.5g}",
            f"{soc.memory.l2.bytes / 2**20:.5g}",
            soc.numerics.default_overflow_mode,
        )
    return Whole(table)


def catalogue_json(socs: Iterable[Soc]) -> dict[str, Any]:
    """The catalogue as plain data."""
    return {
        "socs": [
            {
                "name": soc.name,
                "short_name": soc.short_name,
                "family": soc.family,
                "products": list(soc.products),
                "npu_arch": soc.npu_arch,
                "vector_cores": soc.vector_cores,
                "clock_hz": soc.clock_hz,
                "ub_bytes": soc.ub.bytes,
                "bfloat16": {"arithmetic": _computes_bfloat16(soc), "casts": _casts_bfloat16(soc)},
                "memory_bytes": soc.memory.bytes,
                "hbm_bytes_per_s": soc.memory.hbm_bytes_per_s,
                "l2_bytes": soc.memory.l2.bytes,
                "default_overflow_mode": soc.numerics.default_overflow_mode,
                "assumed": sum(soc.source(key).tier == "assumed" for key, _ in soc.numbers()),
                "validated": bool(soc.validation),
                "origin": soc.origin,
            }
            for soc in socs
        ]
    }


# ---- one chip -----------------------------------------------------------------------------------


def soc_table(soc: Soc) -> Group:
    """Every number of a chip with its tier and its source.

    The sources are numbered below the numbers, so that both stay legible on 80 columns.
    """
    legend = {key: index for index, key in enumerate(_used_sources(soc), start=1)}
    parts: list[RenderableType] = [_heading(soc), Text(), _dtypes(soc), Text(), _numbers(soc, legend)]
    parts += [Text(), Text("sources", style="bold"), _legend(soc, legend)]
    return Group(*parts)


def soc_json(soc: Soc) -> dict[str, Any]:
    """One chip as plain data, every number with its source."""
    return {
        "name": soc.name,
        "short_name": soc.short_name,
        "family": soc.family,
        "products": list(soc.products),
        "origin": soc.origin,
        "bfloat16": {"arithmetic": _computes_bfloat16(soc), "casts": _casts_bfloat16(soc)},
        "default_overflow_mode": soc.numerics.default_overflow_mode,
        "numbers": {
            key: {
                "value": list(value) if isinstance(value, tuple) else value,
                "human": human(key, value),
                **soc.source(key).model_dump(mode="json"),
                "source_key": soc.source_key(key),
            }
            for key, value in soc.numbers()
        },
        "validation": [row.model_dump(mode="json") for row in soc.validation],
    }


def _heading(soc: Soc) -> Text:
    tiers = [soc.source(key).tier for key, _ in soc.numbers()]
    counts = ", ".join(f"{tiers.count(tier)} {tier}" for tier in _TIER_STYLE if tier in tiers)
    text = Text.assemble((soc.name, "bold"), f"  {soc.family}, {soc.architecture}, arch {soc.npu_arch}\n")
    text.append(f"products: {', '.join(soc.products) or '-'}\n")
    text.append(f"read from {soc.origin or '-'}; {len(tiers)} numbers: {counts}\n")
    shown = [row for row in soc.validation if ANY not in (row.operator, row.size)] or soc.validation
    for row in shown:
        text.append(
            f"{kind_text(row)}: median error {row.median_error:.1%}, worst {row.worst_error:.1%} "
            f"over {row.rows} measurements ({row.ref})\n"
        )
    if not shown:
        text.append("predictions for this chip were never compared with silicon\n")
    text.rstrip()
    return text


def _dtypes(soc: Soc) -> Table:
    """What each dtype can do here; bfloat16 always has its row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("dtype", no_wrap=True)
    table.add_column("arithmetic")
    table.add_column("casts to", overflow="fold")
    for dtype in DType:
        targets = [key.split("_to_")[1] for key in soc.vector.casts if key.startswith(f"{dtype}_to_")]
        arithmetic = "yes" if dtype in soc.vector.arithmetic_dtypes else "no"
        table.add_row(str(dtype), arithmetic, ", ".join(targets) or "-")
    return table


def _numbers(soc: Soc, legend: dict[str, int]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    # Both fold; the limit keeps keys whole on 80 columns, where a list would take their room.
    table.add_column("key", overflow="fold")
    table.add_column("value", overflow="fold", max_width=17)
    table.add_column("tier", no_wrap=True)
    table.add_column("source", justify="right", no_wrap=True)
    for key, value in soc.numbers():
        source_key = soc.source_key(key)
        tier = soc.source(key).tier
        number = legend[source_key] if source_key else 0
        table.add_row(
            Text(_broken(key)), Text(human(key, value)), Text(tier, style=_TIER_STYLE[tier]), f"[{number}]"
        )
    return table


def _broken(key: str) -> str:
    """A key too long for half of a narrow terminal, broken before its last part."""
    parent, _, last = key.rpartition(".")
    return key if len(key) <= _KEY_WIDTH else f"{parent}\n  .{last}"


def _legend(soc: Soc, legend: dict[str, int]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for key, number in legend.items():
        table.add_row(f"[{number}]", _source_text(key, soc.sources[key]))
    return table


def _source_text(key: str, source: Source) -> Text:
    text = Text.assemble((key, "bold"), ": ", (source.tier, _TIER_STYLE[source.tier]), ", ", source.ref)
    if source.note:
        text.append(f"\n{source.note}")
    for other in source.alternatives:
        text.append(f"\nbut {human(key, other.value)}: {other.ref}")
    return text


def _used_sources(soc: Soc) -> list[str]:
    """Keys of the sources that some number rests on, in the order of the numbers."""
    found = (soc.source_key(key) for key, _ in soc.numbers())
    return list(dict.fromkeys(key for key in found if key is not None))


def _computes_bfloat16(soc: Soc) -> bool:
    return DType.BFLOAT16 in soc.vector.arithmetic_dtypes


def _casts_bfloat16(soc: Soc) -> bool:
    return any(DType.BFLOAT16 in key.split("_to_") for key in soc.vector.casts)


def _bfloat16(soc: Soc) -> str:
    if _computes_bfloat16(soc):
        return "yes"
    return "casts" if _casts_bfloat16(soc) else "no"


def _short(products: Sequence[str]) -> str:
    """The first product and how many more there are: ``300I Pro +4``."""
    if not products:
        return "-"
    more = f" +{len(products) - 1}" if len(products) > 1 else ""
    return products[0].removeprefix("Atlas ") + more


# ---- units --------------------------------------------------------------------------------------


def human(key: str, value: object) -> str:
    """A number with the unit that its key ends in: ``1.8 GHz``, ``192 KiB``, ``1.75 TB/s``."""
    if isinstance(value, (tuple, list)):
        return ", ".join(str(item) for item in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    name = key.rpartition(".")[2]
    if name.endswith("bytes_per_s"):
        return _scaled(value, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s"), 1000)
    if name.endswith("_hz"):
        return _scaled(value, ("Hz", "kHz", "MHz", "GHz"), 1000)
    if name.endswith("bytes_per_cycle"):
        return f"{value:.4g} B/cycle"
    if name.endswith("cycles_per_element"):
        return f"{value:.4g} cycles/element"
    if name.endswith("_cycles"):
        return f"{value:.4g} cycles"
    if name.endswith("bytes"):
        return _scaled(value, ("B", "KiB", "MiB", "GiB"), 1024)
    if name.endswith("_s"):
        return f"{value * 1e6:.4g} us"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _scaled(value: float, units: Sequence[str], step: int) -> str:
    index = 0
    while abs(value) >= step and index + 1 < len(units):
        value /= step
        index += 1
    return f"{value:.4g} {units[index]}"

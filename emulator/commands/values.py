"""Values of options: text to shapes, numbers and chips, refused in our words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernel.tiling import TilingOptions
    from socs.spec import Soc


def pairs(texts: list[str] | None) -> Mapping[str, object] | None:
    """Of ``--set``: each KEY=VALUE. Raises ``AtlasError`` as all of these do."""
    return named(texts, "--set", "KEY=VALUE, as in memory.hbm_bytes_per_s=1.2e12") or None


def chip(name: str | None, overrides: list[str] | None) -> Soc:
    """Of ``--soc`` and ``--set``; without a name the default chip."""
    from emulator import api

    return api.soc(api.DEFAULT_SOC if name is None else name, pairs(overrides))


def rows_chip(name: str | None, overrides: list[str] | None) -> Soc | None:
    """Of ``--soc`` and ``--set`` where the rows of a file may name their own chips."""
    from emulator import api
    from socs.errors import AtlasError

    if name is not None:
        return api.soc(name, pairs(overrides))
    if overrides:
        raise AtlasError("--set changes a chip: name it with --soc")
    return None


def dims(text: str, option: str) -> tuple[int, ...]:
    """``1024,65536``, ``1024x65536``, ``(3,)``; ``()`` is a scalar's."""
    from socs.errors import AtlasError

    inner = text.strip()
    if inner[:1] + inner[-1:] in ("()", "[]"):
        inner = inner[1:-1].strip().removesuffix(",")
        if not inner:
            return ()
    try:
        return tuple(int(part) for part in inner.replace("x", ",").split(","))
    except ValueError:
        raise AtlasError(f"{option} {text!r}: must be integers separated by commas, as 1024,65536") from None


def tiling(tile_length: str | None, buffer_num: str | None, block_dim: str | None) -> TilingOptions:
    from kernel.tiling import TilingOptions

    return TilingOptions(
        integer(tile_length, "--tile-length"),
        integer(buffer_num, "--buffer-num"),
        integer(block_dim, "--block-dim"),
    )


def integer(text: str | None, option: str) -> int | None:
    from socs.errors import AtlasError

    try:
        return None if text is None else int(text)
    except ValueError:
        raise AtlasError(f"{option} {text!r}: must be a whole number") from None


def number(text: str | None, option: str) -> float | None:
    from socs.errors import AtlasError

    try:
        return None if text is None else float(text)
    except ValueError:
        raise AtlasError(f"{option} {text!r}: must be a number") from None


def named(texts: list[str] | None, option: str, form: str) -> dict[str, str]:
    """Of an option that may be repeated, each with a name and a value; ``form`` is how it has to look."""
    from socs.errors import AtlasError

    found: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise AtlasError(f"{option} {text!r}: must be {form}")
        found[name.strip()] = value.strip()
    return found

"""Finding a chip: by CANN name, by product, or in a user's file; with single numbers overridden.

The files in ``socs/data`` hold one generation each: what its chips share at the top level, and a
table ``[chips.NAME]`` per chip that is laid over it key by key, ``sources`` included. How far predictions
for a chip were from silicon is in ``validation.json``, which a command writes.
A user's file holds one chip and names what it starts from: ``extends = "Ascend910B3"``.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from socs.errors import AtlasError
from socs.isa import OPS, DType, Op, Pipe, cost_key
from socs.spec import Soc

_DATA = Path(__file__).parent / "data"
_VALIDATION = _DATA / "validation.json"
_CHIP = re.compile(r'^\[chips\.(?:"([^"\n]+)"|([\w-]+))\]', re.MULTILINE)
_NOT_NUMBERS = {"name", "short_name", "family", "origin", "sources", "validation"}

_RULES = {
    "missing": "must be given",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "finite_number": "must be a finite number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_type": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "string_type": "must be a string",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "tuple_type": "must be a list",
}


def names() -> tuple[str, ...]:
    """The CANN names of all chips, by generation."""
    return tuple(_index())


def all_socs() -> tuple[Soc, ...]:
    """Every chip of the catalogue, in the order of :func:`names`."""
    return tuple(_chip(name) for name in names())


def load(
    name_or_product_or_path: str | os.PathLike[str], overrides: Mapping[str, object] | None = None
) -> Soc:
    """The chip of that CANN name or product (any case), or the one in that ``.toml`` file.

    ``overrides`` sets single numbers by dotted key (``"memory.hbm_bytes_per_s"``), as numbers or
    as text. Raises :class:`AtlasError` for a chip that is not known, a product that has several
    chips, a bad file, or a value that the model refuses.
    """
    asked = name_or_product_or_path
    if not isinstance(asked, (str, os.PathLike)):
        raise AtlasError(f"{asked!r} is not a chip: give a CANN name, a product or the path of a .toml file")
    if isinstance(asked, os.PathLike) or asked.lower().endswith(".toml"):
        soc = _validated(_from_file(Path(os.fsdecode(asked)), ()), str(os.fsdecode(asked)))
    else:
        soc = _chip(_find(asked))
    return _overridden(soc, overrides) if overrides else soc


# ---- the files of the package -------------------------------------------------------------------


@lru_cache(maxsize=1)
def _index() -> dict[str, str]:
    """File of every chip. Headings are searched, not parsed: loading a chip parses one file alone."""
    found = {}
    for path in sorted(_DATA.glob("*.toml")):
        for quoted, bare in _CHIP.findall(path.read_text(encoding="utf-8")):
            found[quoted or bare] = path.name
    return found


@lru_cache(maxsize=16)
def _generation(file: str) -> dict[str, Any]:
    return tomllib.loads((_DATA / file).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _validations() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = json.loads(_VALIDATION.read_text(encoding="utf-8"))
    return found


def _chip_data(name: str) -> dict[str, Any]:
    file = _index()[name]
    whole = _generation(file)
    shared = {key: value for key, value in whole.items() if key != "chips"}
    origin = f"socs/data/{file}"
    merged = _merged(shared, whole["chips"][name])
    return {**merged, "name": name, "origin": origin, "validation": _validations().get(name, [])}


@lru_cache(maxsize=128)
def _chip(name: str) -> Soc:
    data = _chip_data(name)
    return _validated(data, data["origin"])


def _aliases(name: str) -> tuple[str, ...]:
    """Names by which a chip can be meant, others than its own: its products and its short name."""
    whole = _generation(_index()[name])
    listed: list[str] = whole["chips"][name].get("products", whole.get("products", []))
    return (*listed, whole["short_name"])


def _normal(text: str) -> str:
    """``atlas  300i PRO`` and ``300I Pro`` are one product."""
    return " ".join(text.casefold().split()).removeprefix("atlas ")


@lru_cache(maxsize=256)
def _find(asked: str) -> str:
    """The CANN name of the chip that a name or product means."""
    by_case = {name.casefold(): name for name in names()}
    found = by_case.get(asked.strip().casefold())
    if found is not None:
        return found
    chips = [name for name in names() if _normal(asked) in map(_normal, _aliases(name))]
    if len(chips) == 1:
        return chips[0]
    if chips:
        raise AtlasError(f"{asked!r} comes with several chips, name one: {', '.join(chips)}")
    known = {_normal(alias): alias for name in names() for alias in _aliases(name)}
    known.update(by_case)
    near = difflib.get_close_matches(_normal(asked), known, n=4, cutoff=0.5)
    hint = f"nearest: {', '.join(known[key] for key in near)}" if near else f"{len(names())} chips are known"
    raise AtlasError(f"no chip or product {asked!r}; {hint}")


# ---- a user's file ------------------------------------------------------------------------------


def _from_file(path: Path, chain: tuple[Path, ...]) -> dict[str, Any]:
    """The data of a user's file laid over what it extends."""
    shown = _shown(path)
    real = Path(os.path.abspath(path))
    if real in chain:
        raise AtlasError(
            f"{shown}: extends itself through {' -> '.join(_shown(p.name) for p in (*chain, real))}"
        )
    data = _parsed(path)
    if "chips" in data:
        raise AtlasError(f"{shown}: chips: a file of your own holds one chip, at its top level")
    base = data.pop("extends", None)
    if base is None:
        below: dict[str, Any] = {}
    elif not isinstance(base, str):
        raise AtlasError(
            f"{shown}: extends = {base!r}: must be the name of a chip or the path of a .toml file"
        )
    else:
        try:
            if base.lower().endswith(".toml"):
                below = _from_file(path.parent / base, (*chain, real))
                # Its mistakes are told in its own name, not in that of the file that extends it.
                _validated(below, str(path.parent / base))
            else:
                below = _chip_data(_find(base))
        except AtlasError as error:
            # Only the file that was asked for adds itself to what broke further down.
            if chain:
                raise
            raise AtlasError(f"{shown}: extends = {base!r}: {error}") from None
    return _laid_over(below, data, path)


def _parsed(path: Path) -> dict[str, Any]:
    shown = _shown(path)
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        raise AtlasError(f"{shown}: there is no such file") from None
    except IsADirectoryError:
        raise AtlasError(f"{shown}: is a directory, must be a .toml file") from None
    except OSError as error:
        raise AtlasError(f"{shown}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise AtlasError(f"{shown}: byte {error.start} is not UTF-8, as TOML must be") from None
    except RecursionError:
        raise AtlasError(f"{shown}: is nested too deeply") from None
    except ValueError as error:
        raise AtlasError(f"{shown}: is not TOML: {' '.join(str(error).split())}") from None


def _laid_over(below: dict[str, Any], data: dict[str, Any], path: Path) -> dict[str, Any]:
    own = data.pop("sources", {})
    if not isinstance(own, dict):
        raise AtlasError(f"{_shown(path)}: sources = {own!r}: must be a table")
    data.setdefault("name", path.stem)
    merged = _merged(below, data)
    changed = [key for key, _ in _leaves(data) if key.split(".")[0] not in _NOT_NUMBERS]
    sources = dict(merged.get("sources", {}))
    fresh: set[str] = set()
    for key in changed:
        # The inherited source spoke of the inherited number; exactly what is set here is re-sourced.
        given = _longest(key, own)
        sources[key] = own[given] if given else {"tier": "assumed", "ref": path.name}
        fresh.add(given or "")
    # A source of nothing that this file sets comments on an inherited number, or is misspelt.
    every = [key for key, _ in _leaves({k: v for k, v in merged.items() if k not in _NOT_NUMBERS})]
    for key in own.keys() - fresh:
        if not any(leaf == key or leaf.startswith(f"{key}.") for leaf in every):
            raise AtlasError(
                f"{_shown(path)}: sources.{_shown(key)}: no number has this key; {_nearest(key, every)}"
            )
        sources[key] = own[key]
    merged["sources"] = sources
    if changed and "validation" not in data:
        # Measured accuracy belongs to the numbers it was measured with.
        merged.pop("validation", None)
    return merged


# ---- validation ---------------------------------------------------------------------------------


def _validated(data: dict[str, Any], origin: str) -> Soc:
    try:
        soc = Soc.model_validate({**data, "origin": origin})
    except ValidationError as error:
        raise AtlasError(f"{_shown(origin)}: {_one_line(error, data)}") from None
    for key, value in _leaves(soc.model_dump(exclude={"sources"})):
        given = _at(data, key)
        # Pydantic would read "40" and true as numbers; in a file they are mistakes.
        if _kind(given) != _kind(value) and key != "origin" and given is not None:
            raise AtlasError(f"{_shown(origin)}: {key} = {given!r}: must be {_kind(value)}")
    known = _instruction_keys()
    for key, _ in soc.numbers():
        entry = ".".join(key.split(".")[: 3 if key.startswith("vector.casts.") else 4])
        if key.startswith(("vector.casts.", "vector.costs.")) and entry not in known:
            raise AtlasError(f"{_shown(origin)}: {_shown(entry)}: no such key; {_nearest(entry, known)}")
    return soc


@lru_cache(maxsize=1)
def _instruction_keys() -> tuple[str, ...]:
    """Keys that ``vector.casts`` and ``vector.costs`` may have: the models leave them open."""
    pairs = [cost_key(Op.CAST, dst, src) for src in DType for dst in DType]
    ops = [op for op, info in OPS.items() if info.pipe is Pipe.V and op is not Op.CAST]
    found = [f"vector.casts.{pair}" for pair in pairs] + [f"vector.costs.cast.{pair}" for pair in pairs]
    return (*found, *(f"vector.costs.{op}.{dtype}" for op in ops for dtype in DType))


def _one_line(error: ValidationError, data: Mapping[str, Any]) -> str:
    """The first complaint of pydantic as ``key = value: rule``."""
    first = error.errors(include_url=False)[0]
    key = _shown(".".join(str(part) for part in first["loc"] if part != "[key]"))
    kind = first["type"]
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if kind == "value_error":
        rule = " ".join(str(first["ctx"]["error"]).split())
        return rule + more
    if kind == "missing":
        hint = "" if "." in key else ', here or by what the file extends (extends = "Ascend910B3")'
        return f"{key}: must be given{hint}{more}"
    if kind == "extra_forbidden":
        parent = key.rpartition(".")[0]
        known = [k for k in _model_keys() if k.rpartition(".")[0] == parent]
        return f"{key}: no such key; {_nearest(key, known)}{more}"
    rule = _RULES.get(kind, first["msg"].replace("Input should be", "must be").replace("should", "must"))
    value = first["input"]
    shown = repr(value) if not isinstance(value, (dict, list)) or len(repr(value)) < 60 else "..."
    return f"{key} = {shown}: {' '.join(rule.split())}{more}"


@lru_cache(maxsize=1)
def _model_keys() -> tuple[str, ...]:
    """Every dotted key of the models, for suggestions."""
    found: list[str] = []

    def walk(model: Any, prefix: str) -> None:
        for name, field in model.model_fields.items():
            found.append(prefix + name)
            if hasattr(field.annotation, "model_fields"):
                walk(field.annotation, f"{prefix}{name}.")

    walk(Soc, "")
    return tuple(found)


# ---- overrides ----------------------------------------------------------------------------------


def _overridden(soc: Soc, overrides: Mapping[str, object]) -> Soc:
    data = soc.model_dump()
    leaves = {
        key: value
        for key, value in _leaves({k: v for k, v in data.items() if k not in _NOT_NUMBERS})
        if not isinstance(value, tuple)
    }
    for key, value in overrides.items():
        if key not in leaves:
            raise AtlasError(
                f"{_shown(key)}: {_shown(soc.name)} has no such number; {_nearest(str(key), leaves)}"
            )
        _put(data, key, _read(key, value, leaves[key]))
        data["sources"][key] = {"tier": "assumed", "ref": "override"}
    # Measured accuracy belongs to the numbers it was measured with.
    data["validation"] = ()
    try:
        return Soc.model_validate(data)
    except ValidationError as error:
        raise AtlasError(_one_line(error, data)) from None


def _read(key: str, value: object, present: object) -> object:
    """An override as the kind of value that the key holds at present."""
    if isinstance(present, bool):
        text = str(value).strip().lower()
        if text not in ("true", "false"):
            raise AtlasError(f"{key} = {value!r}: must be true or false")
        return text == "true"
    if isinstance(present, str):
        if not isinstance(value, str):
            raise AtlasError(f"{key} = {value!r}: must be a string")
        return value
    if isinstance(value, str):
        for parse in (int, float):
            try:
                return parse(value)
            except ValueError:
                continue
    elif not isinstance(value, bool):
        if isinstance(value, (int, float)):
            return value
        try:
            return float(value)  # type: ignore[arg-type]  # a NumPy scalar, say; anything else is caught
        except (TypeError, ValueError):
            pass
    raise AtlasError(f"{key} = {value!r}: must be a number")


# ---- small tools --------------------------------------------------------------------------------


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` laid over ``below``, tables key by key; neither is changed."""
    result = dict(below)
    for key, value in above.items():
        held = result.get(key)
        result[key] = _merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return result


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _at(data: Mapping[str, Any], key: str) -> Any:
    held: Any = data
    for part in key.split("."):
        held = held.get(part) if isinstance(held, dict) else None
    return held


def _put(data: dict[str, Any], key: str, value: object) -> None:
    *parents, last = key.split(".")
    held = data
    for part in parents:
        held = held[part]
    held[last] = value


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a string"
    return "a number" if isinstance(value, (int, float)) else "a list"


def _longest(key: str, sources: Mapping[str, Any]) -> str | None:
    """The longest key of ``sources`` that is ``key`` or a dotted prefix of it."""
    parts = key.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in sources), None)


def _nearest(key: str, known: Any) -> str:
    known = list(known)
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    near += [other for other in known if other.endswith(f".{key}") and other not in near]
    return f"nearest: {', '.join(near)}" if near else f"such as {', '.join(known[:3])}"


def _shown(path: object) -> str:
    """A path on one line, whatever is in it."""
    text = str(path)
    return text if text.isprintable() else repr(text)

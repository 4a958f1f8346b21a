"""A chip whose numbers are traced: what was read of it, and the same of another chip."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from pydantic import BaseModel

from kernel.trace import Trace
from socs.spec import Soc

Path = tuple[str, ...]
_MISSING = object()


class TracedSoc:
    """Stands for ``soc`` while something is traced: its numbers are inputs of the trace."""

    def __init__(self, soc: Soc, trace: Trace) -> None:
        self._trace = trace
        self.paths: list[Path] = []
        """Where the numbers are that were read, in the order in which they are inputs."""
        self.facts: dict[Path, object] = {}
        """What else was read, and of the numbers their types."""
        self._seen: dict[Path, Any] = {}
        self.soc: Any = _View(soc, (), self._read)

    def _read(self, path: Path, value: object) -> Any:
        if path not in self._seen:
            self._seen[path] = self._stand_in(path, value)
        return self._seen[path]

    def _stand_in(self, path: Path, value: object) -> object:
        if isinstance(value, (BaseModel, dict)):
            self.facts[path] = type(value)
            return _View(value, path, self._read)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            self.facts[path] = type(value)
            self.paths.append(path)
            return self._trace.number(value) if isinstance(value, int) else self._trace.real(value)
        self.facts[path] = value
        return None if value is _MISSING else value


class _View:
    """A model, or a dictionary, of which every value is read through ``read``."""

    def __init__(self, of: Any, path: Path, read: Callable[[Path, object], Any]) -> None:
        self._of = of
        self._path = path
        self._read = read

    def __getattr__(self, name: str) -> Any:
        return self._read((*self._path, name), getattr(self._of, name))

    def get(self, key: str, default: object = None) -> Any:
        found = self._read((*self._path, key), self._of.get(key, _MISSING))
        return default if found is None else found


def numbers_of(soc: Soc, paths: list[Path], facts: dict[Path, object]) -> tuple[int | float, ...] | None:
    """The numbers of a chip at ``paths``, or ``None`` where one of ``facts`` does not hold for it."""
    for path, fact in facts.items():
        value = _at(soc, path)
        if isinstance(fact, type) and not isinstance(value, Enum):
            if type(value) is not fact:
                return None
        elif value is not fact and value != fact:
            return None
    return tuple([_at(soc, path) for path in paths])  # type: ignore[misc]


def _at(soc: Soc, path: Path) -> object:
    found: Any = soc
    for key in path:
        found = found.get(key, _MISSING) if isinstance(found, dict) else getattr(found, key, _MISSING)
    return found

"""What was acquired from the libraries, and is given back whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any

from emulator.backends.npu.errors import NpuError
from emulator.backends.npu.libraries import Libraries


class Release:
    """One thing to give back, unless it was given away before."""

    __slots__ = ("_arguments", "_name", "due", "only_after_error")

    def __init__(self, name: str, arguments: tuple[Any, ...], only_after_error: bool) -> None:
        self._name = name
        self._arguments = arguments
        self.only_after_error = only_after_error
        self.due = True

    def do(self, libraries: Libraries) -> None:
        self.due = False
        libraries.call(self._name, *self._arguments)


class Held:
    """A context that gives back in reverse order what was kept in it.

    Whatever fails on the way out does not keep the rest from being given back. Its error is raised where
    there is no other, else it is a note on that one.
    """

    def __init__(self, libraries: Libraries) -> None:
        self._libraries = libraries
        self._releases: list[Release] = []

    def keep(self, name: str, *arguments: Any, only_after_error: bool = False) -> Release:
        """Call ``name`` on the way out; with ``only_after_error`` only on the way out of a failure."""
        release = Release(name, arguments, only_after_error)
        self._releases.append(release)
        return release

    def __enter__(self) -> Held:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(error)

    def close(self, error: BaseException | None) -> None:
        """Give everything back, on the way out of ``error`` if there is one."""
        releases, self._releases = self._releases, []
        first: BaseException | None = error
        for release in reversed(releases):
            if release.due and (first is not None or not release.only_after_error):
                first = attempt(partial(release.do, self._libraries), first)
        if first is not error and first is not None:
            raise first


def attempt(action: Callable[[], None], error: BaseException | None) -> BaseException | None:
    """Do it on the way out of ``error``: the error to go on with. A second one is a note on the first."""
    try:
        action()
    except NpuError as failed:
        if error is None:
            return failed
        error.add_note(f"then {failed}")
    return error

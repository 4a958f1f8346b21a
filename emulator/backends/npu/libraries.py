"""The libraries, loaded in their order, and calls into them that check what comes back."""

from __future__ import annotations

import contextlib
import ctypes
import os
from functools import cache
from pathlib import Path
from typing import Any

from emulator.arrays import one_line
from emulator.backends.npu.errors import NpuError
from emulator.backends.npu.functions import FUNCTIONS, OPERATOR, Home
from emulator.backends.npu.places import VARIABLES, Installation, look
from socs.errors import AtlasError

EMULATED_MARK = "atlas_emulator_version="
"""What ``version.cfg`` of an emulated root has and no other."""


class Libraries:
    """Loaded libraries. Threads may call at the same time: the lock of the interpreter is given up."""

    def __init__(self, installation: Installation, functions: dict[str, Any]) -> None:
        self.installation = installation
        self._functions = functions
        self.emulated = EMULATED_MARK in self.version

    def has(self, name: str) -> bool:
        """Whether these libraries have the function."""
        return name in self._functions

    def status(self, name: str, *arguments: Any) -> int:
        """Call ``name`` and give its status, whatever it is."""
        return int(self._function(name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``name``; ``NpuError`` unless it succeeds."""
        code = self.status(name, *arguments)
        if code != 0:
            raise NpuError(name, code, self.recent())

    def pointer(self, name: str, *arguments: Any) -> int:
        """Call ``name``, which returns a pointer; ``NpuError`` where that is null."""
        found = self._function(name)(*arguments)
        if not found:
            raise NpuError(name, None, self.recent())
        return int(found)

    def made(self, name: str, *arguments: Any) -> int:
        """Call ``name``, which puts a handle or an address into its first argument; that."""
        found = ctypes.c_void_p()
        self.call(name, ctypes.byref(found), *arguments)
        return found.value or 0

    def text(self, name: str) -> str:
        """Call ``name``, which returns text; ``""`` where that is null."""
        found: bytes | None = self._function(name)()
        return "" if found is None else found.decode(errors="replace")

    def recent(self) -> str:
        """What ``aclGetRecentErrMsg`` tells this thread, which clears it; ``""`` where that is nothing."""
        return self.text("aclGetRecentErrMsg") if self.has("aclGetRecentErrMsg") else ""

    @property
    def version(self) -> str:
        """``version.cfg`` of the installation; ``""`` without one."""
        try:
            return (self.installation.root / "version.cfg").read_text(errors="replace")
        except OSError:
            return ""

    def _function(self, name: str) -> Any:
        found = self._functions.get(name)
        if found is None:
            raise AtlasError(
                f"backend npu: the libraries under {self.installation.root} have no {name}, which this needs"
            )
        return found


def libraries() -> Libraries:
    """The libraries of the installation that the environment names. Raises ``AtlasError``."""
    return _named(tuple(os.environ.get(name) for name in VARIABLES))


@cache
def _named(variables: tuple[str | None, ...]) -> Libraries:
    """Those that these variables name, so that a call costs no look at the disk. A failure is not kept."""
    return load(look({name: value or "" for name, value in zip(VARIABLES, variables, strict=True)}))


_loaded: list[Installation] = []
"""What this process has, which nothing unloads again."""


@cache
def load(installation: Installation) -> Libraries:
    """Load the libraries. Raises ``AtlasError`` where one cannot be loaded or lacks a function.

    So it does in a process that has another installation's: the linker would mix them, by their equal names.
    """
    if _loaded and _loaded[0] != installation:
        raise AtlasError(
            f"backend npu: this process has the libraries of {_loaded[0].root}; those of {installation.root} "
            f"need another"
        )
    for path in installation.preloaded:
        # One that is needed and cannot be loaded is told by the library that needs it.
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    handles = {
        Home.RUNTIME: _open(installation.runtime),
        Home.BASE: _open(installation.base),
        Home.OPERATORS: _operators(installation),
    }
    found, missing = {}, []
    for name, about in FUNCTIONS.items():
        try:
            function = getattr(handles[about.home], name)
        except AttributeError:
            if about.needed:
                missing.append(name)
            continue
        function.argtypes, function.restype = about.arguments, about.result
        found[name] = function
    if missing:
        raise AtlasError(f"backend npu: the libraries under {installation.root} have no {', '.join(missing)}")
    _loaded.append(installation)
    return Libraries(installation, found)


def _operators(installation: Installation) -> ctypes.CDLL:
    """The first of the operators' libraries that has the operator."""
    for path in installation.operators:
        handle = _open(path)
        if hasattr(handle, OPERATOR):
            return handle
    names = ", ".join(str(path) for path in installation.operators)
    raise AtlasError(f"backend npu: no {OPERATOR} in {names}")


def _open(path: Path) -> ctypes.CDLL:
    """By its path, since a change of LD_LIBRARY_PATH does not reach a process that runs; globally, since the
    libraries look symbols of each other up without naming the library."""
    try:
        return ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)
    except OSError as error:
        # Of what dlopen says all that helps: usually the name of another library.
        raise AtlasError(
            f"backend npu: {path} cannot be loaded: {one_line(error)} "
            f"(is set_env.sh of {path.parent.parent} sourced, and the driver installed?)"
        ) from None

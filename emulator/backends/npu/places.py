"""Where the vendor's libraries may lie, and which of them are there. Nothing is loaded.

Facts: ``set_env.sh`` of CANN 8.1 (variables, ``lib64``), the sample scripts of the runtime (usual folders),
the runtime's overview of its libraries (names, and which one has which functions).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from socs.errors import AtlasError

VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_INSTALL_PATH", "ASCEND_CUSTOM_PATH")
"""Variables that name an installation. The first that is set is believed: nothing else is looked at."""

USUAL = (
    "~/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "/opt/Ascend/cann",
)
"""Where an installation usually is, for when no variable is set."""

RUNTIME = ("libascendcl.so", "libacl_rt.so")
BASE = ("libnnopbase.so",)
OPERATORS = ("libopapi_nn.so", "libopapi.so", "libaclnn_ops_train.so")
"""Of each kind the first counts; of the operators' the first that has the operator."""

PRELOADED = ("libascend_protobuf.so*", "libplatform.so")
"""What the libraries above may need without saying so; loaded before them where it is there and can be."""


@dataclass(frozen=True, slots=True)
class Installation:
    """Libraries that are there. ``origin``: the variable that named ``root``, or ``usual place``."""

    root: Path
    origin: str
    preloaded: tuple[Path, ...]
    runtime: Path
    base: Path
    operators: tuple[Path, ...]


def look(environ: Mapping[str, str] | None = None) -> Installation:
    """The installation to use. Raises ``AtlasError`` that names every place and what is not there."""
    lacking: dict[str, list[str]] = {}
    for root, origin in candidates(os.environ if environ is None else environ):
        found = [_first(root, kind) for kind in (RUNTIME, BASE, OPERATORS)]
        runtime, base, operators = found
        if runtime and base and operators:
            preloaded = tuple(path for pattern in PRELOADED for path in _matching(root, pattern)[:1])
            return Installation(root, origin, preloaded, runtime, base, _all(root, OPERATORS))
        kinds = zip((RUNTIME, BASE, OPERATORS), found, strict=True)
        missing = ", no ".join(" or ".join(names) for names, path in kinds if path is None)
        lacking.setdefault(missing, []).append(f"{root} ({origin})")
    told = "; ".join(f"no {missing} under {', '.join(roots)}" for missing, roots in lacking.items())
    raise AtlasError(f"backend npu: {told}. Source set_env.sh of the CANN toolkit, or set {VARIABLES[0]}")


def candidates(environ: Mapping[str, str]) -> tuple[tuple[Path, str], ...]:
    """The roots to look at in their order, each with what named it."""
    for variable in VARIABLES:
        if environ.get(variable):
            return ((Path(environ[variable]), variable),)
    return tuple((Path(os.path.expanduser(usual)), "usual place") for usual in USUAL)


def folders(root: Path) -> tuple[Path, ...]:
    """Where libraries lie under a root."""
    return root / "lib64", root / "runtime/lib64", root / f"{platform.machine()}-linux/lib64"


def _all(root: Path, names: tuple[str, ...]) -> tuple[Path, ...]:
    """One path for each of ``names`` that is there, in their order."""
    places = ([f / name for f in folders(root) if (f / name).is_file()] for name in names)
    return tuple(found[0] for found in places if found)


def _matching(root: Path, pattern: str) -> list[Path]:
    return [path for folder in folders(root) for path in sorted(folder.glob(pattern))]


def _first(root: Path, names: tuple[str, ...]) -> Path | None:
    return next(iter(_all(root, names)), None)

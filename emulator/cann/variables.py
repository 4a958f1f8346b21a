"""The variables by which clients find a root: what its ``set_env.sh`` and ``atlas-emu exec`` set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

FOLDERS = {
    "ASCEND_TOOLKIT_HOME": "",
    "ASCEND_HOME_PATH": "",
    "ASCEND_INSTALL_PATH": "",
    "ASCEND_CUSTOM_PATH": "",
    "ASCEND_OPP_PATH": "/opp",
    "ASCEND_AICPU_PATH": "",
    "TOOLCHAIN_HOME": "/toolkit",
    "DDK_PATH": "",
    "NPU_HOST_LIB": "/lib64",
}
"""What each variable adds to the root's path."""

SEARCHED = {"LD_LIBRARY_PATH": "/lib64", "PYTHONPATH": "/python/site-packages", "PATH": "/bin"}
"""Lists of folders, before whose other entries the root's comes."""


def settings(root: Path, before: Mapping[str, str]) -> dict[str, str]:
    """The variables of the root where they have been ``before``."""
    found = {name: f"{root}{part}" for name, part in FOLDERS.items()}
    for name, part in SEARCHED.items():
        found[name] = f"{root}{part}:{before[name]}" if before.get(name) else f"{root}{part}"
    return found


def script(root: Path) -> str:
    """The text of ``set_env.sh``, for any POSIX shell."""
    lines = [f'export {name}="$_atlas_root{part}"' for name, part in FOLDERS.items()]
    lines += [f'export {name}="$_atlas_root{part}${{{name}:+:${name}}}"' for name, part in SEARCHED.items()]
    return "\n".join(
        (
            "# Source this: clients then find the headers and libraries of the emulated NPU.",
            f"_atlas_root={shlex.quote(str(root))}",
            *lines,
            "unset _atlas_root\n",
        )
    )

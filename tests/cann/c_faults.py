"""Every function of a root with faults, called by ctypes while it is made to fail; prints JSON."""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

NULLS = 12
"""More parameters than any function has: one that fails on demand looks at none."""


def main() -> None:
    """``c_faults.py ROOT CODE``: a list of function, returned value (0: NULL), message, leaks."""
    root, code = Path(sys.argv[1]), int(sys.argv[2])
    names = ("libascendcl.so", "libnnopbase.so", "libopapi_nn.so")
    libraries = {name: ctypes.CDLL(str(root / "lib64" / name), ctypes.RTLD_GLOBAL) for name in names}
    acl = libraries["libascendcl.so"]
    acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
    acl.atlas_emu_leaks.restype = ctypes.c_char_p
    found = []
    for line in (root / "faults.txt").read_text().splitlines():
        name, kind, library = line.split()
        assert acl.atlas_emu_fault(f"{name}:{code}".encode()) == 0
        function = getattr(libraries[library], name)
        function.restype = ctypes.c_int if kind == "status" else ctypes.c_void_p
        value = function(*[ctypes.c_void_p(None)] * NULLS)
        message, leaks = acl.aclGetRecentErrMsg(), acl.atlas_emu_leaks()
        found.append([name, kind, value or 0, (message or b"").decode(), (leaks or b"").decode()])
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Every public function called with arguments of one kind, each in a process of its own; prints JSON.

``c_sweep.py ROOT KIND STATE``: KIND is ``null``, ``host`` (host memory for every pointer and handle) or
``stale`` (device memory and handles that were given back); STATE is ``forgotten`` (no aclInit) or ``set``.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from emulator.cann.faults import Function, functions

HANDLES = ("aclrtStream", "aclrtEvent", "aclrtContext")
DEVICE = ("devPtr", "workspace", "dst", "tensorData")
WIDTHS = {"int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64}


class Libraries:
    def __init__(self, root: Path) -> None:
        names = ("libascendcl.so", "libnnopbase.so", "libopapi_nn.so")
        self.loaded = {name: ctypes.CDLL(str(root / "lib64" / name), ctypes.RTLD_GLOBAL) for name in names}
        self.acl = self.loaded["libascendcl.so"]
        self.acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.buffer = ctypes.create_string_buffer(1 << 16)

    def host(self, _: str, __: str) -> int:
        return ctypes.addressof(self.buffer)

    def stale(self, type_name: str, name: str) -> int:
        """Something of the type that was given back."""
        place = ctypes.c_void_p()
        acl, nn = self.acl, self.loaded["libnnopbase.so"]
        for kind, make, end in (
            ("aclrtStream", "aclrtCreateStream", "aclrtDestroyStream"),
            ("aclrtEvent", "aclrtCreateEvent", "aclrtDestroyEvent"),
            ("aclrtContext", "aclrtCreateContext", "aclrtDestroyContext"),
        ):
            if type_name == kind:
                assert getattr(acl, make)(ctypes.byref(place), 0) == 0
                assert getattr(acl, end)(place) == 0
                acl.aclrtSetDevice(0)
                return place.value or 0
        if "aclTensor *" in type_name:
            dims = (ctypes.c_int64 * 1)(4)
            nn.aclCreateTensor.restype = ctypes.c_void_p
            tensor = nn.aclCreateTensor(
                dims, ctypes.c_uint64(1), 0, None, ctypes.c_int64(0), 2, dims, ctypes.c_uint64(1), None
            )
            assert nn.aclDestroyTensor(ctypes.c_void_p(tensor)) == 0
            return int(tensor)
        if name in DEVICE:
            assert acl.aclrtMalloc(ctypes.byref(place), ctypes.c_size_t(256), 0) == 0
            assert acl.aclrtFree(place) == 0
            return place.value or 0
        return self.host(type_name, name)

    def call(self, function: Function, pointer: Callable[[str, str], int]) -> tuple[int, str]:
        arguments: list[object] = []
        for parameter in [] if function.parameters == "void" else function.parameters.split(","):
            type_name, name = parameter.strip().rsplit(maxsplit=1)
            while name.startswith("*"):
                type_name, name = f"{type_name} *", name[1:]
            if "*" in type_name or type_name in HANDLES:
                arguments.append(ctypes.c_void_p(pointer(type_name, name)))
            else:
                width = WIDTHS.get(
                    type_name, ctypes.c_int if type_name.startswith("acl") else ctypes.c_size_t
                )
                arguments.append(width(8 if width is ctypes.c_size_t and pointer != _null else 0))
        called = getattr(self.loaded[function.library], function.name)
        called.restype = ctypes.c_int if function.kind == "status" else ctypes.c_void_p
        self.acl.aclGetRecentErrMsg()
        value = called(*arguments)
        message = self.acl.aclGetRecentErrMsg()
        text = "" if message is None else message.decode(errors="replace").split("\n")[0].split("): ", 1)[1]
        return (value if function.kind == "status" else int(value is not None)), text


def _null(_: str, __: str) -> int:
    return 0


def main() -> None:
    """See the module."""
    root, kind, state = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    libraries = Libraries(root)
    pointer = {"null": _null, "host": libraries.host, "stale": libraries.stale}[kind]
    found: dict[str, object] = {}
    for function in functions():
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            if state == "set":
                assert libraries.acl.aclInit(None) == 0
                assert libraries.acl.aclrtSetDevice(0) == 0
            os.write(write, json.dumps(libraries.call(function, pointer)).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        found[function.name] = json.loads(told) if status == 0 else f"ended with {status}"
    print(json.dumps(found))


if __name__ == "__main__":
    main()

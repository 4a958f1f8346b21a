"""The C libraries through ctypes: both phases on NumPy arrays of any strides."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.aclnn import AclTensor

Array = NDArray[Any]

Uploaded = dict[int, tuple[ctypes.c_void_p, Array]]
"""Storages on the device by their place on the host: the address there, and the bytes here."""

_INT64S = ctypes.POINTER(ctypes.c_int64)


class Library:
    """One loaded set of libraries. ``soc`` comes from the environment, once for the process."""

    def __init__(self, root: Path) -> None:
        self.acl = ctypes.CDLL(str(root / "lib64/libascendcl.so"), ctypes.RTLD_GLOBAL)
        self.nn = ctypes.CDLL(str(root / "lib64/libnnopbase.so"), ctypes.RTLD_GLOBAL)
        self.op = ctypes.CDLL(str(root / "lib64/libopapi_nn.so"))
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        self.acl.aclrtMalloc.argtypes = [ctypes.POINTER(pointer), size, ctypes.c_int]
        self.acl.aclrtFree.argtypes = [pointer]
        self.acl.aclrtMemcpy.argtypes = [pointer, size, pointer, size, ctypes.c_int]
        self.acl.aclrtCreateStream.argtypes = [ctypes.POINTER(pointer)]
        self.acl.aclrtDestroyStream.argtypes = [pointer]
        self.acl.aclrtSynchronizeStream.argtypes = [pointer]
        self.acl.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.nn.aclCreateTensor.argtypes = [
            *(_INT64S, ctypes.c_uint64, ctypes.c_int, _INT64S, ctypes.c_int64, ctypes.c_int),
            *(_INT64S, ctypes.c_uint64, pointer),
        ]
        self.nn.aclCreateTensor.restype = pointer
        self.nn.aclDestroyTensor.argtypes = [pointer]
        self.op.aclnnMseLossBackwardGetWorkspaceSize.argtypes = [
            *(pointer, pointer, pointer, ctypes.c_int64, pointer),
            *(ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(pointer)),
        ]
        self.op.aclnnMseLossBackward.argtypes = [pointer, ctypes.c_uint64, pointer, pointer]
        assert self.acl.aclInit(None) == 0
        assert self.acl.aclrtSetDevice(0) == 0

    def message(self) -> str | None:
        """The newest message without its head."""
        text = self.acl.aclGetRecentErrMsg()
        return None if text is None else text.decode().split("\n")[0].split("): ", 1)[1]

    def call(
        self, tensors: Sequence[AclTensor], reduction: int, saturate: bool | None = None
    ) -> tuple[int, int, str | None]:
        """Both phases on grad_output, self, target and out: (first status that is not 0, workspace, message).

        All memory goes to the device and comes back, so that shared storage stays shared. ``saturate``: the
        stream is created in that mode.
        """
        device: Uploaded = {}
        handles = [self.upload(tensor, device) for tensor in tensors]
        stream = self.stream(saturate)
        size, executor, workspace = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
        status = self.op.aclnnMseLossBackwardGetWorkspaceSize(
            *handles[:3], reduction, handles[3], ctypes.byref(size), ctypes.byref(executor)
        )
        if status == 0:
            if size.value:
                assert self.acl.aclrtMalloc(ctypes.byref(workspace), size.value, 0) == 0
            status = self.op.aclnnMseLossBackward(workspace, size.value, executor, stream)
            status = status or self.acl.aclrtSynchronizeStream(stream)
        message = self.message() if status else None
        self.download(device)
        for handle in handles:
            assert self.nn.aclDestroyTensor(handle) == 0
        if workspace:
            assert self.acl.aclrtFree(workspace) == 0
        if stream:
            assert self.acl.aclrtDestroyStream(stream) == 0
        return status, size.value, message

    def upload(self, tensor: AclTensor, device: Uploaded) -> int:
        """The handle of a tensor whose storage is on the device, once for all that share it."""
        assert tensor.storage is not None
        raw = tensor.storage.view(np.uint8)
        place = raw.__array_interface__["data"][0]
        if place not in device:
            address = ctypes.c_void_p()
            assert self.acl.aclrtMalloc(ctypes.byref(address), max(raw.size, 1), 0) == 0
            assert self.acl.aclrtMemcpy(address, raw.size, place, raw.size, 1) == 0
            device[place] = (address, raw)
        return self._tensor(tensor, device[place][0])

    def download(self, device: Uploaded) -> None:
        """Copy all back to where it came from, and free it."""
        for place, (address, raw) in device.items():
            if raw.size:
                assert self.acl.aclrtMemcpy(place, raw.size, address, raw.size, 2) == 0
            assert self.acl.aclrtFree(address) == 0

    def stream(self, saturate: bool | None) -> ctypes.c_void_p:
        """A stream created in a mode; the default one without."""
        stream = ctypes.c_void_p()
        if saturate is not None:
            assert self.acl.aclrtSetDeviceSatMode(0 if saturate else 1) == 0
            assert self.acl.aclrtCreateStream(ctypes.byref(stream)) == 0
        return stream

    def on_device(self, tensor: AclTensor) -> int:
        """The handle of a tensor whose memory was copied to the device, where it stays."""
        assert tensor.storage is not None
        raw, address = tensor.storage.view(np.uint8), ctypes.c_void_p()
        assert self.acl.aclrtMalloc(ctypes.byref(address), raw.size, 0) == 0
        assert self.acl.aclrtMemcpy(address, raw.size, raw.ctypes.data, raw.size, 1) == 0
        return self._tensor(tensor, address)

    def run(self, handles: Sequence[int], reduction: int) -> int:
        """Both phases and the synchronisation, of kernels that leave the workspace alone."""
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        status = self.op.aclnnMseLossBackwardGetWorkspaceSize(
            *handles[:3], reduction, handles[3], ctypes.byref(size), ctypes.byref(executor)
        )
        status = status or self.op.aclnnMseLossBackward(0x1000, size.value, executor, None)
        return int(status or self.acl.aclrtSynchronizeStream(None))

    def _tensor(self, tensor: AclTensor, address: ctypes.c_void_p) -> int:
        def numbers(values: Sequence[int]) -> Any:
            return (ctypes.c_int64 * max(len(values), 1))(*values)

        handle = self.nn.aclCreateTensor(
            numbers(tensor.view_dims),
            len(tensor.view_dims),
            tensor.dtype,
            numbers(tensor.strides),
            tensor.offset,
            tensor.format,
            numbers(tensor.storage_dims),
            len(tensor.storage_dims),
            address,
        )
        assert handle
        return int(handle)


def main() -> None:
    """Compare every call of :mod:`c_cases` with the route in Python; prints what differs as JSON."""
    import c_cases

    found = c_cases.compare(Library(Path(sys.argv[1])), sys.argv[2])
    print(json.dumps(found))


if __name__ == "__main__":
    main()

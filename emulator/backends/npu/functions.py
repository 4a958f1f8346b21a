"""The functions that are called: of which library, with which types (64 bits wherever C has them).

Facts: the public headers ``acl_base.h``, ``acl_rt.h``, ``acl_meta.h`` and ``aclnn_mse_loss_backward.h``.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

OPERATOR = "aclnnMseLossBackward"

_POINTER = ctypes.c_void_p
_OUT_POINTER = ctypes.POINTER(ctypes.c_void_p)
_DIMS = ctypes.POINTER(ctypes.c_int64)
_INT = ctypes.c_int
_SIZE = ctypes.c_size_t

H2D, D2H = 1, 2
"""``aclrtMemcpyKind``."""

HUGE_FIRST = 0
"""``aclrtMemMallocPolicy``."""


class Home(StrEnum):
    """The library that has a function."""

    RUNTIME = "runtime"
    BASE = "base"
    OPERATORS = "operators"


@dataclass(frozen=True, slots=True)
class Function:
    """``result``: its C type, an ``int`` status if it is left out. ``needed``: nothing runs without it."""

    home: Home
    arguments: tuple[Any, ...]
    result: Any = _INT
    needed: bool = True


FUNCTIONS = {
    "aclInit": Function(Home.RUNTIME, (ctypes.c_char_p,)),
    "aclFinalize": Function(Home.RUNTIME, ()),
    "aclGetRecentErrMsg": Function(Home.RUNTIME, (), ctypes.c_char_p, needed=False),
    "aclrtGetSocName": Function(Home.RUNTIME, (), ctypes.c_char_p),
    "aclrtGetDeviceCount": Function(Home.RUNTIME, (ctypes.POINTER(ctypes.c_uint32),)),
    "aclrtSetDevice": Function(Home.RUNTIME, (ctypes.c_int32,)),
    "aclrtResetDevice": Function(Home.RUNTIME, (ctypes.c_int32,)),
    "aclrtGetDevice": Function(Home.RUNTIME, (ctypes.POINTER(ctypes.c_int32),)),
    "aclrtGetCurrentContext": Function(Home.RUNTIME, (_OUT_POINTER,)),
    "aclrtSetCurrentContext": Function(Home.RUNTIME, (_POINTER,)),
    "aclrtGetDeviceSatMode": Function(Home.RUNTIME, (ctypes.POINTER(_INT),), needed=False),
    "aclrtSetDeviceSatMode": Function(Home.RUNTIME, (_INT,), needed=False),
    "aclrtCreateStream": Function(Home.RUNTIME, (_OUT_POINTER,)),
    "aclrtDestroyStream": Function(Home.RUNTIME, (_POINTER,)),
    "aclrtSynchronizeStream": Function(Home.RUNTIME, (_POINTER,)),
    "aclrtMalloc": Function(Home.RUNTIME, (_OUT_POINTER, _SIZE, _INT)),
    "aclrtFree": Function(Home.RUNTIME, (_POINTER,)),
    "aclrtMemcpy": Function(Home.RUNTIME, (_POINTER, _SIZE, _POINTER, _SIZE, _INT)),
    "aclrtMemsetAsync": Function(
        Home.RUNTIME, (_POINTER, _SIZE, ctypes.c_int32, _SIZE, _POINTER), needed=False
    ),
    "aclrtCreateEvent": Function(Home.RUNTIME, (_OUT_POINTER,)),
    "aclrtDestroyEvent": Function(Home.RUNTIME, (_POINTER,)),
    "aclrtRecordEvent": Function(Home.RUNTIME, (_POINTER, _POINTER)),
    "aclrtEventElapsedTime": Function(Home.RUNTIME, (ctypes.POINTER(ctypes.c_float), _POINTER, _POINTER)),
    "aclCreateTensor": Function(
        Home.BASE,
        (_DIMS, ctypes.c_uint64, _INT, _DIMS, ctypes.c_int64, _INT, _DIMS, ctypes.c_uint64, _POINTER),
        _POINTER,
    ),
    "aclDestroyTensor": Function(Home.BASE, (_POINTER,)),
    "aclDestroyAclOpExecutor": Function(Home.BASE, (_POINTER,), needed=False),
    "aclSetAclOpExecutorRepeatable": Function(Home.BASE, (_POINTER,), needed=False),
    f"{OPERATOR}GetWorkspaceSize": Function(
        Home.OPERATORS,
        (
            *(_POINTER, _POINTER, _POINTER, ctypes.c_int64, _POINTER),
            *(ctypes.POINTER(ctypes.c_uint64), _OUT_POINTER),
        ),
    ),
    OPERATOR: Function(Home.OPERATORS, (_POINTER, ctypes.c_uint64, _POINTER, _POINTER)),
}

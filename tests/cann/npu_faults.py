"""Calls on the backend ``npu`` while functions of the libraries fail; run with a root that has faults."""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import emulator
from emulator import aclnn
from emulator.backends.npu import Npu, NpuError
from emulator.backends.npu.device import shutdown
from emulator.backends.npu.libraries import libraries

CHIP = emulator.soc("Ascend910B3", {"memory.l2.bytes": 1 << 16})
"""With little L2, so that driving everything out of it takes no time."""

X = np.arange(32, dtype=np.float16).reshape(4, 8)
TENSORS = (np.ones((), np.float16), X, np.zeros((8, 4), np.float16).T)

MOST_CALLS = 100


class Told(Exception):
    """A status and its text, as :mod:`emulator.aclnn` gives them."""


def run() -> None:
    """Everything that ``run`` does: bits, a mode of its own, events, L2 filled."""
    backend = Npu(warm_up=1, repeats=2)
    names = ("grad_output", "self", "target")
    emulator.run(
        "mse_loss_backward",
        **dict(zip(names, TENSORS, strict=True)),
        soc=CHIP,
        backend=backend,
        overflow="saturation",
    )


def two_phases() -> None:
    out = np.zeros((4, 8), np.float32)
    tensors = [aclnn.AclTensor.from_array(array) for array in (*TENSORS, out)]
    status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(
        *tensors[:3], 1, tensors[3], backend="npu"
    )
    if status == 0:
        status = aclnn.aclnnMseLossBackward(size, size, executor)
    if status != 0:
        raise Told(status, aclnn.aclGetRecentErrMsg())


def repeatedly() -> None:
    """An executor made repeatable, used twice and destroyed."""
    out = np.zeros((4, 8), np.float16)
    tensors = [aclnn.AclTensor.from_array(array) for array in (*TENSORS, out)]
    status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(
        *tensors[:3], 1, tensors[3], backend="npu"
    )
    steps: list[Callable[[], int]] = [
        lambda: status,
        lambda: aclnn.aclSetAclOpExecutorRepeatable(executor),
        lambda: aclnn.aclnnMseLossBackward(size, size, executor),
        lambda: aclnn.aclnnMseLossBackward(size, size, executor),
        lambda: aclnn.aclDestroyAclOpExecutor(executor),
    ]
    for step in steps:
        found = step()
        if found != 0:
            raise Told(found, aclnn.aclGetRecentErrMsg())


WAYS = {way.__name__: way for way in (run, two_phases, repeatedly)}


def outcome(way: Callable[[], None]) -> dict[str, Any]:
    """What a way through the libraries ends in, from their initialisation to their end."""
    try:
        try:
            way()
        finally:
            shutdown()
    except NpuError as error:
        return {
            "raised": error.function,
            "code": error.code,
            "text": error.text,
            "message": str(error),
            "notes": getattr(error, "__notes__", []),
        }
    except emulator.AtlasError as error:
        return {"refused": str(error)}
    except Told as told:
        return {"status": told.args[0], "message": told.args[1]}
    return {}


def _failing(way: Callable[[], None], runtime: Any, function: str, code: int, call: int | None) -> bool:
    """One call fails (``None``: each): prints what came of it; whether anything did."""
    text = f"{function}:{code}" if call is None else f"{function}:{code}:{call}"
    assert runtime.atlas_emu_fault(text.encode()) == 0
    ended = outcome(way)
    assert runtime.atlas_emu_fault(None) == 0
    left = (runtime.atlas_emu_leaks() or b"").decode()
    print(json.dumps({"function": function, "call": call, "left": left, **ended}))
    return bool(ended)


def main() -> None:
    """``npu_faults.py WAY CODE FUNCTION...``: each function's calls fail one after another, then all."""
    way, code, functions = WAYS[sys.argv[1]], int(sys.argv[2]), sys.argv[3:]
    found = libraries()
    runtime = ctypes.CDLL(str(found.installation.runtime))
    runtime.atlas_emu_leaks.restype = ctypes.c_char_p
    assert outcome(way) == {}
    for function in functions:
        for call in range(1, MOST_CALLS):
            if not _failing(way, runtime, function, code, call):
                break
        _failing(way, runtime, function, code, None)
    assert outcome(way) == {}, "it works again"


if __name__ == "__main__":
    main()

"""The backend ``npu`` at the ends of a process, and beside another user of the same libraries."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.backends.npu.places import VARIABLES

CALL = """
import ctypes, numpy as np, emulator
from emulator import aclnn
from emulator.backends.npu.device import shutdown
x = np.arange(8, dtype=np.float32)
def call():
    assert (emulator.mse_loss_backward(x, x, 0 * x, reduction="none", backend="npu") == 2 * x * x).all()
"""

DANGLING = """
call()
tensors = [aclnn.AclTensor.from_array(a) for a in (x, x, x, x.copy())]
kept = aclnn.aclnnMseLossBackwardGetWorkspaceSize(*tensors[:3], 1, tensors[3], backend="npu")
assert kept[0] == 0
"""

OTHERS = """
acl = ctypes.CDLL(HOME + "/lib64/libascendcl.so", ctypes.RTLD_GLOBAL)
acl.aclrtMalloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
def others_end():
    assert acl.aclrtResetDevice(0) == 0
    assert acl.aclFinalize() == 0
"""


def ran(home: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return subprocess.run(
        [sys.executable, "-c", f"HOME = {str(home)!r}\n{CALL}{script}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**clean, "ASCEND_HOME_PATH": str(home), **variables},
    )


@pytest.mark.parametrize(
    "script",
    [
        "call()",
        DANGLING,
        f"{DANGLING}\nimport sys\nsys.exit(0)",
        f"{DANGLING}\ndel kept, tensors\ncall()",
        f"{DANGLING}\nimport threading\nthreads = [threading.Thread(target=call) for _ in range(8)]\n"
        "for one in threads: one.start()\nfor one in threads: one.join()",
        f"{DANGLING}\nshutdown()\n"
        "assert aclnn.aclnnMseLossBackward(1, 1, kept[2]) == aclnn.ACLNN_ERR_INNER\ncall()",
        "call()\nshutdown()\nshutdown()\ncall()\nshutdown()",
    ],
)
def test_at_the_end_of_a_process_nothing_is_left_and_the_libraries_are_finalized(
    faulty: Path, script: str
) -> None:
    done = ran(faulty, script)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_libraries_do_tell_what_is_left(faulty: Path) -> None:
    leak = "call()\nplace = ctypes.c_void_p()\nassert acl.aclrtMalloc(ctypes.byref(place), 100, 0) == 0"
    done = ran(faulty, f"{OTHERS}\n{leak}")
    assert (done.returncode, "not given back" in done.stderr) == (0, True)


@pytest.mark.parametrize("theirs_ends_first", [False, True])
def test_who_initialised_the_libraries_before_also_finalizes_them(
    faulty: Path, theirs_ends_first: bool
) -> None:
    before = f"{OTHERS}\nassert acl.aclInit(None) == 0\nassert acl.aclrtSetDevice(0) == 0\ncall()\n"
    end = "others_end()" if theirs_ends_first else "shutdown()\ncall()\nshutdown()\nothers_end()"
    done = ran(faulty, before + end)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stream_of_another_user_runs_the_call_in_its_context(faulty: Path) -> None:
    script = f"""{OTHERS}
from emulator.backends.npu import Npu
assert acl.aclInit(None) == 0
context, stream = ctypes.c_void_p(), ctypes.c_void_p()
assert acl.aclrtCreateContext(ctypes.byref(context), 0) == 0
assert acl.aclrtCreateStream(ctypes.byref(stream)) == 0
on = Npu(stream=stream.value)
found = emulator.mse_loss_backward(x, x, 0 * x, reduction="none", backend=on)
assert (found == 2 * x * x).all()
assert acl.aclrtDestroyStream(stream) == 0
assert acl.aclrtDestroyContext(context) == 0
shutdown()
assert acl.aclFinalize() == 0
"""
    done = ran(faulty, script)
    assert (done.returncode, done.stderr) == (0, "")


def test_devices_in_turn_run_each_its_own_calls_and_the_thread_keeps_the_callers(faulty: Path) -> None:
    script = f"""{OTHERS}
from emulator.backends.npu import Npu
from emulator.backends.npu.libraries import Libraries
seen, made = [], Libraries.made
def here():
    number = ctypes.c_int32()
    assert acl.aclrtGetDevice(ctypes.byref(number)) == 0
    return number.value
def recorded(self, name, *given):
    if name in ("aclrtMalloc", "aclrtCreateStream"):
        seen.append(here())
    return made(self, name, *given)
Libraries.made = recorded
assert acl.aclInit(None) == 0
assert acl.aclrtSetDevice(2) == 0
for number in (0, 1, 0, 2, 1):
    seen.clear()
    assert (emulator.mse_loss_backward(x, x, 0 * x, backend=Npu(number)) == x * x / 4).all()
    assert set(seen) == {{number}}, seen
    assert here() == 2
shutdown()
assert acl.aclrtResetDevice(2) == 0
assert acl.aclFinalize() == 0
"""
    done = ran(faulty, script, ATLAS_EMU_DEVICES="3")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_context_that_cannot_be_restored_is_said(faulty: Path) -> None:
    script = """
from emulator.backends.npu import Npu, NpuError
emulator.mse_loss_backward(x, x, x, backend=Npu(1))
try:
    emulator.mse_loss_backward(x, x, x, backend=Npu(0))
except NpuError as error:
    assert (error.function, error.code) == ("aclrtSetCurrentContext", 107002)
else:
    raise AssertionError
"""
    done = ran(faulty, script, ATLAS_EMU_DEVICES="2", ATLAS_EMU_FAULT="aclrtSetCurrentContext:107002")
    assert (done.returncode, done.stderr) == (0, "")

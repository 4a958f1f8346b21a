"""Every function that the backend ``npu`` calls fails in turn: one clear exception, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from emulator.backends.npu.errors import NAMES
from emulator.backends.npu.functions import FUNCTIONS

CODES = (107000, 207001, 507035, 561103, 4711)

SETTING_UP = ("aclInit", "aclrtGetDeviceCount", "aclrtSetDevice", "aclrtGetSocName")
"""Without these there is no card, which is no status of an operator: an exception whatever the way."""

GIVING_BACK = {
    "aclrtFree": r"\d+ bytes in {count} allocation{s} of device memory",
    "aclDestroyTensor": "{count} tensor{s}",
    "aclrtDestroyEvent": "{count} event{s}",
    "aclDestroyAclOpExecutor": "{count} executor{s}",
    "aclrtDestroyStream": "",
    "aclrtResetDevice": "",
    "aclFinalize": "",
}
"""What is left where one of these fails; a stream ends with its context."""

QUESTIONS = ("aclGetRecentErrMsg", "aclrtGetCurrentContext", "aclrtGetDevice")
"""What cannot fail, and what are only questions: no answer is one, too."""

FOR_OTHERS = "aclrtSetCurrentContext"
"""Gives a thread back the context that somebody else had made its own."""

TAKING = tuple(name for name in FUNCTIONS if name not in (*GIVING_BACK, *QUESTIONS, FOR_OTHERS))

CALLS = {
    "run": {"aclrtMalloc": 6, "aclrtMemcpy": 4, "aclCreateTensor": 4, "aclrtSynchronizeStream": 6},
    "two_phases": {"aclrtMalloc": 5, "aclrtMemcpy": 5, "aclCreateTensor": 4, "aclrtSynchronizeStream": 1},
    "repeatedly": {"aclrtMalloc": 6, "aclrtMemcpy": 10, "aclCreateTensor": 4, "aclrtSynchronizeStream": 2},
}
"""How often each way calls them: tensors and workspace; there and back; one per launch and pair of events."""


def outcomes(faulty: Path, way: str, code: int, *functions: str) -> list[dict[str, Any]]:
    line = [sys.executable, str(Path(__file__).with_name("npu_faults.py")), way, str(code), *functions]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ATLAS_EMU_")}
    done = subprocess.run(
        line,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**clean, "ASCEND_HOME_PATH": str(faulty)},
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(one) for one in done.stdout.splitlines()]


def named(found: dict[str, Any], code: int) -> bool:
    """Whether what came of a failure names function, code and text."""
    function = found["function"]
    if "refused" in found:  # a pointer of text that is null
        return function in found["refused"] and function == "aclrtGetSocName"
    if found.get("raised"):
        told = found["code"] is None if function == "aclCreateTensor" else found["code"] == code
        shown = "returned a null pointer" if found["code"] is None else f"failed: {code} ("
        words = (f"{function} {shown}", NAMES.get(code, "no public name") if found["code"] else "")
        return bool(
            found["raised"] == function
            and told
            and all(word in found["message"] for word in words)
            and "by ATLAS_EMU_FAULT" in found["text"]
            and found["text"].split()[-1] in found["message"]
        )
    expected = 361001 if function == "aclCreateTensor" else code
    return bool(found["status"] == expected and function in found["message"])


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("way", CALLS)
def test_whatever_fails_is_one_exception_with_function_code_and_text_and_nothing_is_left(
    faulty: Path, way: str, code: int
) -> None:
    found = outcomes(faulty, way, code, *TAKING)
    failed = [one for one in found if set(one) - {"function", "call", "left"}]
    assert [one for one in failed if not named(one, code)] == []
    assert [one for one in found if one["left"]] == []
    raised = [one for one in failed if "status" not in one]
    if way != "run":
        assert {one["function"] for one in raised} == set(SETTING_UP)
    counts = dict.fromkeys(TAKING, 0)
    for one in failed:
        counts[one["function"]] += one["call"] is not None
    assert counts == {**counts, **CALLS[way], "aclInit": 1, "aclrtSetDevice": 1}
    events = {"aclrtCreateEvent", "aclrtRecordEvent", "aclrtEventElapsedTime", "aclrtMemsetAsync"}
    modes = {"aclrtGetDeviceSatMode", "aclrtSetDeviceSatMode"}
    repeatable = {"aclSetAclOpExecutorRepeatable"}
    unused = {"run": repeatable, "two_phases": events | modes | repeatable, "repeatedly": events | modes}
    assert {name for name, count in counts.items() if not count} == unused[way]


@pytest.mark.slow
@pytest.mark.parametrize("function", GIVING_BACK)
@pytest.mark.parametrize("way", CALLS)
def test_what_cannot_be_given_back_is_said_and_the_rest_is_given_back(
    faulty: Path, way: str, function: str
) -> None:
    found = outcomes(faulty, way, 507899, function)
    failed = [one for one in found if one["call"] is not None and set(one) - {"function", "call", "left"}]
    assert [one for one in failed if not named(one, 507899)] == []
    for count, one in enumerate(failed, start=1):
        told = GIVING_BACK[function].format(count=count, s="" if count == 1 else "s")
        assert re.fullmatch(told, one["left"]), one
    *_, each = found
    if failed:
        assert named(each, 507899)
    if failed and way == "run":
        # All at once are one exception too, with the others as notes.
        assert len(each["notes"]) == len(failed) - 1

"""One kind of exception for whatever the vendor's libraries refuse."""

from __future__ import annotations

from emulator.aclnn import codes
from socs.errors import AtlasError

_RUNTIME = {
    100000: "INVALID_PARAM",
    100001: "UNINITIALIZE",
    100002: "REPEAT_INITIALIZE",
    100003: "INVALID_FILE",
    100037: "REPEAT_FINALIZE",
    107000: "RT_PARAM_INVALID",
    107001: "RT_INVALID_DEVICEID",
    107002: "RT_CONTEXT_NULL",
    107003: "RT_STREAM_CONTEXT",
    107006: "RT_EVENT_TIMESTAMP_INVALID",
    107007: "RT_EVENT_TIMESTAMP_REVERSAL",
    107017: "RT_INVALID_HANDLE",
    200000: "BAD_ALLOC",
    200001: "API_NOT_SUPPORT",
    200006: "FEATURE_UNSUPPORTED",
    207000: "RT_FEATURE_NOT_SUPPORT",
    207001: "RT_MEMORY_ALLOCATION",
    207004: "RT_NO_DEVICE",
    207018: "RT_DEVICE_OOM",
    300000: "STORAGE_OVER_LIMIT",
    500000: "INTERNAL_ERROR",
    500001: "FAILURE",
    500003: "RT_FAILURE",
    507000: "RT_INTERNAL_ERROR",
    507015: "RT_AICORE_EXCEPTION",
    507035: "RT_VECTOR_CORE_EXCEPTION",
    507046: "RT_STREAM_SYNC_TIMEOUT",
    507899: "RT_DRV_INTERNAL_ERROR",
}

NAMES = {code: f"ACL_ERROR_{name}" for code, name in _RUNTIME.items()} | {
    getattr(codes, name): name for name in codes.__all__ if name.startswith("ACLNN_ERR_")
}
"""Names of codes, as the public headers of the runtime and opbase's ``op_errno.h`` have them."""

MOST_TEXT = 2000
"""Letters of the libraries' text that a message holds; the exception has all of it."""


class NpuError(AtlasError):
    """A call of the vendor's libraries failed.

    ``function``: which; ``code``: what it returned, ``None`` of a function that returns a pointer; ``text``:
    what ``aclGetRecentErrMsg`` told then, or ``""``. ``notes`` of the exception: what could not be released
    afterwards. ``status`` is the code of a phase of the operator.
    """

    def __init__(self, function: str, code: int | None, text: str) -> None:
        what = "returned a null pointer" if code is None else f"failed: {code_text(code)}"
        told = " ".join(text.split())
        if len(told) > MOST_TEXT:
            told = f"{told[: MOST_TEXT - 3]}..."
        phase = function.startswith("aclnn")
        super().__init__(f"{function} {what}{f': {told}' if told else ''}", status=code if phase else None)
        self.function = function
        self.code = code
        self.text = text


def code_text(code: int) -> str:
    """``207001 (ACL_ERROR_RT_MEMORY_ALLOCATION)``."""
    return f"{code} ({NAMES[code]})" if code in NAMES else f"{code} (no public name)"

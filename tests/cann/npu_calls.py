"""Two-phase calls on the backend ``npu`` beside those of the emulated one; run with ASCEND_HOME_PATH set."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import c_cases

from emulator import aclnn
from emulator.aclnn import AclTensor


class Card:
    """What :func:`c_cases.compare` calls."""

    def call(
        self, tensors: Sequence[AclTensor], reduction: int, saturate: bool | None = None
    ) -> tuple[int, int, str | None]:
        stream = aclnn.Stream("saturation") if saturate else None
        status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(
            *tensors[:3], reduction, tensors[3], backend="npu"
        )
        if status == 0:
            assert not isinstance(executor, aclnn.AclOpExecutor)
            status = aclnn.aclnnMseLossBackward(0x1000 if size else None, size, executor, stream)
        text = aclnn.aclGetRecentErrMsg()
        return status, size, text.split("\n")[0].split("): ", 1)[1] if text else None


if __name__ == "__main__":
    print(json.dumps(c_cases.compare(Card(), sys.argv[1])))

"""The real two-phase interface of ``aclnnMseLossBackward`` under its C names, on an emulated NPU.

Phase 1 (``aclnnMseLossBackwardGetWorkspaceSize``) makes every check of the real operator and answers with
its status, the workspace it asks for and an executor; phase 2 (``aclnnMseLossBackward``) computes. Nothing
raises where C returns a status: the status is returned, and ``aclGetRecentErrMsg`` has its text.
"""

from emulator.aclnn import codes
from emulator.aclnn.codes import *  # noqa: F403
from emulator.aclnn.messages import aclGetRecentErrMsg
from emulator.aclnn.mse_loss_backward import (
    AclOpExecutor,
    aclDestroyAclOpExecutor,
    aclnnMseLossBackward,
    aclnnMseLossBackwardGetWorkspaceSize,
    aclSetAclOpExecutorRepeatable,
)
from emulator.aclnn.stream import (
    Stream,
    aclrtCreateStream,
    aclrtGetDeviceSatMode,
    aclrtSetDeviceSatMode,
)
from emulator.aclnn.tensor import AclTensor

__all__ = [
    "AclOpExecutor",
    "AclTensor",
    "Stream",
    "aclDestroyAclOpExecutor",
    "aclGetRecentErrMsg",
    "aclSetAclOpExecutorRepeatable",
    "aclnnMseLossBackward",
    "aclnnMseLossBackwardGetWorkspaceSize",
    "aclrtCreateStream",
    "aclrtGetDeviceSatMode",
    "aclrtSetDeviceSatMode",
]
__all__ += codes.__all__

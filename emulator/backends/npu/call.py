"""Both phases of the operator, with what they need and leave behind."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from emulator.backends.npu.errors import NpuError
from emulator.backends.npu.functions import OPERATOR
from emulator.backends.npu.held import Held, Release
from emulator.backends.npu.libraries import Libraries
from emulator.backends.npu.memory import allocate

PHASE_1 = f"{OPERATOR}GetWorkspaceSize"


class Executor:
    """What phase 1 gave: good for one phase 2. Destroyed with ``held`` where there is none."""

    def __init__(self, libraries: Libraries, held: Held, handle: int, workspace_size: int) -> None:
        self.handle = handle
        self.workspace_size = workspace_size
        self.repeatable = False
        self.destruction: Release | None = None
        if libraries.has("aclDestroyAclOpExecutor"):
            self.destruction = held.keep("aclDestroyAclOpExecutor", handle)


class Launches:
    """Launches of one call on one stream.

    ``memory`` frees the workspace; it has to outlive ``work``, which has the stream. ``tensors``: handles of
    grad_output, self, target and out.
    """

    def __init__(
        self,
        libraries: Libraries,
        memory: Held,
        work: Held,
        tensors: Sequence[int | None],
        reduction: int,
        stream: int,
    ) -> None:
        self.libraries = libraries
        self.stream = stream
        self._memory = memory
        self._work = work
        self._tensors = tensors
        self._reduction = reduction
        self._workspace: tuple[int, int | None] = 0, None
        self._waiting: Release | None = None

    def prepare(self) -> Executor:
        """Phase 1, and device memory for the workspace that it asks for."""
        executor = phase_1(self.libraries, self._work, self._tensors, self._reduction)
        if executor.workspace_size > self._workspace[0]:
            size = executor.workspace_size
            self._workspace = size, allocate(self.libraries, self._memory, size)
        return executor

    def enqueue(self, executor: Executor) -> None:
        """Phase 2."""
        self.will_run()
        workspace = self._workspace[1] if executor.workspace_size else None
        code = phase_2(self.libraries, executor, workspace, executor.workspace_size, self.stream)
        if code != 0:
            raise NpuError(OPERATOR, code, self.libraries.recent())

    def will_run(self) -> None:
        """Nothing may be freed while what comes now is running, whatever else fails."""
        if self._waiting is None or not self._waiting.due:
            self._waiting = self._work.keep("aclrtSynchronizeStream", self.stream, only_after_error=True)

    def wait(self) -> None:
        """Until everything on the stream is done; errors of the device come here."""
        self.libraries.call("aclrtSynchronizeStream", self.stream)
        if self._waiting is not None:
            self._waiting.due = False


def phase_1(libraries: Libraries, held: Held, tensors: Sequence[int | None], reduction: int) -> Executor:
    """``aclnnMseLossBackwardGetWorkspaceSize``. Raises ``NpuError`` with the operator's own status."""
    size, handle = ctypes.c_uint64(), ctypes.c_void_p()
    libraries.call(PHASE_1, *tensors[:3], reduction, tensors[3], ctypes.byref(size), ctypes.byref(handle))
    return Executor(libraries, held, handle.value or 0, size.value)


def phase_2(
    libraries: Libraries, executor: Executor, workspace: int | None, workspace_size: int, stream: int
) -> int:
    """``aclnnMseLossBackward``: its status. It frees the executor, also where it fails, if it is no
    repeatable one."""
    if executor.destruction is not None and not executor.repeatable:
        executor.destruction.due = False
    return libraries.status(OPERATOR, workspace, workspace_size, executor.handle, stream)

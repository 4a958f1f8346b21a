"""``emulator.aclnn`` on a card: both phases, with the card's own statuses and texts."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np

from emulator.aclnn import messages, texts
from emulator.aclnn.codes import ACLNN_ERR_INNER, ACLNN_ERR_RUNTIME_ERROR, ACLNN_SUCCESS
from emulator.aclnn.elsewhere import RemoteExecutor
from emulator.aclnn.stream import Stream
from emulator.aclnn.tensor import AclTensor
from emulator.backends.npu import call
from emulator.backends.npu import stream as streams
from emulator.backends.npu.device import Device
from emulator.backends.npu.errors import NpuError
from emulator.backends.npu.functions import OPERATOR
from emulator.backends.npu.held import Held
from emulator.backends.npu.memory import Bytes, Mirror, allocate
from emulator.backends.npu.tensors import INT64S, create, memory_of
from socs.errors import AtlasError
from socs.spec import OverflowMode


def phase_1(
    device: Device, tensors: Sequence[AclTensor | None], reduction: int
) -> tuple[int, int, CardExecutor | None]:
    """(status, workspace size, executor). Device memory for the tensors is taken here, since the executor
    holds its addresses; contents go there in phase 2."""
    if reduction not in INT64S:
        raise AtlasError(f"reduction = {reduction!r}: is no 64-bit integer")
    held = Held(device.libraries)
    try:
        with Held(device.libraries) as visit:
            device.enter(visit)
            try:
                executor = _prepared(device, held, tensors, reduction)
            except BaseException as error:
                held.close(error)
                raise
    except NpuError as error:
        return _told(error), 0, None
    return ACLNN_SUCCESS, executor.workspace_size, executor


def _prepared(
    device: Device, held: Held, tensors: Sequence[AclTensor | None], reduction: int
) -> CardExecutor:
    pieces = [_memory(tensor) for tensor in tensors]
    mirror = Mirror(device.libraries, held, pieces)
    handles = [
        None if tensor is None else create(device.libraries, held, tensor, mirror.on_device(piece))
        for tensor, piece in zip(tensors, pieces, strict=True)
    ]
    executor = call.phase_1(device.libraries, held, handles, reduction)
    return CardExecutor(device, held, executor, mirror, pieces)


class CardExecutor(RemoteExecutor):
    """An executor of the card's library, with the device memory of its tensors.

    Everything is given back by phase 2, by ``destroy`` where it is repeatable, else when nobody holds it or
    with the device.
    """

    def __init__(
        self, device: Device, held: Held, executor: call.Executor, mirror: Mirror, pieces: Sequence[Bytes]
    ) -> None:
        self.workspace_size = executor.workspace_size
        self.repeatable = False
        self.freed = False
        self._device = device
        self._held = held
        self._executor = executor
        self._mirror = mirror
        self._pieces = pieces
        device.outstanding.add(held)
        weakref.finalize(self, _give_back, device, held)

    @property
    def _gone(self) -> bool:
        """Used up, or given back since the device was."""
        return self.freed or self._held not in self._device.outstanding

    def launch(self, workspace: object, workspace_size: int, stream: Stream | int | None) -> int:
        if self._gone:
            return messages.report(ACLNN_ERR_INNER, texts.EXECUTOR_USED)
        if not self._pieces[3].flags.writeable:
            return messages.report(ACLNN_ERR_RUNTIME_ERROR, "out: the memory is read-only")
        self.freed = not self.repeatable
        given = None if stream is None or isinstance(stream, Stream) else stream
        mode = stream.overflow if isinstance(stream, Stream) else None
        try:
            with Held(self._device.libraries) as visit:
                try:
                    streams.enter(self._device, visit, given)
                    status = self._run(_is_null(workspace), workspace_size, given, mode)
                except BaseException as error:
                    self._close(error)
                    raise
                if self.freed:
                    self._close(None)
        except NpuError as error:
            return _told(error)
        return status

    def make_repeatable(self) -> int:
        if self._gone:
            return messages.report(ACLNN_ERR_INNER, texts.EXECUTOR_FREED)
        try:
            self._device.libraries.call("aclSetAclOpExecutorRepeatable", self._executor.handle)
        except NpuError as error:
            return _told(error)
        self.repeatable = self._executor.repeatable = True
        return ACLNN_SUCCESS

    def destroy(self) -> int:
        if self._gone:
            return messages.report(ACLNN_ERR_INNER, texts.EXECUTOR_FREED)
        self.freed = True
        try:
            with Held(self._device.libraries) as visit:
                self._device.enter(visit)
                self._close(None)
        except NpuError as error:
            return _told(error)
        return ACLNN_SUCCESS

    def _run(self, null_workspace: bool, size: int, given: int | None, mode: OverflowMode | None) -> int:
        device, libraries = self._device, self._device.libraries
        with Held(libraries) as memory:
            for piece in self._pieces:
                self._mirror.upload(piece)
            workspace = None
            if size and not null_workspace:
                # The library writes as much as it asked for, whatever it is told that there is.
                workspace = allocate(libraries, memory, max(size, self.workspace_size))
            with Held(libraries) as work:
                own = streams.stream_of(device, work, given, mode)
                waiting = work.keep("aclrtSynchronizeStream", own, only_after_error=True)
                code = call.phase_2(libraries, self._executor, workspace, size, own)
                if code != 0:
                    raise NpuError(OPERATOR, code, libraries.recent())
                libraries.call("aclrtSynchronizeStream", own)
                waiting.due = False
            self._mirror.download(self._pieces[3])
        return ACLNN_SUCCESS

    def _close(self, error: BaseException | None) -> None:
        if error is not None and self.repeatable:
            return
        self._device.outstanding.discard(self._held)
        self._held.close(error)


def _give_back(device: Device, held: Held) -> None:
    if held in device.outstanding:
        device.outstanding.discard(held)
        with Held(device.libraries) as visit:
            device.enter(visit)
            held.close(None)


def _told(error: NpuError) -> int:
    """The status of a failure; its text is kept for ``aclGetRecentErrMsg``."""
    if error.function.startswith(OPERATOR) and error.text:
        messages.keep(error.text)
    else:
        messages.keep("; ".join([str(error), *getattr(error, "__notes__", ())]))
    return ACLNN_ERR_RUNTIME_ERROR if error.code is None else error.code


def _memory(tensor: AclTensor | None) -> Bytes:
    """A tensor's bytes; none of what no host could hold, whose data pointer is null then."""
    if tensor is None:
        return np.empty(0, np.uint8)
    try:
        return memory_of(tensor)
    except AtlasError:
        return np.empty(0, np.uint8)


def _is_null(workspace: object) -> bool:
    return workspace is None or (isinstance(workspace, (int, np.integer)) and workspace == 0)

"""The two phases of ``aclnnMseLossBackward``, and the executor that the first hands to the second.

Facts: ops-nn ``aclnn_mse_loss_backward.cpp`` (phase 1), opbase ``op_executor.cpp`` (phase 2).
"""

from __future__ import annotations

import operator
import os
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

import numpy as np

from emulator.aclnn import checks, elsewhere, texts
from emulator.aclnn.codes import (
    ACLNN_ERR_INNER,
    ACLNN_ERR_INNER_NULLPTR,
    ACLNN_ERR_PARAM_NULLPTR,
    ACLNN_ERR_RUNTIME_ERROR,
    ACLNN_SUCCESS,
    DTYPE_NAMES,
)
from emulator.aclnn.elsewhere import RemoteExecutor
from emulator.aclnn.messages import StatusError, report
from emulator.aclnn.route import Route, RouteError, build
from emulator.aclnn.stream import Stream, overflow_on
from emulator.aclnn.tensor import AclTensor
from emulator.defaults import DEFAULT_SOC
from emulator.states import check_l2
from kernel.registry import RELEASES
from socs import load, names
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Soc

if TYPE_CHECKING:
    from emulator.aclnn.execute import Work
    from emulator.aclnn.timing import RouteTime
    from emulator.backend import Backend


INPUTS = ("grad_output", "self", "target")
CACHE_ENTRIES = 1024
"""Calls whose checks and route are remembered, as the operator cache of the real library does."""

SocLike = Soc | str | os.PathLike[str]


class _Planned:
    """What phase 1 decides from descriptors alone; shared by all calls that look alike."""

    __slots__ = ("route", "soc", "work")

    def __init__(self, soc: Soc, route: Route | None) -> None:
        self.soc = soc
        self.route = route  # None: a tensor is empty, nothing is launched
        self.work: Work | None = None


_cache: OrderedDict[tuple[Any, ...], _Planned] = OrderedDict()
_chips: dict[str, Soc] = {}


class AclOpExecutor:
    """What phase 1 prepared. Good for one phase 2, or for many once it was made repeatable."""

    __slots__ = ("_planned", "_tensors", "freed", "repeatable")

    def __init__(self, planned: _Planned, tensors: tuple[AclTensor, AclTensor, AclTensor, AclTensor]) -> None:
        self._planned = planned
        self._tensors = tensors
        self.repeatable = False
        self.freed = False

    @property
    def route(self) -> Route | None:
        """The launches, their sizes and the kernel's factor; ``None`` for an empty call."""
        return self._planned.route

    @property
    def steps(self) -> tuple[str, ...]:
        """Names of the kernels that phase 2 launches: ``("Contiguous(target)", "MseLossGradV2")``."""
        return () if self.route is None else self.route.names

    def predict(self, l2: str = "cold") -> RouteTime | None:
        """Device time of each launch and in total; ``None`` for an empty call.

        ``l2``: cold, hot or dirty, as of :func:`emulator.predict`. Raises ``AtlasError`` for another.
        """
        from emulator.aclnn import timing

        check_l2(l2)
        if self.route is None:
            return None
        work = _work(self)
        inputs = dict(zip(INPUTS, self._tensors, strict=False))
        return timing.predict(self._planned.soc, self.route, work.plan, inputs, self._tensors[3], l2)

    @property
    def workspace_size(self) -> int:
        """Bytes that phase 1 asked for."""
        return 0 if self.route is None else self.route.workspace_bytes


def aclnnMseLossBackwardGetWorkspaceSize(  # noqa: N802
    grad_output: AclTensor | None,
    self: AclTensor | None,
    target: AclTensor | None,
    reduction: int,
    out: AclTensor | None,
    *,
    soc: SocLike = DEFAULT_SOC,
    release: str = "newer",
    backend: str | Backend | None = None,
) -> tuple[int, int, AclOpExecutor | RemoteExecutor | None]:
    """Phase 1: (status, workspace size in bytes, executor); (status, 0, ``None``) where refused.

    Inputs of one dtype that broadcast to ``out``'s shape, rank 0 to 8; ``out`` may have another dtype of
    the chip's list. ``None`` is a null pointer. ``reduction``: 0 none, 1 mean, 2 sum. ``release``: of the
    operator library on the Ascend 950, ``newer`` or ``older``; elsewhere both are the same. ``backend``:
    default that of the environment, else ``emulated``; with ``npu`` statuses and texts are the card's own,
    the chip that is not named is the card's, and the executor is no ``AclOpExecutor``.

    161001: a null tensor. 161002: dtypes, reduction, rank or shapes. 561103: no kernel, a strided view that
    leaves its storage, a format that the tiling refuses, negative dimensions or sizes beyond int64 (the
    real library computes on with those). ``aclGetRecentErrMsg`` has the reason. Not among them: 161001 for
    null result pointers, which Python has not, and 561101, since an executor can always be made.

    Raises ``AtlasError`` for an unknown chip or release, and for what is no ``AclTensor``.
    """
    remote = elsewhere.chosen(backend)
    tensors = (grad_output, self, target, out)
    if remote is not None:
        _check_types(tensors)
        return remote.phase_1(tensors, _whole(reduction), None if soc is DEFAULT_SOC else _chip(soc))
    chip = _chips[soc] if isinstance(soc, str) and soc in _chips else _chip(soc)
    try:
        for place, tensor in enumerate(tensors):
            if not isinstance(tensor, AclTensor):
                _check_types(tensors)
                raise StatusError(ACLNN_ERR_PARAM_NULLPTR, texts.NULL_TENSOR.format(place))
        assert grad_output is not None and self is not None  # noqa: PT018
        assert target is not None and out is not None  # noqa: PT018
        if type(reduction) is not int:
            reduction = _whole(reduction)
        key = (id(chip), release, reduction, grad_output.key, self.key, target.key, out.key)
        planned = _cache.get(key)
        if planned is None:
            planned = _plan(chip, grad_output, self, target, reduction, out, release)
            if len(_cache) >= CACHE_ENTRIES:
                _cache.popitem(last=False)
            _cache[key] = planned
    except StatusError as error:
        return report(error.status, str(error)), 0, None
    executor = AclOpExecutor(planned, (grad_output, self, target, out))
    return ACLNN_SUCCESS, executor.workspace_size, executor


def aclnnMseLossBackward(  # noqa: N802
    workspace: object,
    workspace_size: int,
    executor: AclOpExecutor | RemoteExecutor | None,
    stream: Stream | int | None = None,
) -> int:
    """Phase 2: compute and write ``out``; returns a status. Done when it returns.

    ``workspace``: ``None`` (a null pointer), a buffer, or an integer that stands for an address.
    ``stream``: ``None`` is the default stream, which has the chip's default overflow mode; of a card also the
    address of a stream. The executor is used up, whatever the status, unless it is repeatable.

    161001: no executor, or no workspace although its size is not 0. 561000: an executor that is used up
    (on the chip: a use after free). 361001: memory that is missing, read-only or too small for its view or
    for the intermediate tensors, where the chip would report an error when the stream is synchronised.

    ``out`` may overlap the inputs: results are those of the values before the call. Elements of ``out``'s
    storage outside the view stay as they are. Nothing outside the storages is read or written.
    """
    try:
        if executor is None:
            raise StatusError(ACLNN_ERR_PARAM_NULLPTR, texts.EXECUTOR_NULL)
        if isinstance(executor, RemoteExecutor):
            return executor.launch(workspace, _size(workspace_size), stream)
        if not isinstance(executor, AclOpExecutor):
            raise AtlasError(f"executor is a {type(executor).__name__}, no AclOpExecutor")
        if executor.freed:
            raise StatusError(ACLNN_ERR_INNER, texts.EXECUTOR_USED)
        executor.freed = not executor.repeatable
        size = _size(workspace_size)
        if size and (workspace is None or (isinstance(workspace, (int, np.integer)) and workspace == 0)):
            raise StatusError(ACLNN_ERR_PARAM_NULLPTR, texts.WORKSPACE_NULL)
        if stream is not None and not isinstance(stream, Stream):
            raise StatusError(ACLNN_ERR_RUNTIME_ERROR, f"a {type(stream).__name__} is no stream")
        route = executor.route
        if route is not None:
            if route.uses_workspace:
                _check_workspace(workspace, size, route.workspace_bytes)
            _launch(executor, stream)
    except StatusError as error:
        return report(error.status, str(error))
    return ACLNN_SUCCESS


def aclSetAclOpExecutorRepeatable(executor: AclOpExecutor | RemoteExecutor | None) -> int:  # noqa: N802
    """Let phase 2 run again and again on ``executor``; returns a status.

    To be called between the phases. 561103: ``None``. 561000: the executor was used up or destroyed. The real
    library may refuse some routes; which is not public, so none is refused here.
    """
    if isinstance(executor, RemoteExecutor):
        return executor.make_repeatable()
    status = _alive(executor)
    if status == ACLNN_SUCCESS and executor is not None:
        executor.repeatable = True
    return status


def aclDestroyAclOpExecutor(executor: AclOpExecutor | RemoteExecutor | None) -> int:  # noqa: N802
    """Free ``executor``; returns a status. Needed for repeatable ones; phase 2 frees the others.

    561103: ``None``. 561000: it is freed already (on the chip: a double free).
    """
    if isinstance(executor, RemoteExecutor):
        return executor.destroy()
    status = _alive(executor)
    if status == ACLNN_SUCCESS and executor is not None:
        executor.freed = True
    return status


def _alive(executor: AclOpExecutor | None) -> int:
    if executor is None:
        return report(ACLNN_ERR_INNER_NULLPTR, texts.EXECUTOR_NULL)
    if executor.freed:
        return report(ACLNN_ERR_INNER, texts.EXECUTOR_FREED)
    return ACLNN_SUCCESS


def _size(value: object) -> int:
    size = _whole(value)
    if not isinstance(size, int) or size < 0:
        raise StatusError(ACLNN_ERR_RUNTIME_ERROR, f"workspace_size = {value!r} is no size")
    return size


def _check_types(tensors: tuple[object, ...]) -> None:
    for name, tensor in zip((*INPUTS, "out"), tensors, strict=True):
        if tensor is not None and not isinstance(tensor, AclTensor):
            raise AtlasError(f"{name} is a {type(tensor).__name__}, no AclTensor")


def _whole(value: Any) -> Any:
    """``value`` as an ``int`` where it is whole; else what it says, which no number equals."""
    try:
        return operator.index(value)
    except TypeError:
        return repr(value)


def _chip(soc: SocLike) -> Soc:
    if isinstance(soc, Soc):
        return soc
    chip = load(soc)
    if isinstance(soc, str) and soc in names():  # a file may change, the catalogue does not
        _chips[soc] = chip
    return chip


def _plan(
    soc: Soc,
    grad_output: AclTensor,
    self: AclTensor,
    target: AclTensor,
    reduction: object,
    out: AclTensor,
    release: str,
) -> _Planned:
    """Steps 5 to 10 of phase 1."""
    if release not in RELEASES:
        raise AtlasError(f"release = {release!r}: must be {' or '.join(RELEASES)}")
    checks.check(soc, grad_output, self, target, reduction, out)
    assert isinstance(reduction, int)
    if grad_output.is_empty or self.is_empty or target.is_empty:
        return _Planned(soc, None)
    inputs = dict(zip(INPUTS, (grad_output, self, target), strict=True))
    try:
        return _Planned(soc, build(soc, inputs, out, reduction, release))
    except RouteError as error:
        raise StatusError(ACLNN_ERR_INNER_NULLPTR, texts.BUILD.format(error)) from None


def _check_workspace(workspace: object, given: int, needed: int) -> None:
    # The real library does not look; its intermediate tensors would lie outside.
    size = given
    if not isinstance(workspace, (int, np.integer)) and workspace is not None:
        try:
            size = min(given, memoryview(workspace).nbytes)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise StatusError(
                ACLNN_ERR_RUNTIME_ERROR, f"a {type(workspace).__name__} is no workspace memory"
            ) from None
    if size < needed:
        raise StatusError(ACLNN_ERR_RUNTIME_ERROR, texts.WORKSPACE_SMALL.format(size, needed))


def _work(executor: AclOpExecutor) -> Work:
    known = executor._planned
    if known.work is None:
        from emulator.aclnn.execute import Work

        assert known.route is not None
        tensors = executor._tensors
        shapes = {name: t.view_dims for name, t in zip(INPUTS, tensors, strict=False)}
        dtypes = (DType(DTYPE_NAMES[tensors[i].dtype]) for i in (1, 3))
        known.work = Work(known.soc, known.route, shapes, *dtypes)
    return known.work


def _launch(executor: AclOpExecutor, stream: Stream | None) -> None:
    tensors = executor._tensors
    soc, out = executor._planned.soc, tensors[3]
    views = {}
    name = ""
    try:
        for name, tensor in zip(INPUTS, tensors, strict=False):
            views[name] = tensor.to_numpy()
        name = "out"
        written = out.to_numpy()
        if not written.flags.writeable:
            raise AtlasError("the memory is read-only")
        name = ""
        _work(executor).run(views, written, overflow_on(soc, stream))
    except (AtlasError, MemoryError) as error:
        text = f"{name}: {error}" if name else str(error) or "out of memory"
        raise StatusError(ACLNN_ERR_RUNTIME_ERROR, text) from None

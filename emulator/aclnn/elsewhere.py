"""A two-phase call on another backend than the emulated one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from emulator.aclnn.stream import Stream
from emulator.aclnn.tensor import AclTensor
from emulator.defaults import EMULATED, default_backend
from socs.errors import AtlasError
from socs.spec import Soc

if TYPE_CHECKING:
    from emulator.backend import Backend


class RemoteExecutor:
    """What such a backend's phase 1 prepared. Its functions answer with statuses, as those of C do."""

    workspace_size: int
    repeatable: bool
    freed: bool
    steps: tuple[str, ...] = ()
    """Not known: a card does not say what it launches."""

    def launch(self, workspace: object, workspace_size: int, stream: Stream | int | None) -> int:
        """Phase 2; done when it returns."""
        raise NotImplementedError

    def predict(self, l2: str = "cold") -> NoReturn:
        """Raises ``AtlasError``: predictions come from the emulated executor."""
        raise AtlasError(
            "an executor of a card predicts nothing: make an emulated one, by backend='emulated'"
        )

    def make_repeatable(self) -> int:
        """``aclSetAclOpExecutorRepeatable``."""
        raise NotImplementedError

    def destroy(self) -> int:
        """``aclDestroyAclOpExecutor``."""
        raise NotImplementedError


class TwoPhase(Protocol):
    """What a backend has that takes two-phase calls."""

    def phase_1(
        self, tensors: tuple[AclTensor | None, ...], reduction: int, soc: Soc | None
    ) -> tuple[int, int, RemoteExecutor | None]:
        """As ``aclnnMseLossBackwardGetWorkspaceSize``; ``tensors``: grad_output, self, target and out."""
        ...


def chosen(backend: str | Backend | None) -> TwoPhase | None:
    """The backend to call (default: the environment's); ``None`` is the emulated one.

    Raises ``AtlasError`` for an unknown one, and for one that has no two-phase calls.
    """
    if backend is None:
        backend = default_backend()
    if backend == EMULATED:
        return None
    from emulator import backend as backends

    name, found = backends.find(backend)
    if not callable(getattr(found, "phase_1", None)):
        raise AtlasError(f"backend {name!r} takes no two-phase calls")
    two_phase: Any = found
    return two_phase  # type: ignore[no-any-return]

"""The one exception of the project, at the bottom so that every layer can raise it."""

from __future__ import annotations


class AtlasError(ValueError):
    """Bad input or an impossible request; the message names the value and the rule.

    ``status`` is the aclnn status where one applies, else ``None``.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class UnknownCost(AtlasError):
    """An instruction has no cost on this chip, so no total is given."""

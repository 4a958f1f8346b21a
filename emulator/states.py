"""What L2 may hold before a launch."""

from __future__ import annotations

from socs.errors import AtlasError

L2_STATES = ("cold", "hot", "dirty")


def check_l2(state: str) -> None:
    """Raises ``AtlasError`` where ``state`` is none of :data:`L2_STATES`."""
    if state not in L2_STATES:
        raise AtlasError(f"l2 = {state!r}: must be {' or '.join(L2_STATES)}")

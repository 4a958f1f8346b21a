"""What the tests of the command give it, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

NAMES = ("grad_output", "self", "target")


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one line of an error, once everything about it is as it must be."""
        assert self.status == 2, self
        assert self.out == ""
        assert self.err.startswith("atlas-emu: error: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("atlas-emu: error: ").removesuffix("\n")


Command = Callable[..., Answer]


def tensors(shape: tuple[int, ...] = (4, 8), dtype: object = np.float32) -> dict[str, np.ndarray[Any, Any]]:
    """Three arrays of small numbers, all different and exact in every dtype."""
    count = int(np.prod(shape))
    base = np.arange(count, dtype=np.float64).reshape(shape)
    return {
        "grad_output": (base % 3 + 1).astype(dtype),
        "self": (base % 7 - 3).astype(dtype),
        "target": (base % 5).astype(dtype),
    }

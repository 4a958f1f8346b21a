"""Tensors to compare with: random, the same every time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator.arrays import bfloat16
from emulator.comparison.cases import Case
from socs.errors import AtlasError

KINDS = ("normal", "wild", "bits")
"""``normal``: standard normal; ``wild``: of any magnitude, with zeros, infinities and NaN among them;
``bits``: every pattern of bits equally likely."""

_SPECIAL = np.array([0.0, -0.0, 1.0, 1e-40, 6e-8, 65504.0, 65520.0, 3.39e38, np.inf, -np.inf, np.nan])
_SPECIAL_SHARE = 0.1
_EXPONENTS = (-60, 60)


def tensors(case: Case, kind: str, seed: int, number: int) -> dict[str, NDArray[Any]]:
    """The inputs of case ``number`` by name. ``AtlasError`` for an unknown ``kind`` or a ``seed`` below 0."""
    if kind not in KINDS:
        raise AtlasError(f"data = {kind!r}: must be {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if seed < 0:
        raise AtlasError(f"seed = {seed}: must be 0 or more")
    random = np.random.default_rng((seed, number))
    return {name: _array(shape, case.dtype, kind, random) for name, shape in case.shapes.items()}


def _array(shape: tuple[int, ...], dtype: str, kind: str, random: np.random.Generator) -> NDArray[Any]:
    target = bfloat16() if dtype == "bfloat16" else np.dtype(dtype)
    if kind == "bits":
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(random.bytes(count * target.itemsize), target).reshape(shape)
    values = random.standard_normal(shape, np.float32)
    if kind == "wild":
        values = np.ldexp(values, random.integers(*_EXPONENTS, size=shape)).astype(np.float32)
        special = random.random(shape) < _SPECIAL_SHARE
        values = np.where(special, random.choice(_SPECIAL, shape).astype(np.float32), values)
    with np.errstate(over="ignore", invalid="ignore"):
        found: NDArray[Any] = np.asarray(values).astype(target)
    return found

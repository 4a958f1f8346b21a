"""The formats against the figures that IEEE 754 and the definition of bfloat16 give."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernel.numerics.formats import FORMATS
from socs.isa import DType

FIGURES: dict[DType, dict[str, Any]] = {
    DType.FLOAT32: {
        "name": "float32",
        "width": 32,
        "bias": 127,
        "least_exponent": -126,
        "sign_mask": 0x80000000,
        "exponent_mask": 0x7F800000,
        "mantissa_mask": 0x007FFFFF,
        "magnitude_mask": 0x7FFFFFFF,
        "infinity": 0x7F800000,
        "max_finite": 0x7F7FFFFF,
        "min_normal": 0x00800000,
        "nan_all_ones": 0x7FFFFFFF,
        "nan_quiet": 0x7FC00000,
    },
    DType.FLOAT16: {
        "name": "float16",
        "width": 16,
        "bias": 15,
        "least_exponent": -14,
        "sign_mask": 0x8000,
        "exponent_mask": 0x7C00,
        "mantissa_mask": 0x03FF,
        "magnitude_mask": 0x7FFF,
        "infinity": 0x7C00,
        "max_finite": 0x7BFF,
        "min_normal": 0x0400,
        "nan_all_ones": 0x7FFF,
        "nan_quiet": 0x7E00,
    },
    DType.BFLOAT16: {
        "name": "bfloat16",
        "width": 16,
        "bias": 127,
        "least_exponent": -126,
        "sign_mask": 0x8000,
        "exponent_mask": 0x7F80,
        "mantissa_mask": 0x007F,
        "magnitude_mask": 0x7FFF,
        "infinity": 0x7F80,
        "max_finite": 0x7F7F,
        "min_normal": 0x0080,
        "nan_all_ones": 0x7FFF,
        "nan_quiet": 0x7FC0,
    },
}


def test_every_format_has_figures() -> None:
    assert FORMATS.keys() == FIGURES.keys()


@pytest.mark.parametrize("dtype", list(FIGURES))
def test_what_is_derived_from_two_numbers_is_what_the_standard_says(dtype: DType) -> None:
    assert {name: getattr(FORMATS[dtype], name) for name in FIGURES[dtype]} == FIGURES[dtype]


@pytest.mark.parametrize("dtype", list(FIGURES))
def test_the_limits_are_those_of_numpy_and_ml_dtypes(dtype: DType) -> None:
    kind: Any = ml_dtypes.bfloat16 if dtype is DType.BFLOAT16 else np.dtype(str(dtype)).type
    limits: Any = ml_dtypes.finfo(kind)
    unsigned = np.uint32 if limits.bits == 32 else np.uint16
    info = FORMATS[dtype]
    assert np.array([limits.max], kind).view(unsigned)[0] == info.max_finite
    assert np.array([limits.smallest_normal], kind).view(unsigned)[0] == info.min_normal
    assert np.array([np.inf], kind).view(unsigned)[0] == info.infinity

"""Add, div, max, min, relu and duplicate in float32, and the arithmetic of float16, by others' work.

SoftFloat for the rounding operations, exact fractions for quotients and products of float16, and the
boundary tables of the instructions (asc-devkit) row by row for what no rounding decides.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import softfloatpy
from patterns import NAN16, NAN32, apply, arithmetic_edges, is_nan

from kernel.numerics import vector
from socs.isa import DType, Op

F32, F16 = DType.FLOAT32, DType.FLOAT16
SOFT32 = {Op.ADD: softfloatpy.f32_add, Op.DIV: softfloatpy.f32_div}
SOFT16 = {
    Op.ADD: softfloatpy.f16_add,
    Op.SUB: softfloatpy.f16_sub,
    Op.MUL: softfloatpy.f16_mul,
    Op.DIV: softfloatpy.f16_div,
}
EDGES16 = np.array(
    [
        *(0, 1, 2, 0x3FF, 0x400, 0x401, 0x1400, 0x3BFF, 0x3C00, 0x3C01, 0x4000, 0x4200, 0x7BFE, 0x7BFF),
        *(0x7C00, 0x7C01, 0x7E00, 0x7FFF),
    ],
    np.uint16,
)
SIGNED16 = np.concatenate([EDGES16, EDGES16 | np.uint16(0x8000)])


def body(op: Op, dtype: DType, **options: Any) -> Any:
    return vector.function(vector.lookup(op, dtype, dtype, **options))


def compute(op: Op, dtype: DType, *operands: Any, **options: Any) -> Any:
    kind = np.float32 if dtype is F32 else np.uint16
    return apply(body(op, dtype, **options), *operands, dtype=kind)


def random16(seed: int, count: int = 200_000) -> Any:
    random = np.random.default_rng(seed)
    wild = random.integers(0, 1 << 16, count, dtype=np.uint16)
    near = random.integers(0x3800, 0x4400, count, dtype=np.uint16) | (wild & np.uint16(0x8000))
    return np.concatenate([wild, near])


def pairs16(seed: int) -> tuple[Any, Any]:
    left, right = (grid.ravel() for grid in np.meshgrid(SIGNED16, SIGNED16))
    return np.concatenate([left, random16(seed)]), np.concatenate([right, random16(seed + 1)])


def pairs32(seed: int) -> tuple[Any, Any]:
    edges = arithmetic_edges()
    left, right = (grid.ravel() for grid in np.meshgrid(edges, edges))
    wild = np.random.default_rng(seed).integers(0, 1 << 32, (2, 200_000), dtype=np.uint32)
    return np.concatenate([left, wild[0]]), np.concatenate([right, wild[1]])


def softfloat(function: Any, kind: Any, a: Any, b: Any) -> Any:
    """SoftFloat's results as bits, with one NaN."""
    size = a.dtype.itemsize
    order = f">u{size}"
    left, right = a.astype(order).tobytes(), b.astype(order).tobytes()
    made = b"".join(
        function(kind.from_bytes(left[i : i + size]), kind.from_bytes(right[i : i + size])).to_bytes()
        for i in range(0, len(left), size)
    )
    bits = np.frombuffer(made, order).astype(a.dtype)
    if size == 4:
        return np.where(is_nan(bits), np.uint32(NAN32), bits)
    return np.where((bits & 0x7FFF) > 0x7C00, np.uint16(NAN16), bits)


@pytest.mark.parametrize("op", list(SOFT32))
def test_float32_sums_and_quotients_are_softfloats(op: Op) -> None:
    a, b = pairs32(list(SOFT32).index(op))
    np.testing.assert_array_equal(compute(op, F32, a, b), softfloat(SOFT32[op], softfloatpy.Float32, a, b))


@pytest.mark.parametrize("op", list(SOFT16))
def test_float16_arithmetic_is_softfloats_though_it_goes_through_float32(op: Op) -> None:
    a, b = pairs16(list(SOFT16).index(op))
    np.testing.assert_array_equal(compute(op, F16, a, b), softfloat(SOFT16[op], softfloatpy.Float16, a, b))


def nearest16(exact: Fraction) -> int:
    """The float16 bits nearest to a number that is not 0, ties to even."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = max(exponent, -14) - 10
    scaled = size / Fraction(2) ** unit
    count, rest = divmod(scaled.numerator, scaled.denominator)
    count += 2 * rest > scaled.denominator or (2 * rest == scaled.denominator and count % 2 == 1)
    magnitude = min(((unit + 24) << 10) + count, 0x7C00)
    return magnitude | (0x8000 if exact < 0 else 0)


@pytest.mark.parametrize("op", [Op.DIV, Op.MUL])
def test_a_float16_result_is_the_exact_one_rounded_once_also_where_it_is_subnormal(op: Op) -> None:
    random = np.random.default_rng(7)
    small = random.integers(1, 0x1000, 4000, dtype=np.uint16)
    any_ = random.integers(1, 0x7C00, 4000, dtype=np.uint16)
    a, b = (small, any_) if op is Op.DIV else (small, random.integers(0x2800, 0x3C00, 4000, dtype=np.uint16))
    values = [
        (Fraction(float(x)), Fraction(float(y))) for x, y in zip(a.view("f2"), b.view("f2"), strict=True)
    ]
    exact = [x / y if op is Op.DIV else x * y for x, y in values]
    found = compute(op, F16, a, b)
    assert [int(x) for x in found] == [nearest16(x) for x in exact]
    assert sum(0 < x < 0x400 for x in found) > 200


def test_muls_of_float16_rounds_its_scalar_to_float16_first() -> None:
    third = np.float32(1) / np.float32(3)
    rounded = np.float16(third)
    a = np.array([3.0, 5.0, 1.0], np.float16)
    expected = np.array([np.float16(np.float32(x) * np.float32(rounded)) for x in a], np.float16)
    once = np.array([np.float16(np.float32(x) * third) for x in a], np.float16)
    function = body(Op.MULS, F16)
    found = np.array([function(bits, third) for bits in a.view(np.uint16)], np.uint16)
    assert found.tolist() == expected.view(np.uint16).tolist() != once.view(np.uint16).tolist()


# ---- the boundary tables: (operands, result in INF/NAN mode, result of half in saturation mode) --------

M, INF, NAN = 65504.0, float("inf"), float("nan")
MAX_ROWS = [
    *((-M, -M, -M, -M), (-M, -INF, -M, -M), (-M, M, M, M), (-M, 0.0, 0.0, 0.0), (-M, -0.0, -0.0, -0.0)),
    *(
        (-M, NAN, NAN, 0.0),
        (-M, INF, INF, M),
        (M, M, M, M),
        (M, 0.0, M, M),
        (M, -INF, M, M),
        (M, NAN, NAN, 0.0),
    ),
    *((M, INF, INF, M), (0.0, 0.0, 0.0, 0.0), (0.0, -0.0, 0.0, 0.0), (0.0, -INF, 0.0, 0.0)),
    *((0.0, NAN, NAN, 0.0), (0.0, INF, INF, M), (-0.0, -0.0, -0.0, -0.0), (-0.0, -INF, -0.0, -0.0)),
    *(
        (NAN, NAN, NAN, 0.0),
        (NAN, INF, NAN, 0.0),
        (NAN, -INF, NAN, 0.0),
        (INF, INF, INF, M),
        (INF, -INF, INF, M),
    ),
    (-INF, -INF, -INF, -M),
]
MIN_ROWS = [
    *((-M, -M, -M, -M), (-M, M, -M, -M), (-M, 0.0, -M, -M), (-M, INF, -M, -M), (-M, NAN, NAN, 0.0)),
    *((-M, -INF, -INF, -M), (M, M, M, M), (M, INF, M, M), (M, 0.0, 0.0, 0.0), (M, -0.0, -0.0, -0.0)),
    *(
        (M, NAN, NAN, 0.0),
        (M, -INF, -INF, -M),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, INF, 0.0, 0.0),
        (0.0, -0.0, -0.0, -0.0),
    ),
    *((0.0, -INF, -INF, -M), (-0.0, -0.0, -0.0, -0.0), (-0.0, INF, -0.0, -0.0), (NAN, -INF, NAN, 0.0)),
    *((INF, INF, INF, M), (INF, -INF, -INF, -M), (-INF, -INF, -INF, -M)),
]
ADD_ROWS = [
    *((-M, -M, -INF, -M), (-M, M, 0.0, 0.0), (-M, INF, INF, M), (M, M, INF, M), (M, -INF, -INF, -M)),
    *((0.0, -0.0, 0.0, 0.0), (-0.0, -0.0, -0.0, -0.0), (-0.0, NAN, NAN, 0.0), (INF, -INF, NAN, 0.0)),
]
DIV_ROWS = [
    *(
        (-M, -M, 1.0, 1.0),
        (-M, 0.0, -INF, -M),
        (-M, -0.0, INF, M),
        (-M, INF, -0.0, -0.0),
        (-M, -INF, 0.0, 0.0),
    ),
    *(
        (M, 0.0, INF, M),
        (M, -0.0, -INF, -M),
        (0.0, -M, -0.0, -0.0),
        (0.0, 0.0, NAN, 0.0),
        (-0.0, 0.0, NAN, 0.0),
    ),
    *(
        (-0.0, -INF, 0.0, 0.0),
        (INF, -0.0, -INF, -M),
        (INF, 0.0, INF, M),
        (INF, INF, NAN, 0.0),
        (-INF, NAN, NAN, 0.0),
    ),
    *((NAN, M, NAN, 0.0), (INF, M, INF, M), (-INF, -M, INF, M)),
]
RELU_ROWS = [
    (-M, 0.0, 0.0),
    (M, M, M),
    (0.0, 0.0, 0.0),
    (-0.0, 0.0, 0.0),
    (NAN, NAN, 0.0),
    (INF, INF, M),
    (-INF, 0.0, 0.0),
]
TABLES = {Op.MAX: MAX_ROWS, Op.MIN: MIN_ROWS, Op.ADD: ADD_ROWS, Op.DIV: DIV_ROWS, Op.RELU: RELU_ROWS}
ROWS = [(op, row) for op, rows in TABLES.items() for row in rows]


def bits16(value: float) -> int:
    return NAN16 if value != value else int(np.float16(value).view(np.uint16))


@pytest.mark.parametrize(("op", "row"), ROWS)
def test_float16_keeps_every_row_of_the_boundary_tables_in_both_modes(op: Op, row: tuple[float, ...]) -> None:
    *operands, plain, saturated = row
    orders = itertools.permutations(operands) if op in (Op.MAX, Op.MIN, Op.ADD) else [operands]
    for order in orders:
        given = [np.array([bits16(x)], np.uint16) for x in order]
        assert compute(op, F16, *given)[0] == bits16(plain)
        assert compute(op, F16, *given, saturate=True)[0] == bits16(saturated)


@pytest.mark.parametrize(("op", "row"), ROWS)
def test_float32_keeps_the_same_rows_and_never_saturates_by_itself(op: Op, row: tuple[float, ...]) -> None:
    *operands, plain, _ = row
    largest = float(np.finfo(np.float32).max)
    given = [largest * np.sign(x) if abs(x) == M else x for x in operands]
    expected = largest * float(np.sign(plain)) if abs(plain) == M else plain
    arrays = [np.array([x], np.float32).view(np.uint32) for x in given]
    found = compute(op, F32, *arrays, saturate=True)
    wanted = NAN32 if expected != expected else int(np.float32(expected).view(np.uint32))
    assert found[0] == wanted


def test_max_and_min_take_one_of_their_operands_wherever_the_table_is_silent() -> None:
    for op, choose in ((Op.MAX, np.fmax), (Op.MIN, np.fmin)):
        a, b = pairs32(11)
        ordered = ~(is_nan(a) | is_nan(b)) & ((a & 0x7FFFFFFF) | (b & 0x7FFFFFFF)).astype(bool)
        a, b = a[ordered], b[ordered]
        expected = choose(a.view(np.float32), b.view(np.float32)).view(np.uint32)
        np.testing.assert_array_equal(compute(op, F32, a, b), expected)


def test_a_duplicate_is_the_scalar_in_the_dtype_of_the_tensor() -> None:
    for value in (0.1, -0.0, 65519.0, 1e-8, INF):
        assert body(Op.DUPLICATE, F16)(np.float32(value)) == np.float16(np.float32(value)).view(np.uint16)
        assert body(Op.DUPLICATE, F32)(np.float32(value)) == np.float32(value)
    assert body(Op.DUPLICATE, F16)(np.float32(NAN)) == NAN16


@pytest.mark.parametrize("op", [Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.MAX, Op.MIN, Op.MULS, Op.RELU])
@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("nan", ["all_ones", "quiet", "any"])
@pytest.mark.parametrize("subnormals", ["kept", "flushed"])
def test_every_variant_has_a_body_that_departs_as_its_name_says(
    op: Op, dtype: DType, saturate: bool, nan: Any, subnormals: Any
) -> None:
    name = vector.lookup(
        op, dtype, dtype, saturate=saturate, nan=nan, subnormals=subnormals, float32_overflow="saturate"
    )
    function = vector.function(name)
    assert function is getattr(vector, name)
    kind = np.float32 if dtype is F32 else np.uint16

    def of(*values: float) -> Any:
        given = [np.float32(v) if dtype is F32 else np.uint16(bits16(v)) for v in values]
        if op is Op.MULS:
            given[-1] = np.float32(values[-1])
        result = np.array([function(*(given[:1] if op is Op.RELU else given))], kind)
        return int(result.view(np.uint32 if dtype is F32 else np.uint16)[0])

    quiet, ones = (0x7FC00000, NAN32) if dtype is F32 else (0x7E00, NAN16)
    if saturate:
        assert of(NAN, 1.0) == 0
    elif nan == "any" and dtype is F32 and subnormals == "kept":
        assert of(NAN, 1.0) & 0x7FFFFFFF > 0x7F800000
    else:
        assert of(NAN, 1.0) == (quiet if nan == "quiet" else ones)
    tiny = 2.0**-149 if dtype is F32 else 2.0**-24
    subnormal = {Op.ADD: (tiny, 0.0), Op.SUB: (tiny, 0.0), Op.MAX: (tiny, 0.0), Op.MIN: (tiny, 1.0)}
    assert of(*subnormal.get(op, (tiny, 1.0))) == (0 if subnormals == "flushed" else 1)

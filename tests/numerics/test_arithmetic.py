"""Arithmetic against SoftFloat and exact fractions."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import softfloatpy
from numba import njit
from patterns import NAN32, apply, arithmetic_edges, is_nan

from kernel.numerics import vector
from socs.errors import AtlasError
from socs.isa import DType, Op, RoundMode

F32 = DType.FLOAT32
ARITHMETIC = (Op.SUB, Op.MUL, Op.MULS)
SOFTFLOAT = {Op.SUB: softfloatpy.f32_sub, Op.MUL: softfloatpy.f32_mul, Op.MULS: softfloatpy.f32_mul}


def edge_pairs() -> tuple[Any, Any]:
    """Every edge with every edge."""
    left, right = (grid.ravel() for grid in np.meshgrid(arithmetic_edges(), arithmetic_edges()))
    return left, right


def pairs(seed: int = 1, wild: int = 50_000) -> tuple[Any, Any]:
    """The edges, random patterns, and pairs of nearby exponents, whose difference is seldom trivial."""
    random = np.random.default_rng(seed)
    left, right = edge_pairs()
    anything = random.integers(0, 1 << 32, (2, wild), dtype=np.uint32)
    near = random.integers(0x3E000000, 0x41000000, (2, 100_000), dtype=np.uint32)
    near |= random.integers(0, 2, near.shape, dtype=np.uint32) << np.uint32(31)
    return np.concatenate([left, anything[0], near[0]]), np.concatenate([right, anything[1], near[1]])


def compute(op: Op, a: Any, b: Any, **options: Any) -> Any:
    return apply(vector.function(vector.lookup(op, F32, F32, **options)), a, b, dtype=np.float32)


def soft(bits: Any) -> list[softfloatpy.Float32]:
    data = bits.astype(">u4").tobytes()
    return [softfloatpy.Float32.from_bytes(data[i : i + 4]) for i in range(0, len(data), 4)]


def hard(values: Iterable[softfloatpy.Float32]) -> Any:
    bits = np.frombuffer(b"".join(v.to_bytes() for v in values), ">u4").astype(np.uint32)
    return np.where(is_nan(bits), np.uint32(NAN32), bits)


@pytest.mark.parametrize("op", ARITHMETIC)
def test_arithmetic_is_softfloats_with_one_nan(op: Op) -> None:
    a, b = pairs(seed=ARITHMETIC.index(op), wild=1_000_000)
    theirs = hard(map(SOFTFLOAT[op], soft(a), soft(b)))
    np.testing.assert_array_equal(compute(op, a, b), theirs)


def nearest(exact: Fraction) -> tuple[int, bool]:
    """The float32 bits nearest to a number that is not 0, and whether it was a tie."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = max(exponent, -126) - 23
    scaled = size / Fraction(2) ** unit
    count, rest = divmod(scaled.numerator, scaled.denominator)
    tie = 2 * rest == scaled.denominator
    count += 2 * rest > scaled.denominator or (tie and count % 2 == 1)
    magnitude = min(((unit + 149) << 23) + count, 0x7F800000)
    return magnitude | (0x80000000 if exact < 0 else 0), tie


@pytest.mark.parametrize("op", [Op.SUB, Op.MUL])
def test_a_result_is_the_exact_one_rounded_once(op: Op) -> None:
    a, b = (np.concatenate([edges, side[-3000:]]) for edges, side in zip(edge_pairs(), pairs(), strict=True))
    finite = np.isfinite(a.view(np.float32)) & np.isfinite(b.view(np.float32))
    a, b = a[finite], b[finite]
    exact_of = {int(bits): Fraction(float(bits.view(np.float32))) for bits in np.unique([a, b])}
    down = up = overflows = subnormals = 0
    for x, y, ours in zip(a.tolist(), b.tolist(), compute(op, a, b).tolist(), strict=True):
        exact = exact_of[x] - exact_of[y] if op is Op.SUB else exact_of[x] * exact_of[y]
        if exact == 0:
            # A difference of equals is +0 but for -0 - +0; a product has the product of the signs.
            negative = (x, y) == (0x80000000, 0) if op is Op.SUB else (x ^ y) >> 31
            assert ours == negative << 31, f"{op} {x:#010x} {y:#010x}"
            continue
        expected, tie = nearest(exact)
        assert ours == expected, f"{op} {x:#010x} {y:#010x}"
        rounded = (
            abs(Fraction(float(np.uint32(ours).view(np.float32)))) if ours & 0x7F800000 < 0x7F800000 else 0
        )
        up += tie and rounded > abs(exact)
        down += tie and 0 < rounded < abs(exact)
        overflows += ours & 0x7FFFFFFF == 0x7F800000
        subnormals += ours & 0x7F800000 == 0
    # The edges are worth their name.
    assert min(down, up) > 100
    assert overflows > 100
    assert subnormals > 100


def test_differences_of_equal_numbers_and_of_zeros_have_the_ieee_sign() -> None:
    zero, minus, one = 0x00000000, 0x80000000, 0x3F800000
    a = np.array([zero, zero, minus, minus, one], np.uint32)
    b = np.array([zero, minus, zero, minus, one], np.uint32)
    np.testing.assert_array_equal(compute(Op.SUB, a, b), np.array([zero, zero, minus, zero, zero], np.uint32))


def test_a_product_and_a_difference_are_never_contracted() -> None:
    sub, mul = vector.function("sub_float32_any"), vector.function("mul_float32_any")

    @njit
    def composed(a: Any, b: Any, c: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = sub(mul(a[i], b[i]), c[i])

    a = np.full(64, 1 + 2.0**-23, np.float32)
    c = np.full(64, 1 + 2.0**-22, np.float32)  # a * a rounded; exactly it is 2**-46 more
    (fused,) = hard([softfloatpy.f32_mul_add(*soft(np.array([0x3F800001, 0x3F800001, 0xBF800002])))])
    assert fused == np.float32(2.0**-46).view(np.uint32)
    out = np.ones(64, np.float32)
    composed(a, a, c, out)
    np.testing.assert_array_equal(out, np.zeros(64, np.float32))
    for assembly in composed.inspect_asm().values():
        assert "fmadd" not in assembly
        assert "fmsub" not in assembly


@pytest.mark.parametrize("op", [Op.SUB, Op.MUL])
def test_variants_change_only_what_they_name(op: Op) -> None:
    a, b = pairs()
    plain = compute(op, a, b)
    sign, magnitude = plain & np.uint32(0x80000000), plain & np.uint32(0x7FFFFFFF)
    nan = plain == NAN32
    quiet = compute(op, a, b, nan="quiet")
    np.testing.assert_array_equal(quiet, np.where(nan, np.uint32(0x7FC00000), plain))
    flushed = compute(op, a, b, subnormals="flushed")
    np.testing.assert_array_equal(flushed, np.where(magnitude < 0x00800000, sign, plain))
    saturated = compute(op, a, b, saturate=True, float32_overflow="saturate")
    largest = np.where(magnitude == 0x7F800000, sign | np.uint32(0x7F7FFFFF), plain)
    np.testing.assert_array_equal(saturated, np.where(nan, np.uint32(0), largest))
    unsettled = compute(op, a, b, nan="any")
    np.testing.assert_array_equal(is_nan(unsettled), nan)
    np.testing.assert_array_equal(unsettled[~nan], plain[~nan])


def test_saturation_mode_leaves_float32_alone_unless_the_chip_says_otherwise() -> None:
    assert vector.lookup(Op.SUB, F32, F32, saturate=True) == "sub_float32"
    name = vector.lookup(Op.SUB, F32, F32, saturate=True, float32_overflow="saturate", nan="any")
    assert name == "sub_float32_saturate"


@pytest.mark.parametrize("mode", list(RoundMode))
@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("nan", ["all_ones", "quiet", "any"])
@pytest.mark.parametrize("subnormals", ["kept", "flushed"])
def test_every_name_that_lookup_gives_is_a_function_of_the_module(
    mode: RoundMode, saturate: bool, nan: Any, subnormals: Any
) -> None:
    options = {"saturate": saturate, "nan": nan, "subnormals": subnormals, "float32_overflow": "saturate"}
    names = [
        vector.lookup(Op.CAST, dst, F32, mode=mode, **options) for dst in (DType.FLOAT16, DType.BFLOAT16)
    ]
    if mode is RoundMode.NONE:
        names += [vector.lookup(op, F32, F32, **options) for op in ARITHMETIC]
        names += [vector.lookup(Op.CAST, F32, src, **options) for src in (DType.FLOAT16, DType.BFLOAT16)]
    for name in names:
        assert vector.function(name) is getattr(vector, name)


@pytest.mark.parametrize(
    ("op", "dst", "src", "mode"),
    [
        (Op.SUB, DType.BFLOAT16, DType.BFLOAT16, RoundMode.NONE),
        (Op.ADD, DType.INT32, DType.INT32, RoundMode.NONE),
        (Op.DUPLICATE, DType.INT16, DType.INT16, RoundMode.NONE),
        (Op.MUL, F32, DType.FLOAT16, RoundMode.NONE),
        (Op.MUL, F32, F32, RoundMode.FLOOR),
        (Op.CAST, F32, DType.FLOAT16, RoundMode.RINT),
        (Op.CAST, DType.BFLOAT16, DType.FLOAT16, RoundMode.RINT),
        (Op.CAST, DType.INT32, F32, RoundMode.RINT),
        (Op.COPY_IN, F32, F32, RoundMode.NONE),
    ],
)
def test_an_instruction_without_a_body_is_an_error_that_names_it(
    op: Op, dst: DType, src: DType, mode: RoundMode
) -> None:
    with pytest.raises(AtlasError, match=f"{op} from {src} to {dst} with rounding {mode} has no body"):
        vector.lookup(op, dst, src, mode=mode)
    with pytest.raises(AtlasError, match="no vector function 'exp_float32'"):
        vector.function("exp_float32")

"""Where the rounding error of a result comes from: the call again, in exact fractions.

:func:`rounding_error` computes the gradient that the formula means, without any rounding, and says for
each element how far the chip's result is from it and which step moved it by how much.
"""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emulator import api
from emulator.arrays import as_tensor, bfloat16, dtype_name
from kernel.mse_loss_backward import OPERATOR, TENSORS, Reduction, coefficient
from kernel.numerics.formats import FORMATS, FormatInfo
from socs.errors import AtlasError
from socs.isa import DType
from socs.spec import Numerics

MAX_ELEMENTS = 10_000
"""Elements of one call: fractions are slow, and a table of more serves nobody."""

WHOLE = 1 << 53
"""Whole numbers up to here are float64 numbers too."""

Index = tuple[int, ...]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class RoundingStep:
    """One rounding on the way to an element.

    ``name``: ``inputs``, ``coefficient``, ``sub``, ``muls``, ``mul`` or ``narrow``. ``computes``: the step as
    a formula. ``exact``: its result before rounding, from the rounded operands; ``None`` for ``inputs`` and
    where an operand is not finite. ``rounded``: its result on the chip; ``None`` for ``inputs``. ``share``:
    what this rounding moved the final value by, in ULP of the result; ``None`` where the element has no error
    to share out.
    """

    name: str
    computes: str
    exact: Fraction | None
    rounded: float | None
    share: Fraction | None


@dataclass(frozen=True, slots=True)
class RoundingError:
    """One element: what the chip writes, what it should have been, and why they differ.

    ``index``: of the element in the result. ``value``, ``bits``: what the chip writes. ``exact``: the real
    number ``grad_output * (self - target) * coefficient`` of the (true) inputs; ``None`` where an input is
    infinite or NaN. ``ulp``: the unit, see :func:`ulp`. ``error``: ``(value - exact) / ulp``, exactly;
    ``error_ulp``: the same as a float; both ``None`` where there is no finite error, and then ``reason`` says
    why. ``steps``: step name to its share of the error in ULP, as floats; empty without an error. ``trace``:
    every step, whose exact shares add up to ``error``. ``inputs``: tensor name to the number that the chip
    was given; ``true_inputs``: to the number before it was rounded. ``dtype``: of the result.
    """

    index: Index
    value: float
    bits: int
    exact: Fraction | None
    ulp: Fraction | None
    error: Fraction | None
    error_ulp: float | None
    reason: str | None
    steps: Mapping[str, float]
    trace: tuple[RoundingStep, ...] = field(repr=False)
    inputs: Mapping[str, float]
    true_inputs: Mapping[str, float]
    dtype: str

    def __str__(self) -> str:
        return "\n".join(_table(self))


@dataclass(frozen=True, slots=True)
class RoundingErrors:
    """The elements that were asked for, and a summary of those with a finite error.

    ``max_ulp`` and ``mean_ulp``: largest and mean size of the error; ``worst``: the index of the largest, the
    first of several. All three are ``None`` if no element has an error. ``without_error``: how many elements
    have none (overflow, infinite or NaN inputs). ``kernel``, ``soc``, ``overflow``: what computed them.
    """

    elements: tuple[RoundingError, ...] = field(repr=False)
    max_ulp: float | None
    mean_ulp: float | None
    worst: Index | None
    without_error: int
    shape: Index
    dtype: str
    reduction: str
    soc: str
    kernel: str
    overflow: str

    def __str__(self) -> str:
        lines = [
            f"{self.dtype} {list(self.shape)}, reduction {self.reduction}, {self.kernel} on {self.soc} "
            f"({self.overflow})",
            f"elements looked at: {len(self.elements)}, without a finite error: {self.without_error}",
        ]
        if self.worst is not None:
            lines.append(
                f"error in ULP: largest {self.max_ulp:.4g} at {self.worst}, mean {self.mean_ulp:.4g}"
            )
            lines += ["", *_table(next(e for e in self.elements if e.index == self.worst))]
        return "\n".join(lines)


def rounding_error(
    grad_output: object,
    self: object,
    target: object,
    *,
    reduction: str | int = "mean",
    soc: api.SocLike = api.DEFAULT_SOC,
    release: str = "newer",
    kernel: str | None = None,
    overflow: str | None = None,
    dtype: str | None = None,
    true_inputs: Mapping[str, object] | Sequence[object] | None = None,
    index: int | Index | list[int | Index] | None = None,
) -> RoundingErrors:
    """The error of every element of a call in ULP of the result's dtype, and each step's share of it.

    The exact result is ``grad_output * (self - target) * c`` in fractions, with ``c`` = 2/N for ``mean`` (N:
    elements of ``self``) and 2 otherwise. The chip's value comes from the same code as :func:`emulator.run`;
    the steps are replayed here and must arrive at its bits.

    A step's share is what its rounding moved the *final* value by: the later steps are done exactly, once
    from the number before the rounding and once from the number after it. So the shares add up to the error,
    exactly. The steps: ``inputs`` (only with ``dtype`` or ``true_inputs``), ``coefficient`` (c to float32),
    ``sub``, ``muls``, ``mul`` (float32), ``narrow`` (float16 and bfloat16 only).

    An ULP is the distance between adjacent numbers of the dtype at the exact result (:func:`ulp`). A result
    that overflowed, to infinity or to the largest number in saturation mode, has no finite error, nor has
    one of infinite or NaN inputs: its error is ``None``, with a reason.

    ``dtype``: round the tensors to it first (nearest even); the exact result is that of the tensors as given.
    ``true_inputs``: instead, the numbers that the tensors were rounded from: a mapping by name, or all three
    in order; a missing one is exact. ``index``: one element (a flat position, or a tuple with a number per
    dimension), a list of such, or ``None`` for all, up to 10,000. The others as in :func:`emulator.run`.

    Raises ``AtlasError``.
    """
    given = {"grad_output": grad_output, "self": self, "target": target}
    tensors, true = _tensors(given, dtype, true_inputs)
    result = api._run(
        OPERATOR,
        tensors,
        soc=api.soc(soc),
        backend=None,
        kernel=kernel,
        tiling=None,
        l2="cold",
        engine=None,
        reduction=reduction,
        overflow=overflow,
        bits="compiled",
        out=None,
        timed=False,
        release=release,
    )
    assert result.output is not None
    arrays = {name: as_tensor(tensors[name], name) for name in TENSORS}
    shape, parsed = result.output.shape, Reduction.parse(reduction)
    indices = _indices(index, shape)
    own = arrays["self"].shape
    call = _Call(
        dtype=DType(result.dtype),
        factor=Fraction(2, math.prod(own)) if parsed is Reduction.MEAN and math.prod(own) else Fraction(2),
        formula=f"c = 2 / {math.prod(own)}" if parsed is Reduction.MEAN else "c = 2",
        coefficient=float(coefficient(own, parsed, result.kernel)) if indices else 2.0,
        numerics=result.soc.numerics,
        saturate=result.overflow == "saturation",
        inputs_rounded=dtype is not None or true_inputs is not None,
    )
    chip = {name: np.broadcast_to(array, shape) for name, array in arrays.items()}
    original = {name: np.broadcast_to(true.get(name, arrays[name]), shape) for name in TENSORS}
    elements = tuple(_element(call, at, chip, original, result.output) for at in indices)
    sizes = [(abs(e.error), e.index) for e in elements if e.error is not None]
    largest = max(sizes, key=lambda pair: pair[0]) if sizes else None
    return RoundingErrors(
        elements=elements,
        max_ulp=_as_float(largest[0]) if largest else None,
        mean_ulp=_as_float(sum((size for size, _ in sizes), Fraction(0)) / len(sizes)) if sizes else None,
        worst=largest[1] if largest else None,
        without_error=len(elements) - len(sizes),
        shape=shape,
        dtype=result.dtype,
        reduction=parsed.name.lower(),
        soc=result.soc.name,
        kernel=result.kernel,
        overflow=result.overflow,
    )


def ulp(value: Fraction, dtype: DType | str) -> Fraction:
    """The unit in the last place of ``dtype`` at ``value``.

    The distance between adjacent numbers of the format in the binade ``2^e <= |value| < 2^(e+1)``, as
    Goldberg defines it; at a power of two the larger of the two distances (Harrison takes the smaller). Below
    the smallest normal number, and at 0, the spacing of the subnormal numbers; above the largest finite
    number, the spacing just below it.
    """
    info = FORMATS[DType(dtype)]
    return _power(min(_exponent(value, info), info.bias) - info.mantissa_bits)


@dataclass(frozen=True, slots=True)
class _Call:
    """What is the same for every element."""

    dtype: DType
    factor: Fraction
    formula: str
    coefficient: float
    numerics: Numerics
    saturate: bool
    inputs_rounded: bool


def _element(
    call: _Call, at: Index, chip: Mapping[str, Array], original: Mapping[str, Array], output: Array
) -> RoundingError:
    given = {name: float(chip[name][at]) for name in TENSORS}
    true = {name: float(original[name][at]) for name in TENSORS}
    wide = FORMATS[DType.FLOAT32]
    written = output[at]
    reason = None
    for name, number in true.items():
        if not math.isfinite(number):
            reason = reason or f"{name} is {number}"
    for name, number in given.items():
        if not math.isfinite(number):
            reason = reason or f"{name} overflows {call.dtype}: {true[name]} becomes {number}"

    factor = call.coefficient
    rounded: dict[str, float] = {"coefficient": factor}
    before: dict[str, Fraction | None] = {"coefficient": call.factor}

    def step(name: str, a: float, b: float | None, info: FormatInfo, saturate: bool) -> float:
        nonlocal reason
        exact, value, why = _rounded(name, a, b, info, call.numerics, saturate)
        before[name], rounded[name] = exact, value
        reason = reason or why
        return value

    saturate_wide = call.saturate and call.numerics.float32_overflow == "saturate"
    d = step("sub", given["self"], given["target"], wide, saturate_wide)
    t = step("muls", d, factor, wide, saturate_wide)
    value = step("mul", t, given["grad_output"], wide, saturate_wide)
    if call.dtype is not DType.FLOAT32:
        value = step("narrow", value, None, FORMATS[call.dtype], call.saturate)
    bits = _bits(value, call)
    real = int.from_bytes(output[at].tobytes(), "little")
    if bits != real:
        raise AtlasError(
            f"element {at}: the replayed steps give {value} (0x{bits:x}), the chip {written} (0x{real:x}): "
            "an error of the emulator (emulator.rounding)"
        )

    exact = None
    if all(map(math.isfinite, true.values())):
        numbers = {name: Fraction(number) for name, number in true.items()}
        exact = numbers["grad_output"] * (numbers["self"] - numbers["target"]) * call.factor
    unit = None if exact is None else ulp(exact, call.dtype)
    error: Fraction | None = None
    shares: dict[str, Fraction] = {}
    if reason is None:
        assert exact is not None
        assert unit is not None
        shares = _shares(call, exact, unit, {name: Fraction(v) for name, v in given.items()}, rounded)
        error = (Fraction(value) - exact) / unit
        assert sum(shares.values()) == error
    computes = {
        "inputs": f"tensors to {call.dtype}",
        "coefficient": call.formula,
        "sub": "d = self - target",
        "muls": "t = d * c",
        "mul": "r = t * grad_output",
        "narrow": f"r to {call.dtype}",
    }
    names = [*(["inputs"] if call.inputs_rounded else []), *rounded]
    return RoundingError(
        index=at,
        value=value,
        bits=bits,
        exact=exact,
        ulp=unit,
        error=error,
        error_ulp=None if error is None else _as_float(error),
        reason=reason,
        steps={name: _as_float(share) for name, share in shares.items()},
        trace=tuple(
            RoundingStep(name, computes[name], before.get(name), rounded.get(name), shares.get(name))
            for name in names
        ),
        inputs=given,
        true_inputs=true,
        dtype=str(call.dtype),
    )


def _shares(
    call: _Call, exact: Fraction, unit: Fraction, given: Mapping[str, Fraction], rounded: Mapping[str, float]
) -> dict[str, Fraction]:
    """The final value after each rounding in turn, everything later done exactly; then the differences."""
    g, d = given["grad_output"], given["self"] - given["target"]
    finals = {}
    if call.inputs_rounded:
        finals["inputs"] = g * d * call.factor
    c = Fraction(rounded["coefficient"])
    finals |= {
        "coefficient": g * d * c,
        "sub": g * Fraction(rounded["sub"]) * c,
        "muls": g * Fraction(rounded["muls"]),
        "mul": Fraction(rounded["mul"]),
    }
    if "narrow" in rounded:
        finals["narrow"] = Fraction(rounded["narrow"])
    shares, last = {}, exact
    for name, final in finals.items():
        shares[name] = (final - last) / unit
        last = final
    return shares


def _rounded(
    name: str, a: float, b: float | None, info: FormatInfo, numerics: Numerics, saturate: bool
) -> tuple[Fraction | None, float, str | None]:
    """A step on the chip: its result before and after rounding, and why it has no finite error."""
    # The float64 result decides what fractions cannot: infinities, NaN, and the sign of a zero.
    plain = a if b is None else a - b if name == "sub" else a * b
    exact, reason = None, None
    value = plain
    limit = _largest(info)
    if math.isfinite(a) and (b is None or math.isfinite(b)):
        fa = Fraction(a)
        exact = fa if b is None else fa - Fraction(b) if name == "sub" else fa * Fraction(b)
        if exact:
            nearest = _nearest(exact, info)
            if abs(nearest) > limit:
                value = math.copysign(math.inf, exact)
                shown = value if not saturate else math.copysign(float(limit), exact)
                reason = (
                    f"{name} overflows {info.name}: {_digits(exact, 8)} is beyond {_digits(limit, 8)}, "
                    f"the chip makes it {shown:.8g}"
                )
            else:
                value = math.copysign(float(nearest), exact)
                if numerics.subnormals == "flushed" and abs(nearest) < _power(info.least_exponent):
                    value = math.copysign(0.0, exact)
    if saturate:
        value = 0.0 if math.isnan(value) else max(min(value, float(limit)), -float(limit))
    return exact, value, reason


def _nearest(exact: Fraction, info: FormatInfo) -> Fraction:
    """Round to nearest even, as if exponents had no upper end."""
    unit = _power(_exponent(exact, info) - info.mantissa_bits)
    return round(exact / unit) * unit


def _exponent(value: Fraction, info: FormatInfo) -> int:
    """The exponent of the binade of ``value``, not below that of the smallest normal number."""
    if not value:
        return info.least_exponent
    exponent = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(value) < _power(exponent):
        exponent -= 1
    return max(exponent, info.least_exponent)


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def _largest(info: FormatInfo) -> Fraction:
    return (2 - _power(-info.mantissa_bits)) * _power(info.bias)


def _bits(value: float, call: _Call) -> int:
    """The pattern of a number that the dtype has."""
    info = FORMATS[call.dtype]
    if math.isnan(value):
        return info.nan_all_ones if call.numerics.nan == "all_ones" else info.nan_quiet
    return int.from_bytes(np.array(value, _numpy(call.dtype)).tobytes(), "little")


def _numpy(dtype: DType) -> np.dtype[Any]:
    return bfloat16() if dtype is DType.BFLOAT16 else np.dtype(str(dtype))


def _tensors(
    given: Mapping[str, object],
    dtype: str | None,
    true_inputs: Mapping[str, object] | Sequence[object] | None,
) -> tuple[dict[str, object], dict[str, Array]]:
    """What the chip is given, and the numbers that it was rounded from."""
    if dtype is None and true_inputs is None:
        return dict(given), {}
    if dtype is not None and true_inputs is not None:
        raise AtlasError("dtype and true_inputs exclude each other: both say what the tensors were before")
    if dtype is not None:
        if dtype not in tuple(map(str, FORMATS)):
            raise AtlasError(f"dtype = {dtype!r}: must be {', '.join(FORMATS)}")
        true = {name: _true(value, name) for name, value in given.items() if value is not None}
        return {**given, **{name: round_to(array, DType(dtype)) for name, array in true.items()}}, true
    if isinstance(true_inputs, Mapping):
        named = dict(true_inputs)
    elif isinstance(true_inputs, (list, tuple)) and len(true_inputs) == len(TENSORS):
        named = dict(zip(TENSORS, true_inputs, strict=True))
    else:
        raise AtlasError(f"true_inputs: must map {', '.join(TENSORS)} to arrays, or be all three in order")
    found = {}
    for name, value in named.items():
        if name not in TENSORS:
            raise AtlasError(f"true_inputs has no {name!r}: it takes {', '.join(TENSORS)}")
        array, own = _true(value, f"true {name}"), as_tensor(given[name], name)
        if array.shape != own.shape:
            raise AtlasError(f"true {name} has shape {array.shape}, {name} has {own.shape}: they must agree")
        found[name] = array
    return dict(given), found


def _true(value: object, name: str) -> Array:
    """An array whose every element is exactly a float64 number."""
    array = as_tensor(value, name)
    if dtype_name(array) in ("float64", "float32", "float16", "bfloat16"):
        return array.astype(np.float64)
    if array.dtype.kind not in "iu" or (array.size and int(abs(array.astype(object)).max()) > WHOLE):
        raise AtlasError(
            f"{name} is {dtype_name(array)}: a true input is float64, float32, float16, bfloat16, "
            f"or whole numbers up to {WHOLE}"
        )
    return array.astype(np.float64)


def round_to(array: Array, dtype: DType) -> Array:
    """float64 numbers to ``dtype``, rounded once, to nearest even."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if dtype is not DType.BFLOAT16:
            return array.astype(_numpy(dtype))
        # ml_dtypes goes through float32; a float32 rounded to odd on the way keeps what was cut off.
        single = np.atleast_1d(array.astype(np.float32))
        wide = np.atleast_1d(array)
        bits = single.view(np.uint32).copy()
        bits[np.abs(single.astype(np.float64)) > np.abs(wide)] -= 1
        bits[single.astype(np.float64) != wide] |= 1
        odd: Array = np.where(np.isnan(wide), single, bits.view(np.float32))
        return odd.astype(bfloat16()).reshape(array.shape)


def _indices(index: object, shape: Index) -> list[Index]:
    total = math.prod(shape)
    if index is None:
        if total > MAX_ELEMENTS:
            raise AtlasError(f"{total} elements are more than {MAX_ELEMENTS}: choose some with index")
        return [tuple(map(int, np.unravel_index(flat, shape))) for flat in range(total)]
    if not isinstance(index, list):
        return [_index(index, shape)]
    if len(index) > MAX_ELEMENTS:
        raise AtlasError(f"index has {len(index)} elements: at most {MAX_ELEMENTS} are allowed")
    return [_index(one, shape) for one in index]


def _index(index: object, shape: Index) -> Index:
    """One element, as a tuple of numbers from 0."""
    place = tuple(index) if isinstance(index, tuple) else (index,)
    dims = shape if isinstance(index, tuple) else (math.prod(shape),)
    if any(isinstance(part, (bool, np.bool_)) or not hasattr(part, "__index__") for part in place):
        raise AtlasError(f"index = {index!r}: must be a whole number or a tuple of them")
    numbers = [operators.index(part) for part in place]
    if len(numbers) != len(dims) or any(
        not -dim <= number < dim for number, dim in zip(numbers, dims, strict=True)
    ):
        raise AtlasError(f"index = {index!r}: no element of the result, whose shape is {list(shape)}")
    positive = tuple(number % dim for number, dim in zip(numbers, dims, strict=True))
    if isinstance(index, tuple):
        return positive
    return tuple(map(int, np.unravel_index(positive[0], shape))) if shape else ()


def _table(element: RoundingError) -> list[str]:
    """The text of one element, for reading."""
    width = (FORMATS[DType(element.dtype)].width + 3) // 4
    head = [
        ("element", str(element.index)),
        *((name, _input(value, element.true_inputs[name])) for name, value in element.inputs.items()),
        ("exact result", "none" if element.exact is None else _digits(element.exact)),
        ("the chip writes", f"{_number(element.value)}  (0x{element.bits:0{width}x}, {element.dtype})"),
    ]
    if element.error is None or element.ulp is None:
        head.append(("error", f"none: {element.reason}"))
    else:
        head.append(("error", f"{_signed(element.error)} ULP, 1 ULP = {_digits(element.ulp, 6)}"))
    lines = [f"{name:<16} {text}" for name, text in head]
    rows = [("step", "computes", "before rounding", "after", "moves the result by")]
    for step in element.trace:
        rows.append(
            (
                step.name,
                step.computes,
                "" if step.exact is None else _digits(step.exact),
                "" if step.rounded is None else _number(step.rounded),
                "" if step.share is None else f"{_signed(step.share)} ULP",
            )
        )
    if element.error is not None:
        rows.append(("sum", "", "", "", f"{_signed(element.error)} ULP"))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    table = ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, "", *table]


def _input(value: float, true: float) -> str:
    same = value == true or math.isnan(true)
    return _number(value) + ("" if same else f"  (rounded from {_number(true)})")


def _signed(number: Fraction) -> str:
    if not number:
        return "0"
    size = abs(number)
    return f"{_as_float(number):+.4f}" if Fraction(1, 1000) <= size < 10_000 else f"{_as_float(number):+.4g}"


def _number(value: float) -> str:
    return f"{value:g}" if not (value and math.isfinite(value)) else _digits(Fraction(value))


def _digits(number: Fraction, places: int = 14) -> str:
    """Decimal digits; fewer where fewer say it exactly."""
    context = Context(prec=places)
    quotient = context.divide(Decimal(number.numerator), Decimal(number.denominator))
    if abs(quotient) < Decimal("1e300") and (not quotient or abs(quotient) > Decimal("1e-300")):
        return f"{float(quotient):.{places}g}"
    return f"{quotient.normalize(context):.{places}g}"


def _as_float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number)


__all__ = ["RoundingError", "RoundingErrors", "RoundingStep", "round_to", "rounding_error", "ulp"]

"""The operators around the gradient through ctypes, and what they must give: the emulator's own operators.

The oracle of a call is a chain of ``emulator.run`` (``mul``, ``add``, ``sub``, ``muls``, ``cast``) by the
route that ``docs/cann.md`` states; that of sums is NumPy in the stated order.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from c_cases import DTYPES, wild
from c_library import Library, Uploaded
from numpy.typing import NDArray

import emulator
from emulator.aclnn import AclTensor
from emulator.aclnn.codes import DTYPES as CODES

Array = NDArray[Any]

F32, F16, BF16 = (np.dtype(t) for t in (np.float32, np.float16, ml_dtypes.bfloat16))


@dataclass(frozen=True)
class Scalar:
    """An ``aclScalar`` of a dtype."""

    value: float
    dtype: str = "float64"


@dataclass(frozen=True)
class Dtype:
    """An ``aclDataType``."""

    name: str


class Operators(Library):
    """Any function of two phases, from its arguments."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.nn.aclCreateScalar.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.nn.aclCreateScalar.restype = ctypes.c_void_p
        self.nn.aclDestroyScalar.argtypes = [ctypes.c_void_p]
        self.nn.aclCreateIntArray.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_uint64]
        self.nn.aclCreateIntArray.restype = ctypes.c_void_p
        self.nn.aclDestroyIntArray.argtypes = [ctypes.c_void_p]

    def apply(self, name: str, *arguments: Any, saturate: bool | None = None) -> tuple[int, str | None]:
        """Both phases of ``name``: the first status that is not 0, and the message.

        Arrays and ``AclTensor`` become tensors (those of one base share their memory), ``Scalar`` a scalar, a
        tuple an ``aclIntArray``, ``None`` a NULL.
        """
        device: Uploaded = {}
        made: list[tuple[Any, int]] = []
        passed: list[Any] = []
        for argument in arguments:
            if isinstance(argument, np.ndarray):
                argument = AclTensor.from_array(argument)
            if isinstance(argument, AclTensor):
                handle = self.upload(argument, device)
                made.append((self.nn.aclDestroyTensor, handle))
                passed.append(ctypes.c_void_p(handle))
            elif isinstance(argument, Scalar):
                held = np.array(argument.value).astype(argument.dtype)
                handle = self.nn.aclCreateScalar(held.ctypes.data, CODES[argument.dtype])
                made.append((self.nn.aclDestroyScalar, handle))
                passed.append(ctypes.c_void_p(handle))
            elif isinstance(argument, tuple):
                handle = self.nn.aclCreateIntArray(
                    (ctypes.c_int64 * max(len(argument), 1))(*argument), len(argument)
                )
                made.append((self.nn.aclDestroyIntArray, handle))
                passed.append(ctypes.c_void_p(handle))
            elif isinstance(argument, Dtype):
                passed.append(ctypes.c_int(CODES[argument.name]))
            elif isinstance(argument, bool):
                passed.append(ctypes.c_bool(argument))
            else:
                passed.append(argument)
        stream = self.stream(saturate)
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        phase_1, phase_2 = getattr(self.op, f"{name}GetWorkspaceSize"), getattr(self.op, name)
        status = phase_1(*passed, ctypes.byref(size), ctypes.byref(executor))
        if status == 0:
            assert size.value == 0
            phase_2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
            status = phase_2(None, 0, executor, stream)
            status = status or self.acl.aclrtSynchronizeStream(stream)
        message = self.message() if status else None
        self.download(device)
        for destroy, handle in made:
            assert destroy(handle) == 0
        if stream:
            assert self.acl.aclrtDestroyStream(stream) == 0
        return status, message


class Oracle:
    """What the emulator's own operators give on a chip, in an overflow mode."""

    def __init__(self, soc: str, overflow: str) -> None:
        from socs import load

        self.soc, self.overflow = soc, overflow
        self.registers = load(soc).npu_arch == 3510

    def run(self, operator: str, **given: Any) -> Array:
        if "y" in given:
            shape = np.broadcast_shapes(given["x"].shape, given["y"].shape)
            given = {name: np.broadcast_to(array, shape).copy() for name, array in given.items()}
        found = emulator.run(operator, soc=self.soc, overflow=self.overflow, **given).output
        assert found is not None
        return found

    def cast(self, x: Array, to: np.dtype[Any]) -> Array:
        return x if x.dtype == to else self.run("cast", x=x, to=str(to))

    def number(self, value: float, dtype: np.dtype[Any]) -> Array:
        return self.cast(np.array(value, np.float32), dtype)

    def pair(self, name: str, x: Array, y: Array, alpha: float = 1.0) -> Array:
        """``x name alpha * y``: the product is rounded to the common dtype before."""
        if x.dtype != y.dtype and (alpha != 1 or F32 not in (x.dtype, y.dtype)):
            x, y = self.cast(x, F32), self.cast(y, F32)
        if alpha != 1:
            y = self.run("mul", x=y, y=self.number(alpha, y.dtype))
        return self.run(name, x=x, y=y)

    def keeps(self, value: float, dtype: np.dtype[Any]) -> bool:
        kept = np.float32(self.number(value, dtype).astype(np.float32))
        with np.errstate(invalid="ignore"):
            return bool(abs(kept - np.float32(value)) <= np.finfo(np.float32).eps)

    def scaled(self, x: Array, scalar: Scalar) -> Array:
        """``x * scalar``, by the dtype of both (docs/cann.md)."""
        floating, value = scalar.dtype.startswith(("float", "bfloat")), scalar.value
        if x.dtype != F32 and self.registers and floating:
            # The kernel computes in float32 with a factor that is not rounded.
            return self.cast(self.run("muls", x=self.cast(x, F32), scalar=value), x.dtype)
        if x.dtype == BF16 and not self.registers and scalar.dtype == "float64":
            return self.run("muls", x=x, scalar=value)
        wide = not self.keeps(value, x.dtype) if self.registers else x.dtype == BF16
        if wide:
            x = self.cast(x, F32)
        return self.run("mul", x=x, y=self.number(value, x.dtype))

    def shifted(self, name: str, x: Array, scalar: Scalar, alpha: float) -> Array:
        """``x name alpha * scalar``."""
        kept = self.keeps(scalar.value, x.dtype) and self.keeps(alpha, x.dtype)
        if self.registers and not kept:
            x = self.cast(x, F32)
        return self.pair(name, x, self.number(scalar.value, x.dtype), alpha)

    def sum(self, x: Array, axes: tuple[int, ...], to: np.dtype[Any]) -> Array:
        """Tiles of 4096 by halves, tiles in order, from +0; axes that go are innermost, in their order."""
        x = self.cast(x, to)
        if x.ndim == 0:
            return x
        axes = tuple(axis % x.ndim for axis in axes) or tuple(range(x.ndim))
        stay = [axis for axis in range(x.ndim) if axis not in axes]
        wide = self.cast(x.copy(), F32).transpose(*stay, *sorted(axes))
        shape = tuple(x.shape[axis] for axis in stay)
        rows = wide.reshape(int(np.prod(shape, dtype=np.int64)), -1)
        total = np.zeros(len(rows), np.float32)
        with np.errstate(all="ignore"):
            for begin in range(0, rows.shape[1], 4096):
                tile = rows[:, begin : begin + 4096].copy()
                while tile.shape[1] > 1:
                    half = (tile.shape[1] + 1) // 2
                    tile[:, : tile.shape[1] - half] += tile[:, half:]
                    tile = tile[:, :half]
                total = total + tile[:, 0]
        # The chip's NaN instead of the host's.
        return self.cast(self.run("mul", x=total, y=np.float32(1.0)), to).reshape(shape)


Case = tuple[str, str, Callable[[], list[Any]], Callable[[Oracle, list[Any]], Array]]
"""What it is, the function, its arguments (the result is the last array), and what the result must be."""

SHAPES = (
    *(((), ()), ((1,), (1,)), ((5,), (5,)), ((4, 8), (8,)), ((4, 1), (4, 8)), ((1,), (3, 5)), ((), (2, 3))),
    *(((3, 1), (1, 4)), ((0, 3), (3,)), ((40001,), (40001,)), ((200, 201), (1,)), ((2, 3, 1), (4,))),
    ((1, 2, 1, 2, 1, 2, 3, 1), (2, 2, 1, 2, 1, 2, 3, 5)),
)
PAIRS = ("mul", "add", "sub")


def _blank(shape: tuple[int, ...], dtype: Any) -> Array:
    return np.full(shape, 7, dtype)


def _pair_case(name: str, make: Callable[[], list[Array]], alpha: float, what: str) -> Case:
    def arguments() -> list[Any]:
        x, y, out = make()
        return [x, y, *([] if name == "mul" else [Scalar(alpha)]), out]

    def wanted(oracle: Oracle, given: list[Any]) -> Array:
        return oracle.pair(name, given[0], given[1], alpha)

    return what, f"aclnn{name.capitalize()}", arguments, wanted


def pair_cases(dtypes: Sequence[Any]) -> Iterator[Case]:
    for name, dtype, (left, right) in itertools.product(PAIRS, dtypes, SHAPES):
        joined = np.broadcast_shapes(left, right)

        def plain(
            left: Any = left, right: Any = right, joined: Any = joined, dtype: Any = dtype
        ) -> list[Array]:
            return [wild(left, dtype, 1), wild(right, dtype, 2), _blank(joined, dtype)]

        yield _pair_case(name, plain, 1.0, f"{left} {right} {np.dtype(dtype)}")
    for name, left_type, right_type, out in itertools.product(PAIRS, dtypes, dtypes, dtypes):
        for alpha in (1.0,) if name == "mul" else (1.0, -0.1):

            def mixed(types: Any = (left_type, right_type, out)) -> list[Array]:
                return [wild((9, 40), types[0], 3), wild((40,), types[1], 4), _blank((9, 40), types[2])]

            types = " ".join(str(np.dtype(t)) for t in (left_type, right_type, out))
            yield _pair_case(name, mixed, alpha, f"mixed {types} {alpha}")
    for name, dtype in itertools.product(PAIRS, dtypes):
        for what, make in _views(dtype).items():
            yield _pair_case(name, make, 1.0, f"{what} {np.dtype(dtype)}")


def _views(dtype: Any) -> dict[str, Callable[[], list[Array]]]:
    def big(seed: int) -> Array:
        return wild((24, 40), dtype, seed)

    def shared() -> Array:
        return wild((3000,), dtype, 9)

    blank = _blank((24, 40), dtype)
    return {
        "transposed": lambda: [big(0).T, big(1).T, blank.copy().T],
        "one transposed": lambda: [big(0), wild((40, 24), dtype, 1).T, blank.copy()],
        "reversed": lambda: [big(0)[::-1], big(1)[:, ::-1], blank.copy()],
        "steps": lambda: [big(0)[::2, ::3], big(1)[1::2, ::3], _blank((12, 14), dtype)],
        "out in steps": lambda: [big(0), big(1), _blank((48, 80), dtype)[::2, ::-2]],
        "offset": lambda: [a[3:, 1:] for a in (big(0), big(1), blank.copy())],
        "repeated": lambda: [np.broadcast_to(wild((40,), dtype, 0), (24, 40)), big(1), blank.copy()],
        "out is the first": lambda: (lambda a: [a, big(1), a])(big(0)),
        "out is the second": lambda: (lambda a: [big(0), a, a])(big(1)),
        "out is the first, reversed": lambda: (lambda a: [a, big(1), a[::-1]])(big(0)),
        "shifted overlap": lambda: (lambda m: [m[0:960], m[40:1000], m[41:1001]])(shared()),
        "three axes": lambda: [
            *(wild((6, 5, 7), dtype, s).transpose(2, 0, 1) for s in range(2)),
            _blank((5, 7, 6), dtype).transpose(1, 2, 0),
        ],
    }


SCALARS = (
    *(
        Scalar(0.1),
        Scalar(2.5),
        Scalar(3, "int64"),
        Scalar(0.1, "float32"),
        Scalar(70000.0),
        Scalar(2049, "int32"),
    ),
    *(Scalar(1.0, "bool"), Scalar(0.3, "float16"), Scalar(-0.0), Scalar(float("inf"))),
)


def scalar_cases(dtypes: Sequence[Any]) -> Iterator[Case]:
    for dtype, scalar in itertools.product(dtypes, SCALARS):
        # A scalar holds what its dtype can.
        value = float(np.array(scalar.value).astype(scalar.dtype).astype(np.float64))
        exact = Scalar(value, scalar.dtype)
        for out in dtypes if scalar is SCALARS[0] else (dtype,):
            yield (
                f"{np.dtype(dtype)} {scalar} to {np.dtype(out)}",
                "aclnnMuls",
                lambda dtype=dtype, scalar=scalar, out=out: [
                    wild((7, 60), dtype, 5),
                    scalar,
                    _blank((7, 60), out),
                ],
                lambda oracle, given, exact=exact: oracle.scaled(given[0], exact),
            )
        yield (
            f"{np.dtype(dtype)} {scalar}",
            "aclnnInplaceMuls",
            lambda dtype=dtype, scalar=scalar: [wild((7, 60), dtype, 6)[:, ::2], scalar],
            lambda oracle, given, exact=exact: oracle.scaled(given[0], exact),
        )
        for name, alpha in (("add", 1.0), ("add", -2.5), ("sub", 1.0), ("sub", 0.1)):
            yield (
                f"{np.dtype(dtype)} {scalar} {alpha}",
                f"aclnn{name.capitalize()}s",
                lambda dtype=dtype, scalar=scalar, alpha=alpha: [
                    *(wild((7, 60), dtype, 7).T, scalar, Scalar(alpha), _blank((60, 7), dtype)),
                ],
                lambda oracle, given, name=name, exact=exact, alpha=alpha: oracle.shifted(
                    name, given[0], exact, alpha
                ),
            )
    for name, dtype in itertools.product(PAIRS, dtypes):
        more = [] if name == "mul" else [Scalar(1)]
        yield (
            f"in place {np.dtype(dtype)}",
            f"aclnnInplace{name.capitalize()}",
            lambda dtype=dtype, more=more: [
                wild((7, 60), dtype, 8),
                wild((60,), F16 if dtype == F32 else dtype, 9),
                *more,
            ],
            lambda oracle, given, name=name: oracle.pair(name, given[0], given[1]),
        )


def sum_cases(dtypes: Sequence[Any]) -> Iterator[Case]:
    shapes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        *(
            ((), ()),
            ((1,), ()),
            ((7,), (0,)),
            ((3, 5), ()),
            ((3, 5), (0,)),
            ((3, 5), (-1,)),
            ((4, 3, 5), (0, 2)),
        ),
        *(
            ((4, 3, 5), (2, 0)),
            ((30000,), ()),
            ((3, 9001), (1,)),
            ((9001, 3), (0,)),
            ((0, 4), (0,)),
            ((4, 0), (0,)),
        ),
        ((1, 2, 1, 3, 1, 2, 1, 2), (1, 3, 5)),
    )
    for (shape, axes), dtype, to, keep in itertools.product(shapes, dtypes, dtypes, (False, True)):
        if keep and len(shape) != 3:
            continue

        def make(
            shape: Any = shape, axes: Any = axes, dtype: Any = dtype, to: Any = to, keep: bool = keep
        ) -> list[Any]:
            gone = {axis % max(len(shape), 1) for axis in axes} or set(range(len(shape)))
            left = [1 if a in gone else n for a, n in enumerate(shape) if keep or a not in gone]
            # Numbers of a size, so that the order shows; and in the short ones, of any.
            size = int(np.prod(shape, dtype=np.int64))
            x = (
                wild(shape, dtype, 11)
                if size < 100
                else np.random.default_rng(3).standard_normal(shape).astype(dtype)
            )
            return [x, axes, keep, Dtype(str(np.dtype(to))), _blank(tuple(left), to)]

        def wanted(oracle: Oracle, given: list[Any]) -> Array:
            return oracle.sum(given[0], given[1], given[-1].dtype).reshape(given[-1].shape)

        yield f"{shape} {axes} {keep} {np.dtype(dtype)} to {np.dtype(to)}", "aclnnReduceSum", make, wanted
    for dtype in dtypes:
        views: dict[str, Callable[[], list[Any]]] = {
            "transposed": lambda dtype=dtype: [wild((9, 6, 4), dtype, 1).T, (0,), _blank((6, 9), dtype)],
            "reversed": lambda dtype=dtype: [wild((9, 6), dtype, 1)[::-1], (0,), _blank((6,), dtype)],
            "repeated": lambda dtype=dtype: [
                np.broadcast_to(wild((6,), dtype, 1), (9, 6)),
                (),
                _blank((), dtype),
            ],
            "out in steps": lambda dtype=dtype: [wild((9, 6), dtype, 1), (1,), _blank((18,), dtype)[::-2]],
            "out of one element": lambda dtype=dtype: [wild((9,), dtype, 1), (), _blank((1,), dtype)],
            "into itself": lambda dtype=dtype: (lambda a: [a, (0,), a[2]])(wild((9, 6), dtype, 1)),
        }
        for what, view in views.items():

            def arguments(view: Callable[[], list[Any]] = view) -> list[Any]:
                x, axes, out = view()
                return [x, axes, False, Dtype(str(out.dtype)), out]

            def summed(oracle: Oracle, given: list[Any]) -> Array:
                return oracle.sum(given[0], given[1], given[-1].dtype).reshape(given[-1].shape)

            yield f"{what} {np.dtype(dtype)}", "aclnnReduceSum", arguments, summed


def loss_cases(dtypes: Sequence[Any]) -> Iterator[Case]:
    def wanted(oracle: Oracle, given: list[Any]) -> Array:
        x, y, reduction, out = given
        difference = oracle.pair("sub", oracle.cast(x, F32), oracle.cast(y, F32))
        squares = oracle.pair("mul", difference, difference)
        if reduction.value:
            squares = oracle.sum(squares, (), F32)
        if reduction.value == 1:
            squares = oracle.pair("mul", squares, np.array(np.float32(1) / np.float32(x.size)))
        return oracle.cast(squares, out.dtype)

    for dtype, reduction, shape in itertools.product(dtypes, range(3), ((), (7,), (130, 70))):
        size = 1.0 if len(shape) == 2 else 1e30
        yield (
            f"{np.dtype(dtype)} {reduction} {shape}",
            "aclnnMseLoss",
            lambda dtype=dtype, reduction=reduction, shape=shape, size=size: [
                np.array(np.clip(wild(shape, dtype, 1).astype(np.float32), -size, size)).astype(dtype).T,
                np.array(np.clip(wild(shape, dtype, 2).astype(np.float32), -size, size)).astype(dtype).T,
                ctypes.c_int64(reduction),
                _blank(() if reduction else shape[::-1], dtype),
            ],
            wanted,
        )


def move_cases(dtypes: Sequence[Any]) -> Iterator[Case]:
    def cast(oracle: Oracle, given: list[Any]) -> Array:
        return oracle.cast(given[0].copy(), given[-1].dtype)

    def copied(oracle: Oracle, given: list[Any]) -> Array:
        target, source = given
        return np.broadcast_to(oracle.cast(source.copy(), target.dtype), target.shape)

    views: dict[str, tuple[Callable[[Any], Array], Callable[[Any], Array]]] = {
        "plain": (lambda t: wild((9, 40), t, 1), lambda t: _blank((9, 40), t)),
        "transposed": (lambda t: wild((40, 9), t, 1).T, lambda t: _blank((9, 40), t)),
        "out transposed": (lambda t: wild((9, 40), t, 1), lambda t: _blank((40, 9), t).T),
        "steps": (lambda t: wild((18, 80), t, 1)[::-2, ::2], lambda t: _blank((9, 80), t)[:, ::-2]),
        "none": (lambda t: wild((0, 4), t, 1), lambda t: _blank((0, 4), t)),
        "one": (lambda t: wild((), t, 1), lambda t: _blank((), t)),
        "many": (lambda t: wild((300, 301), t, 1), lambda t: _blank((300, 301), t)),
    }
    for source, target, (what, (make, blank)) in itertools.product(dtypes, dtypes, views.items()):
        yield (
            f"{what} {np.dtype(source)} to {np.dtype(target)}",
            "aclnnCast",
            lambda s=source, t=target, make=make, blank=blank: [make(s), Dtype(str(np.dtype(t))), blank(t)],
            cast,
        )
        yield (
            f"{what} {np.dtype(source)} to {np.dtype(target)}",
            "aclnnInplaceCopy",
            lambda s=source, t=target, make=make, blank=blank: [blank(t), make(s)],
            copied,
        )
    repeated: dict[str, Callable[[Any], list[Array]]] = {
        "a row": lambda t: [_blank((5, 6), t), wild((6,), F32, 1).astype(t)],
        "one": lambda t: [_blank((5, 6), t).T, wild((), F32, 1).astype(t)],
        "a column": lambda t: [_blank((5, 6), t), wild((5, 1), F32, 1).astype(t)],
        "overlap": lambda t: (lambda m: [m[3:90], m[:87]])(np.arange(200).astype(t)),
        "onto itself": lambda t: (lambda m: [m, m[::-1]])(np.arange(200).astype(t)),
    }
    others = ("int8", "uint8", "int16", "int32", "int64", "bool", "float64", "complex64")
    with np.errstate(invalid="ignore"):
        for name, (what, two) in itertools.product((*dtypes, *others), repeated.items()):
            yield f"{what} {name}", "aclnnInplaceCopy", lambda two=two, name=name: two(np.dtype(name)), copied


def fill_cases(dtypes: Sequence[Any]) -> Iterator[Case]:
    for dtype, value in itertools.product(
        (*dtypes, "int8", "int32", "int64", "bool", "float64"), (2.5, 1e6, -3.0)
    ):
        name = str(np.dtype(dtype))
        if name == "int8" and value == 1e6:
            continue

        def wanted(oracle: Oracle, given: list[Any], value: float = value) -> Array:
            out = given[0]
            one = (
                oracle.number(value, out.dtype) if out.dtype in DTYPES else np.array(value).astype(out.dtype)
            )
            return np.broadcast_to(one, out.shape)

        for what, view in {"plain": slice(None), "steps": slice(None, None, -2)}.items():
            yield (
                f"{what} {name} {value}",
                "aclnnInplaceFillScalar",
                lambda dtype=dtype, view=view, value=value: [_blank((6, 10), dtype)[view], Scalar(value)],
                wanted,
            )
    for function, value in (("aclnnInplaceZero", 0), ("aclnnInplaceOne", 1)):
        for dtype in (*dtypes, "int64", "bool"):
            yield (
                str(np.dtype(dtype)),
                function,
                lambda dtype=dtype: [np.full((6, 10), 7, dtype).T[::2]],
                lambda oracle, given, value=value: np.full(given[0].shape, value).astype(given[0].dtype),
            )


def compare(library: Operators, soc: str) -> dict[str, Any]:
    """How many calls were made, by function, and those with other bits than the oracle's."""
    from kernel.mse_loss_backward import supported_dtypes
    from socs import load

    chip = load(soc)
    dtypes = [np.dtype(str(dtype)) for dtype in supported_dtypes(chip)]
    made: dict[str, int] = {}
    differ: list[Any] = []
    families = (pair_cases, scalar_cases, sum_cases, loss_cases, move_cases, fill_cases)
    for mode in chip.numerics.overflow_modes:
        oracle = Oracle(soc, mode)
        for what, function, make, wanted in itertools.chain.from_iterable(f(dtypes) for f in families):
            given, theirs = make(), make()
            in_place = "Inplace" in function
            result = given[0] if in_place else given[-1]
            expected = theirs[0] if in_place else theirs[-1]
            if expected.size:
                expected[...] = oracle.cast(np.array(wanted(oracle, theirs)), expected.dtype)
            status, message = library.apply(function, *given, saturate=mode == "saturation")
            made[function] = made.get(function, 0) + 1
            # The whole of the memory: what the view leaves out stays as it was.
            ours, wants = (np.ascontiguousarray(_whole(a)).view(np.uint8) for a in (result, expected))
            if status != 0 or not np.array_equal(ours, wants):
                differ.append([function, what, mode, status, message])
    return {"made": made, "differ": differ}


def _whole(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array.reshape(-1)


def main() -> None:
    """Compare every case; prints what differs as JSON."""
    print(json.dumps(compare(Operators(Path(sys.argv[1])), sys.argv[2])))


if __name__ == "__main__":
    main()

"""The fused loop over views of any strides, through every way in which it walks a tensor."""

from __future__ import annotations

import itertools
import math
import types
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mse_oracle import INPUTS, as_bits, carrier, expected, random_tensors

import socs
from kernel import codegen
from kernel import compile as compiled
from kernel.codegen import Step, Walk
from kernel.compile import Computation, run_fused
from kernel.fuse import fuse
from kernel.layout import Layout, broadcast, coalesce, contiguous_strides, storage_of
from kernel.mse_loss_backward import Reduction, plan
from socs.isa import DType

F32, F16, BF16 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16
A2 = socs.load("Ascend910B4-1")
TWO = np.float32(2)
UNHURRIED = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


ELEMENTS: dict[str, Any] = {}


def plainly(source: str) -> Callable[..., None]:
    """The generated module with its loops in plain Python: any walk, at no cost of compiling.

    What it does to one element is compiled, once for each operator: plain Python has no float32.
    """
    element = source[source.index("def element(") : source.index("@njit(nogil=True)\ndef line(")]

    def njit(*_: Any, **__: Any) -> Callable[[Any], Any]:
        def decorate(function: Any) -> Any:
            if function.__name__ != "element":
                return function
            return ELEMENTS.setdefault(element, numba.njit(function))

        return decorate

    text = source.replace("from numba import njit, types", "").replace("CACHE", "False")
    text = text.replace(text[text.index("@njit([types") : text.index("def run(")], "")
    module = types.ModuleType("plain")
    module.__dict__["njit"] = njit
    exec(compile(text, "plain", "exec"), module.__dict__)
    run: Callable[..., None] = module.run
    return run


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Walk]:
    """The walks that are generated, uncompiled, with small squares and small streamed tensors."""
    seen: list[Walk] = []

    def source_of(fused: Any, walk: Walk) -> str:
        seen.append(walk)
        return codegen.source_of(fused, walk)

    monkeypatch.setattr(compiled, "source_of", source_of)
    monkeypatch.setattr(compiled, "_compiled", plainly)
    return seen


def a_fused(dtype: DType) -> Any:
    launch = plan(A2, shape=(4,), dtype=dtype, reduction=Reduction.SUM).launch
    assert launch is not None
    return fuse(launch, A2.numerics, False)


FUSED = {dtype: a_fused(dtype) for dtype in (F32, F16, BF16)}


def through_layouts(dtype: DType, views: dict[str, Any], shape: tuple[int, ...], threads: int = 1) -> None:
    layouts, flat = {}, {}
    for name, view in views.items():
        flat[name], strides, offset = storage_of(view)
        layouts[name] = Layout(shape, broadcast(view.shape, strides, shape), offset)
    run_fused(FUSED[dtype], layouts, flat, {"coefficient": 2.0}, threads=threads)


def should_be(dtype: DType, views: dict[str, Any], shape: tuple[int, ...]) -> Any:
    flat = {name: np.ascontiguousarray(np.broadcast_to(views[name], shape)).reshape(-1) for name in INPUTS}
    return expected(flat, dtype, TWO, saturate=False).reshape(shape)


class Memory:
    """A stretch of rubbish from which a view is cut, and what of it the view does not show."""

    def __init__(self, dtype: DType, n: int, seed: int) -> None:
        self.whole = random_tensors(dtype, n, seed)["self"]
        self.before = as_bits(self.whole.copy())

    def untouched_beside(self, view: Any) -> None:
        shown = np.zeros(self.whole.size, bool)
        start = (view.__array_interface__["data"][0] - self.whole.__array_interface__["data"][0]) // (
            view.itemsize
        )
        for index in itertools.product(*map(range, view.shape)):
            shown[start + sum(i * s // view.itemsize for i, s in zip(index, view.strides, strict=True))] = 1
        np.testing.assert_array_equal(as_bits(self.whole)[~shown], self.before[~shown])


@st.composite
def strided(draw: st.DrawFn, shape: tuple[int, ...], *, repeat: bool) -> tuple[tuple[int, ...], Any]:
    """(shape of the memory, function that cuts a view of ``shape`` from it): permuted, sliced, turned."""
    rank = len(shape)
    repeated = [repeat and draw(st.integers(0, 3)) == 0 for _ in shape]
    order = draw(st.permutations(range(rank)))
    steps = [draw(st.sampled_from((1, 1, 1, 2, 3, -1, -2))) for _ in shape]
    pads = [draw(st.sampled_from((0, 0, 1))) for _ in shape]
    real = [1 if r else n for n, r in zip(shape, repeated, strict=True)]
    memory = tuple(real[axis] * abs(steps[axis]) + pads[axis] for axis in order)

    def cut(whole: Any) -> Any:
        view = whole.reshape(memory).transpose([order.index(axis) for axis in range(rank)])
        held = [slice(0, n * abs(step), abs(step)) for n, step in zip(real, steps, strict=True)]
        turned = [slice(None, None, -1 if step < 0 else 1) for step in steps]
        return view[(*held, ...)][(*turned, ...)]

    return memory, cut


def made(data: Any, dtype: DType, shape: tuple[int, ...]) -> tuple[dict[str, Any], Memory]:
    views: dict[str, Any] = {}
    kept = None
    for number, name in enumerate((*INPUTS, "out")):
        memory, cut = data.draw(strided(shape, repeat=name != "out"), label=name)
        if name == "out":
            kept = Memory(dtype, math.prod(memory), number)
            views[name] = cut(kept.whole)
        else:
            views[name] = cut(random_tensors(dtype, math.prod(memory), number)["self"])
    assert kept is not None
    return views, kept


LINES = st.integers(1, 40)
SHAPES = st.lists(st.integers(1, 5), max_size=5).map(tuple) | st.tuples(LINES, LINES)


@settings(UNHURRIED, max_examples=150)
@given(data=st.data(), dtype=st.sampled_from([F32, F16, BF16]), shape=SHAPES, threads=st.integers(1, 3))
@pytest.mark.parametrize("way", ["layouts", "arrays"])
def test_any_views_give_the_bits_of_their_copies(
    walks: list[Walk], way: str, data: Any, dtype: DType, shape: tuple[int, ...], threads: int
) -> None:
    views, kept = made(data, dtype, shape)
    right = should_be(dtype, views, shape)
    if way == "layouts":
        through_layouts(dtype, views, shape, threads)
    else:
        launch = plan(A2, shape=(4,), dtype=dtype, reduction=Reduction.SUM).launch
        assert launch is not None
        Computation(launch, A2, "inf_nan").run(views, shape, threads)
    np.testing.assert_array_equal(as_bits(np.ascontiguousarray(views["out"])).reshape(shape), right)
    kept.untouched_beside(views["out"])


INPUT_STEPS: dict[Step, Callable[[Any], Any]] = {
    # From a square memory of 2n by 2n, n x n elements that are walked in this way.
    Step.RUN: lambda m: m[: m.shape[0] // 2, : m.shape[0] // 2],
    Step.ONE: lambda m: m[: m.shape[0] // 2, :1],
    Step.STRIDE: lambda m: m[: m.shape[0] // 2, ::2],
    Step.TURN: lambda m: m[: m.shape[0] // 2, : m.shape[0] // 2].T,
}
COMBINATIONS = [
    (*steps, out) for steps in itertools.product(INPUT_STEPS, repeat=3) for out in (Step.RUN, Step.STRIDE)
]


def square(dtype: DType, steps: tuple[Step, ...], n: int) -> tuple[dict[str, Any], Memory]:
    views = {
        name: INPUT_STEPS[step](random_tensors(dtype, 4 * n * n, number)["self"].reshape(2 * n, 2 * n))
        for number, (name, step) in enumerate(zip(INPUTS, steps, strict=False))
    }
    kept = Memory(dtype, 4 * n * n, 9)
    views["out"] = INPUT_STEPS[steps[3]](kept.whole.reshape(2 * n, 2 * n))
    return views, kept


def walked(walk: Walk) -> tuple[Step, ...]:
    """Its steps in the order of ``INPUTS`` and the output."""
    steps = dict(zip((name for name, _ in FUSED[F32].tensors), walk.steps, strict=True))
    return tuple(steps[name] for name in (*INPUTS, "out"))


@pytest.mark.parametrize("n", [17, 67])
def test_every_combination_of_steps_gives_the_same_bits(walks: list[Walk], n: int) -> None:
    for steps in COMBINATIONS if n == 17 else COMBINATIONS[5::16]:
        views, kept = square(F32, steps, n)
        through_layouts(F32, views, (n, n))
        assert walked(walks[-1]) == steps
        assert not walks[-1].streamed
        np.testing.assert_array_equal(as_bits(views["out"].copy()), should_be(F32, views, (n, n)))
        if n == 17:
            kept.untouched_beside(views["out"])


@pytest.mark.parametrize("dtype", [F32, F16])
def test_the_edge_of_a_square_decides_no_bit(
    walks: list[Walk], monkeypatch: pytest.MonkeyPatch, dtype: DType
) -> None:
    for edge in (4, 5, 16, 64):
        monkeypatch.setattr(codegen, "TURN_TILE", edge)
        monkeypatch.setattr(compiled, "TURN_TILE", edge)
        for rows, columns in ((4, 5), (13, 29), (64, 16), (65, 130)):
            whole = {name: random_tensors(dtype, rows * columns * 2, 3)[name] for name in (*INPUTS, "out")}
            views = {name: whole[name].reshape(2, columns, rows).transpose(0, 2, 1) for name in INPUTS}
            views["target"] = whole["target"].reshape(2, rows, columns)
            views["out"] = whole["out"].reshape(2, rows, columns)
            for threads in (1, 3):
                monkeypatch.setattr(compiled, "SERIAL_BELOW", 64)
                views["out"][...] = 0
                through_layouts(dtype, views, (2, rows, columns), threads)
                right = should_be(dtype, views, (2, rows, columns))
                np.testing.assert_array_equal(as_bits(views["out"]), right)
            assert walks[-1].turned is (min(rows, columns) >= edge // 4)


@pytest.mark.parametrize("steps", list(itertools.product((Step.RUN, Step.ONE, Step.STRIDE), repeat=3))[::2])
def test_streamed_rows_give_the_same_bits(
    walks: list[Walk], monkeypatch: pytest.MonkeyPatch, steps: tuple[Step, ...]
) -> None:
    monkeypatch.setattr(compiled, "STREAM_FROM_BYTES", 0)
    monkeypatch.setattr(compiled, "STREAM_ROW_BYTES", 64)
    for dtype in (F32, F16):
        for n in (33, 90):
            views, kept = square(dtype, (*steps, Step.RUN), n)
            through_layouts(dtype, views, (n, n))
            assert walked(walks[-1]) == (*steps, Step.RUN)
            assert walks[-1].streamed
            np.testing.assert_array_equal(as_bits(views["out"].copy()), should_be(dtype, views, (n, n)))
            kept.untouched_beside(views["out"])


def test_rows_too_short_and_outputs_with_gaps_are_not_streamed(
    walks: list[Walk], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "STREAM_FROM_BYTES", 0)
    for steps, n in (((Step.RUN,) * 4, 511), ((Step.RUN, Step.RUN, Step.RUN, Step.STRIDE), 40)):
        views, _ = square(F32, steps, min(n, 40))
        through_layouts(F32, views, (min(n, 40),) * 2)
        assert not walks[-1].streamed


# Compiled for once: one kernel of each kind of walk, over several blocks of a stream and several threads.
@pytest.mark.parametrize(
    ("dtype", "steps", "streamed"),
    [
        (F32, (Step.RUN, Step.ONE, Step.STRIDE, Step.RUN), True),
        (BF16, (Step.RUN, Step.ONE, Step.STRIDE, Step.RUN), True),
        (F16, (Step.STRIDE, Step.RUN, Step.ONE, Step.STRIDE), False),
        (F32, (Step.TURN, Step.RUN, Step.ONE, Step.RUN), False),
        (BF16, (Step.STRIDE, Step.TURN, Step.RUN, Step.STRIDE), False),
    ],
)
def test_compiled_walks_give_the_same_bits_on_any_number_of_threads(
    dtype: DType, steps: tuple[Step, ...], streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "STREAM_FROM_BYTES", 0 if streamed else 1 << 60)
    monkeypatch.setattr(compiled, "STREAM_ROW_BYTES", 64)
    monkeypatch.setattr(compiled, "SERIAL_BELOW", 4_096)
    n = 301
    views, kept = square(dtype, steps, n)
    right = should_be(dtype, views, (n, n))
    for threads in (1, 2, 5):
        views["out"][...] = 0
        through_layouts(dtype, views, (n, n), threads)
        np.testing.assert_array_equal(as_bits(views["out"].copy()), right)
    # Beside the view nothing was written.
    beside = np.ones((2 * n, 2 * n), bool)
    INPUT_STEPS[steps[3]](beside)[...] = False
    np.testing.assert_array_equal(as_bits(kept.whole)[beside.reshape(-1)], kept.before[beside.reshape(-1)])


def overlapping() -> dict[str, Any]:
    whole = random_tensors(F32, 400, 5)["self"]
    return {
        "self": np.lib.stride_tricks.as_strided(whole, (20, 30), (4, 4)),
        "target": np.lib.stride_tricks.as_strided(whole[399:], (20, 30), (-8, -4)),
        "grad_output": np.broadcast_to(whole[:20, None], (20, 30)),
        "out": np.zeros((20, 30), np.float32),
    }


def test_views_that_overlap_themselves_and_each_other_are_read_right(walks: list[Walk]) -> None:
    views = overlapping()
    through_layouts(F32, views, (20, 30))
    np.testing.assert_array_equal(as_bits(views["out"]), should_be(F32, views, (20, 30)))


# ---- one computation, many arrays ---------------------------------------------------------------------


def computation() -> Computation:
    launch = plan(A2, shape=(5, 6), dtype=F32, reduction=Reduction.SUM).launch
    assert launch is not None
    return Computation(launch, A2, "inf_nan")


def unaligned(array: Any) -> Any:
    """The same array and strides, at an address that is no multiple of four."""
    raw = np.zeros(array.nbytes + 1, np.uint8)
    moved = np.ndarray(array.shape, array.dtype, raw, 1, array.strides)
    moved[...] = array
    return moved


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_an_unaligned_view_of_the_same_strides_is_not_walked_like_an_aligned_one(
    walks: list[Walk], order: tuple[int, int]
) -> None:
    aligned = np.arange(30, dtype=np.float32).reshape(6, 5).T
    both = (aligned, unaligned(aligned))
    assert both[0].strides == both[1].strides
    assert [array.flags.aligned for array in both] == [True, False]
    made_once = computation()
    for place in order:
        out = np.zeros((5, 6), np.float32)
        ones = np.ones((5, 6), np.float32)
        made_once.run({"self": both[place], "target": ones, "grad_output": ones, "out": out}, (5, 6), 1)
        np.testing.assert_array_equal(out, (aligned - 1) * 2)


def test_a_matrix_is_taken_as_the_array_it_is(walks: list[Walk]) -> None:
    ones = np.ones((5, 6), np.float32)
    out = np.zeros((5, 6), np.float32).view(np.matrix)
    computation().run({"self": ones, "target": ones * 3, "grad_output": ones, "out": out}, (5, 6), 1)
    assert (np.asarray(out) == -4).all()


# ---- layouts ------------------------------------------------------------------------------------------


def addresses(shape: Any, strides: Any, offset: int = 0) -> list[int]:
    """Of every element in row-major order."""
    return [
        offset + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, shape))
    ]


@settings(UNHURRIED, max_examples=400)
@given(data=st.data(), shape=st.lists(st.integers(1, 4), max_size=5).map(tuple))
def test_coalescing_keeps_every_address_and_leaves_no_axis_that_could_go(data: Any, shape: Any) -> None:
    def some_strides() -> Any:
        natural = contiguous_strides(shape)
        lists = st.tuples(*(st.sampled_from((n, n, 0, -n, 2 * n, 5)) for n in natural))
        return data.draw(st.just(natural) | lists)

    strides = [some_strides() for _ in range(data.draw(st.integers(1, 4)))]
    dims, found = coalesce(shape, strides)
    for before, after in zip(strides, found, strict=True):
        assert addresses(dims, after) == addresses(shape, before)
    assert math.prod(dims) == math.prod(shape)
    assert len(dims) == 1 or 1 not in dims
    for axis in range(len(dims) - 1):
        assert any(s[axis] != s[axis + 1] * dims[axis + 1] for s in found)


@settings(UNHURRIED, max_examples=300)
@given(data=st.data(), to=st.lists(st.integers(1, 4), max_size=5).map(tuple))
def test_broadcast_strides_are_numpys_and_the_distinct_elements_those_of_a_set(data: Any, to: Any) -> None:
    lead = data.draw(st.integers(0, len(to)))
    shape = tuple(data.draw(st.sampled_from((1, n))) for n in to[lead:])
    strides = broadcast(shape, contiguous_strides(shape), to)
    source = np.arange(math.prod(shape)).reshape(shape)
    places = addresses(to, strides)
    assert places == np.broadcast_to(source, to).reshape(-1).tolist()
    layout = Layout(to, strides)
    assert (layout.elements, layout.distinct) == (math.prod(to), len(set(places)))
    assert layout.is_linear == (places == list(range(len(places))))
    whole_rows = {1, *itertools.accumulate(reversed(to), lambda a, b: a * b)}
    inner = 1
    for dim in reversed(to):
        whole_rows |= {k * inner for k in range(1, dim + 1)}
        inner *= dim
    for count in range(1, len(places) + 1):
        exact = len(set(places[:count]))
        assert exact <= layout.distinct_in_run(count)
        if count in whole_rows:
            assert exact == layout.distinct_in_run(count)


def test_an_axis_of_one_element_has_no_stride_whatever_it_is_given() -> None:
    assert broadcast((1, 3), (7, 1), (5, 4, 3)) == (0, 0, 1)
    assert broadcast((1,), (7,), (1,)) == (0,)


@settings(UNHURRIED, max_examples=200)
@given(data=st.data(), shape=st.lists(st.integers(1, 5), max_size=4).map(tuple))
def test_the_storage_of_a_view_is_its_own_memory(data: Any, shape: tuple[int, ...]) -> None:
    memory, cut = data.draw(strided(shape, repeat=True))
    whole = np.arange(math.prod(memory), dtype=np.float32)
    view = cut(whole)
    flat, strides, offset = storage_of(view)
    assert flat.ndim == 1
    assert flat[addresses(view.shape, strides, offset)].tolist() == view.reshape(-1).tolist()
    before = flat[0].copy()
    whole += 1  # seen through the storage: it is no copy
    assert flat[0] == before + 1
    assert flat.flags.c_contiguous
    # Not one element more than from the view's first to its last in memory.
    places = addresses(view.shape, strides, offset)
    assert (min(places), max(places)) == (0, flat.size - 1) or view.flags.c_contiguous


def test_the_storage_of_a_view_is_as_writeable_as_the_view() -> None:
    whole = np.zeros((4, 6), np.float32)
    storage_of(whole[:, ::-2])[0][0] = 7
    assert (whole == 7).sum() == 1
    whole.flags.writeable = False
    assert not storage_of(whole.T)[0].flags.writeable


@pytest.mark.parametrize("dtype", [F32, F16])
def test_a_field_of_a_record_is_copied(dtype: DType) -> None:
    records = np.zeros(5, [("a", np.int8), ("x", carrier(dtype))])
    records["x"] = np.arange(5)
    flat, strides, offset = storage_of(records["x"])
    assert flat[addresses((5,), strides, offset)].tolist() == [0, 1, 2, 3, 4]
    assert not np.shares_memory(flat, records)

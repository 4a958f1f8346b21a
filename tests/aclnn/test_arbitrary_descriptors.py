"""Whatever descriptor comes, both phases answer with a status, and nothing outside a storage is touched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from aclnn_oracle import CHIPS, DTYPES, SATURATING, Array, bits, expected, first, same
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator import aclnn
from emulator.aclnn import AclTensor
from emulator.aclnn.codes import FORMATS

STATUSES = {0, 161001, 161002, 361001, 561000, 561103}
GUARD = 64
"""Elements before and after each storage."""

FLOATS = tuple(DTYPES)
NUMBERS = st.one_of(st.sampled_from(FLOATS), st.sampled_from([-1, 3, 9, 12, 29, 34, 4711, -(1 << 63)]))
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
DIM = st.one_of(st.integers(0, 4), st.sampled_from([-1, -7, 1 << 40, 1 << 62, (1 << 63) - 1]))
STRIDE = st.one_of(st.integers(-6, 6), INT64)
FORMAT = st.one_of(st.just("ND"), st.sampled_from(list(FORMATS)), st.integers(-5, 5000))


class Guarded:
    """A storage in the middle of larger memory, which must not change around it."""

    def __init__(self, size: int, dtype: np.dtype[Any], seed: int) -> None:
        random = np.random.default_rng(seed)
        count = (size + 2 * GUARD) * dtype.itemsize
        self.memory = random.integers(0, 256, count, dtype=np.uint8)
        self.before = self.memory.copy()
        self.edge = GUARD * dtype.itemsize
        self.storage = self.memory[self.edge : count - self.edge].view(dtype)

    def check(self) -> None:
        for part in (slice(None, self.edge), slice(len(self.memory) - self.edge, None)):
            np.testing.assert_array_equal(self.memory[part], self.before[part])


@st.composite
def wild_tensors(draw: st.DrawFn, guards: list[Guarded]) -> AclTensor | None:
    if draw(st.integers(0, 12)) == 0:
        return None
    dims = draw(st.lists(DIM, max_size=10))
    dtype = draw(NUMBERS)
    storage = None
    if draw(st.integers(0, 3)):
        held = DTYPES.get(str(dtype), np.dtype(np.uint8))
        guards.append(Guarded(draw(st.integers(0, 40)), held, len(guards)))
        storage = guards[-1].storage
    strides = draw(
        st.none() | st.lists(STRIDE, min_size=len(dims), max_size=len(dims)) | st.lists(STRIDE, max_size=3)
    )
    offset = draw(st.one_of(st.just(0), st.integers(-3, 30), INT64))
    storage_dims = draw(st.none() | st.lists(DIM, max_size=3))
    return AclTensor(storage, dims, dtype, strides, offset, draw(FORMAT), storage_dims)


SECOND = st.tuples(
    st.one_of(st.none(), st.integers(0, 5), st.binary(max_size=40), st.builds(object)),
    st.one_of(st.none(), st.sampled_from([0, 512, 1 << 20, -1]), INT64),
    st.one_of(st.none(), st.builds(aclnn.Stream), st.integers()),
)


def run(tensors: list[Any], reduction: Any, soc: str, release: str, arguments: Any) -> int:
    status, size, executor = first(*tensors[:3], reduction, tensors[3], soc=soc, release=release)
    assert status in STATUSES
    assert isinstance(size, int)
    assert size >= 0
    assert (executor is None) == (status != 0)
    workspace, given_size, stream = arguments
    if given_size == 512:  # a caller that does as phase 1 says
        workspace, given_size = 1, size
    later = aclnn.aclnnMseLossBackward(workspace, given_size, executor, stream)
    assert later in STATUSES
    assert (aclnn.aclGetRecentErrMsg() is None) == (status == later == 0)
    return later


@settings(max_examples=250, deadline=None)
@given(data=st.data())
def test_arbitrary_descriptors_only_ever_give_statuses(data: st.DataObject) -> None:
    guards: list[Guarded] = []
    tensors = [data.draw(wild_tensors(guards)) for _ in range(4)]
    reduction = data.draw(st.one_of(st.integers(0, 2), st.none(), INT64))
    run(
        tensors,
        reduction,
        data.draw(st.sampled_from(CHIPS)),
        data.draw(st.sampled_from(["newer", "older"])),
        data.draw(SECOND),
    )
    for guard in guards:
        guard.check()


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_wild_layouts_of_legal_calls_only_ever_give_statuses(data: st.DataObject) -> None:
    """Shapes and dtypes that pass, so that strides, storages and phase 2 are what decides."""
    guards: list[Guarded] = []
    rank = data.draw(st.integers(0, 3))
    joined = data.draw(st.lists(st.sampled_from([1, 2, 3, 0, 1 << 50]), min_size=rank, max_size=rank))
    dtype = data.draw(st.sampled_from(FLOATS))
    tensors = []
    for place in range(4):
        dims = list(joined)
        if place < 3 and data.draw(st.booleans()):
            dims = [data.draw(st.sampled_from([1, dim])) for dim in joined]
        size = data.draw(st.integers(0, 30))
        guards.append(Guarded(size, DTYPES[dtype], place))
        shared = guards[data.draw(st.integers(0, place))]
        strides = data.draw(st.none() | st.lists(STRIDE, min_size=rank, max_size=rank))
        tensors.append(
            AclTensor(shared.storage, dims, dtype, strides, data.draw(st.integers(-1, 8)), data.draw(FORMAT))
        )
    run(tensors, data.draw(st.integers(0, 2)), data.draw(st.sampled_from(CHIPS)), "newer", data.draw(SECOND))
    for guard in guards:
        guard.check()


def placed(draw: st.DrawFn, dims: list[int], dtype: str, guard: Guarded, aliased: bool) -> AclTensor:
    """A view of ``dims`` that lies in the guard's storage; without ``aliased`` no two elements coincide."""
    order = draw(st.permutations(range(len(dims))))
    strides, step = [0] * len(dims), 1
    for axis in order:
        strides[axis] = step * draw(st.sampled_from([1, -1]))
        step *= dims[axis] * draw(st.integers(1, 2))
    if aliased:
        strides = [draw(st.sampled_from([stride, 0, 1])) for stride in strides]
    reach = [(dim - 1) * stride for dim, stride in zip(dims, strides, strict=True)]
    low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    offset = draw(st.integers(-low, guard.storage.size - 1 - high))
    return AclTensor(guard.storage, dims, dtype, strides, offset)


@st.composite
def valid_calls(draw: st.DrawFn) -> tuple[list[AclTensor], list[Guarded], str, int, str]:
    soc = draw(st.sampled_from(CHIPS))
    dtypes = [d for d in FLOATS if d != "bfloat16" or soc not in SATURATING]
    dtype, wanted = draw(st.sampled_from(dtypes)), draw(st.sampled_from(dtypes))
    rank = draw(st.integers(0, 4))
    joined = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    guards, tensors = [], []
    for place in range(3):
        dims = [draw(st.sampled_from([1, dim, dim, dim])) for dim in joined]
        if place == 0:
            dims = list(joined)
        dims = dims[draw(st.integers(0, rank)) :] if place else dims
        guards.append(Guarded(16 * 256, DTYPES[dtype], draw(st.integers(0, 99))))
        source = draw(st.sampled_from(guards))
        tensors.append(placed(draw, dims, dtype, source, aliased=True))
    overlapping = wanted == dtype and draw(st.booleans())
    guards.append(guards[0] if overlapping else Guarded(16 * 256, DTYPES[wanted], 5))
    tensors.append(placed(draw, joined, wanted, guards[-1], aliased=False))
    return tensors, guards, soc, draw(st.integers(0, 2)), wanted


@settings(max_examples=200, deadline=None)
@given(valid_calls())
def test_valid_views_of_any_kind_have_the_bits_of_the_oracle(call: Any) -> None:
    tensors, guards, soc, reduction, wanted = call
    inputs = [tensor.to_numpy().copy() for tensor in tensors[:3]]
    exact = expected(*inputs, reduction, wanted, saturate=soc in SATURATING)
    before = {id(guard): guard.storage.copy() for guard in guards}
    assert run(tensors, reduction, soc, "newer", (1, 512, None)) == 0
    out = tensors[3].to_numpy()
    same(out, np.broadcast_to(exact, out.shape))
    touched = AclTensor(
        np.zeros(guards[-1].storage.size, bool),
        tensors[3].view_dims,
        "bool",
        tensors[3].strides,
        tensors[3].offset,
    )
    touched.to_numpy()[...] = True
    for guard in guards:
        guard.check()
        mask = touched.storage if guard is guards[-1] else np.zeros(guard.storage.size, bool)
        assert mask is not None
        untouched(guard.storage, before[id(guard)], mask)


def untouched(storage: Array, before: Array, written: Array) -> None:
    np.testing.assert_array_equal(bits(storage[~written]), bits(before[~written]))


@pytest.mark.parametrize("nulls", range(16))
def test_null_pointers_anywhere_are_161001_in_order(nulls: int) -> None:
    tensors = [None if nulls >> i & 1 else AclTensor.empty((2,), "float32") for i in range(4)]
    status, _, executor = first(*tensors[:3], 0, tensors[3])
    assert status == (161001 if nulls else 0)
    if nulls:
        assert f"argument t{next(i for i in range(4) if nulls >> i & 1)}." in str(aclnn.aclGetRecentErrMsg())
    assert aclnn.aclnnMseLossBackward(None, 0, executor) == (161001 if nulls else 0)

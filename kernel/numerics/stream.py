"""Moving whole tensors past a loop: fetch ahead, and write without reading first.

An elementwise loop over tensors that fit no cache is bounded by memory. Two things cost it there:
a plain store first reads the line it is about to overwrite, and the arithmetic of an element
shortens how far ahead the CPU sees its loads. A loop in blocks avoids both::

    scratch = np.empty(BLOCK_BYTES // out.itemsize, out.dtype)
    begin = start + until_aligned(out, start, stop)
    for i in range(start, begin): out[i] = ...
    while begin + scratch.size <= stop:
        prefetch(x, begin, scratch.size)                 # likewise every input
        xs = x[begin : begin + scratch.size]             # likewise; without slices no vector code
        for k in range(scratch.size): scratch[k] = ...   # of xs[k]
        store_block(out, begin, scratch)
        begin += scratch.size
    for i in range(begin, stop): out[i] = ...
    drain()

Two threads, 32 Mi elements, beside STREAM's triad: 1.1 to 1.2 of its bytes per second, where the
plain loop reaches 0.85 to 1.0. It pays only beyond the last-level cache: streamed lines leave it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from kernel.numerics.convert import scalar

BLOCK_BYTES = 256
"""Bytes of one array that a trip of the loop handles; measured best among 128 to 8192."""

PREFETCH_BYTES = 1024
"""How far ahead inputs are fetched."""

LINE_BYTES = 64
_VECTOR_BYTES = 32

Array = np.ndarray[tuple[int], np.dtype[Any]]


@scalar
def until_aligned(array: Array, start: int, stop: int) -> int:
    """Elements from ``start`` until one lies on a cache line, at most ``stop - start``."""
    address = array.ctypes.data + start * array.itemsize
    return min(-address % LINE_BYTES // array.itemsize, stop - start)


def prefetch(array: Array, start: int, count: int) -> None:
    """Ask for ``count`` elements, :data:`PREFETCH_BYTES` after ``array[start]``; past the end is harmless."""


def store_block(array: Array, start: int, block: Array) -> None:
    """``array[start : start + block.size] = block``, bypassing the caches.

    ``array[start]`` lies on a cache line and ``block`` is a multiple of 32 bytes.
    """
    array[start : start + block.size] = block


def pair(array: Array, k: int) -> np.uint32:
    """The bits of elements ``2 * k`` and ``2 * k + 1`` of 16 bits each, the first in the low half.

    Halves of a word widen to bfloat16's float32 by a shift and a mask; single elements would be
    shuffled apart first, for as much again as the arithmetic takes.
    """
    return np.uint32(np.uint32(array[2 * k]) | np.uint32(np.uint32(array[2 * k + 1]) << np.uint32(16)))


def set_pair(array: Array, k: int, low: np.uint16, high: np.uint16) -> None:
    """``array[2 * k], array[2 * k + 1] = low, high``, in one store."""
    array[2 * k], array[2 * k + 1] = low, high


def drain() -> None:
    """Make streamed stores visible to other threads; call once after the last of them."""


@intrinsic
def _prefetch_line(context: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        function = builder.module.globals.get("llvm.prefetch.p0")
        function = function or ir.Function(builder.module, kind, "llvm.prefetch.p0")
        read, keep, data = (ir.Constant(word, value) for value in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), generate


@intrinsic
def _stream_vector(context: Any, target: Any, source: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = ir.VectorType(ir.IntType(32), _VECTOR_BYTES // 4).as_pointer()
        to, of = (builder.inttoptr(argument, pointer) for argument in arguments)
        store = builder.store(builder.load(of, align=2), to, align=_VECTOR_BYTES)
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), generate


def _word(context: Any, builder: Any, kind: Any, array: Any, k: Any) -> Any:
    """Pointer to word ``k`` of an array of 16-bit elements; from a pointer LLVM sees what may overlap."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(builder.bitcast(data, ir.IntType(32).as_pointer()), [k])


@intrinsic
def _load_word(context: Any, array: Any, k: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(_word(context, builder, array, *arguments), align=2)

    return types.uint32(array, types.intp), generate


@intrinsic
def _store_word(context: Any, array: Any, k: Any, word: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _word(context, builder, array, *arguments[:2]), align=2)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.uint32), generate


@intrinsic
def _fence(context: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


# mypy takes an intrinsic for its Python body, which has one parameter more.
_prefetch: Any = _prefetch_line
_stream: Any = _stream_vector
_full_fence: Any = _fence
_load: Any = _load_word
_store: Any = _store_word


@overload(prefetch)
def _compiled_prefetch(array: Any, start: Any, count: Any) -> Any:
    def generate(array: Any, start: Any, count: Any) -> Any:
        first = array.ctypes.data + start * array.itemsize + PREFETCH_BYTES
        for offset in range(0, count * array.itemsize, LINE_BYTES):
            _prefetch(first + offset)

    return generate


@overload(store_block)
def _compiled_store_block(array: Any, start: Any, block: Any) -> Any:
    def generate(array: Any, start: Any, block: Any) -> Any:
        to, of = array.ctypes.data + start * array.itemsize, block.ctypes.data
        for offset in range(0, block.size * block.itemsize, _VECTOR_BYTES):
            _stream(to + offset, of + offset)

    return generate


@overload(pair)
def _compiled_pair(array: Any, k: Any) -> Any:
    def generate(array: Any, k: Any) -> Any:
        return _load(array, k)

    return generate


@overload(set_pair)
def _compiled_set_pair(array: Any, k: Any, low: Any, high: Any) -> Any:
    def generate(array: Any, k: Any, low: Any, high: Any) -> Any:
        _store(array, k, np.uint32(low) | np.uint32(np.uint32(high) << np.uint32(16)))

    return generate


@overload(drain)
def _compiled_drain() -> Any:
    def generate() -> Any:
        _full_fence()

    return generate

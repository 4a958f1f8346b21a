"""The words that kernels and chips share: pipes, memories, dtypes, instructions.

What an instruction *does* is in :mod:`kernel.numerics.vector`; what it *costs* on a chip is
data (``socs/data``). This module holds only its name, its pipe and its operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

BLOCK_BYTES = 32
"""The unit of unified-buffer addressing (Ascend C ``ONE_BLK_SIZE``)."""

REPEAT_BYTES = 256
"""What the vector unit processes in one repeat (Ascend C ``ONE_REPEAT_BYTE_SIZE``)."""


class Pipe(StrEnum):
    """An in-order queue of one core."""

    S = "S"
    MTE2 = "MTE2"
    V = "V"
    MTE3 = "MTE3"


class Memory(StrEnum):
    """Where an operand lives."""

    GM = "GM"
    UB = "UB"


class RoundMode(StrEnum):
    """Rounding modes of ``Cast``, by their Ascend C names without the ``CAST_`` prefix.

    ``NONE`` rounds to nearest even when the result is inexact.
    """

    NONE = "NONE"
    RINT = "RINT"
    FLOOR = "FLOOR"
    CEIL = "CEIL"
    ROUND = "ROUND"
    TRUNC = "TRUNC"
    ODD = "ODD"


class DType(StrEnum):
    """An element type; the value is NumPy's (or ml_dtypes') name."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    INT32 = "int32"
    INT16 = "int16"
    INT64 = "int64"
    INT8 = "int8"
    UINT32 = "uint32"
    UINT16 = "uint16"
    UINT8 = "uint8"
    BOOL = "bool"

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return _ITEMSIZE[self]


_ITEMSIZE = {
    DType.FLOAT32: 4,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.INT32: 4,
    DType.INT16: 2,
    DType.INT64: 8,
    DType.INT8: 1,
    DType.UINT32: 4,
    DType.UINT16: 2,
    DType.UINT8: 1,
    DType.BOOL: 1,
}


class Op(StrEnum):
    """An instruction, named as its Ascend C interface."""

    COPY_IN = "copy_in"
    COPY_OUT = "copy_out"
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    MAX = "max"
    MIN = "min"
    MULS = "muls"
    RELU = "relu"
    DUPLICATE = "duplicate"
    CAST = "cast"
    BROADCAST = "broadcast"
    SET_FLAG = "set_flag"
    WAIT_FLAG = "wait_flag"
    SET_VALUE = "set_value"
    GET_VALUE = "get_value"
    LOOP = "loop"


@dataclass(frozen=True, slots=True)
class OpInfo:
    """How an instruction is written: its pipe and the number of its UB sources.

    ``pipe`` is ``None`` for flags, which run on whichever pipe they name.
    """

    pipe: Pipe | None
    sources: int
    scalar: bool = False
    doc: str = ""


OPS: dict[Op, OpInfo] = {
    Op.COPY_IN: OpInfo(Pipe.MTE2, 0, doc="GM to UB, one contiguous run (DataCopy, DataCopyPad)"),
    Op.COPY_OUT: OpInfo(Pipe.MTE3, 1, doc="UB to GM, one contiguous run"),
    Op.ADD: OpInfo(Pipe.V, 2, doc="dst = src0 + src1"),
    Op.SUB: OpInfo(Pipe.V, 2, doc="dst = src0 - src1"),
    Op.MUL: OpInfo(Pipe.V, 2, doc="dst = src0 * src1"),
    Op.DIV: OpInfo(Pipe.V, 2, doc="dst = src0 / src1"),
    Op.MAX: OpInfo(Pipe.V, 2, doc="dst = the larger of src0 and src1"),
    Op.MIN: OpInfo(Pipe.V, 2, doc="dst = the smaller of src0 and src1"),
    Op.MULS: OpInfo(Pipe.V, 1, scalar=True, doc="dst = src0 * scalar"),
    Op.RELU: OpInfo(Pipe.V, 1, doc="dst = src0 where it is positive, else 0"),
    Op.DUPLICATE: OpInfo(Pipe.V, 0, scalar=True, doc="dst = scalar, in every element"),
    Op.CAST: OpInfo(Pipe.V, 1, doc="dst = src0 rounded to dst's dtype"),
    Op.BROADCAST: OpInfo(Pipe.V, 1, doc="dst = src0, repeated as far as dst is longer"),
    Op.SET_FLAG: OpInfo(None, 0, doc="raise an event of (source pipe, destination pipe, id)"),
    Op.WAIT_FLAG: OpInfo(None, 0, doc="hold the destination pipe until the event is raised"),
    Op.SET_VALUE: OpInfo(Pipe.S, 1, doc="UB to GM element by element through the scalar unit"),
    Op.GET_VALUE: OpInfo(Pipe.S, 1, doc="UB to scalar registers, element by element"),
    Op.LOOP: OpInfo(Pipe.S, 0, doc="scalar work of one trip of the tile loop"),
}


def cost_key(op: Op, dst: DType, src: DType) -> str:
    """The key of a vector cost: the dtype, or ``source_to_destination`` for a cast."""
    return f"{src}_to_{dst}" if op is Op.CAST else str(dst)


def repeats(count: int, *dtypes: DType) -> int:
    """Repeats for ``count`` elements; the widest operand decides how many fit into one."""
    per_repeat = REPEAT_BYTES // max(dtype.itemsize for dtype in dtypes)
    return -(-count // per_repeat)

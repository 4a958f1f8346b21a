"""``MseLossGradV2``: the AscendC kernel of the Atlas A2, A3 and inference series.

The structure follows what is known of ops-nn ``loss/mse_loss_grad_v2``: one VECIN queue whose buffer
holds the three inputs side by side, one VECOUT queue, float16 and bfloat16 widened to float32 in
scratch buffers and rounded once at the end. The coefficient multiplies before ``dout``.
"""

from __future__ import annotations

from kernel.core import Core, GlobalTensor, LocalTensor, Queue, Tile, Tiles
from kernel.program import Program
from kernel.tiling import Tiling, align_up, split_blocks
from socs.isa import DType, Pipe, RoundMode
from socs.spec import Soc

TILE_ALIGNMENT = 32
"""Buffers hold a multiple of this many elements."""

DOUBLE_BUFFER_ABOVE = 65536
"""Elements above which the host tiling asks for two buffers per queue."""

TILING_KEYS = {DType.FLOAT32: 1, DType.FLOAT16: 2, DType.BFLOAT16: 3}


def copies_whole_blocks(soc: Soc) -> bool:
    """Whether the variant of the Atlas inference series runs, which copies whole aligned tiles.

    Without DataCopyPad there is no other way; so it also stands in on the training series.
    """
    return not soc.dma.byte_granular


def tiling(soc: Soc, dtype: DType, total: int) -> Tiling:
    """The host tiling for ``total`` elements (facts: operator, 5.1 and 5.4).

    Lengths are 64-bit here; the real one counts in uint32 and wraps at 2^32 elements.
    """
    narrow = dtype is not DType.FLOAT32
    element_bytes = 4 * dtype.itemsize + (16 if narrow else 0)
    max_tile = -(-(soc.ub.bytes - soc.ub.reserved_bytes) // element_bytes)
    loops = -(-total // max_tile)
    used = min(soc.vector_cores, loops)
    block_dim, block, last = split_blocks(total, used)
    # The tile count divides the loops by the cores that remain after one was set aside.
    sharing = used if total % used == 0 else used - 1
    double = total > DOUBLE_BUFFER_ABOVE
    tile_num = -(-loops // sharing) * (2 if double else 1)
    buffer_num = 2 if double else 1
    if copies_whole_blocks(soc):
        tile = align_up(max(block // tile_num, 1), TILE_ALIGNMENT)
    else:
        tile = -(-block // tile_num)
    tile = min(tile, block)
    uneven = last != block
    return Tiling(
        total_length=total,
        block_dim=block_dim,
        block_length=block,
        last_block_length=last,
        tile_length=tile,
        buffer_length=align_up(tile, TILE_ALIGNMENT),
        buffer_num=buffer_num,
        # A remainder block is one tile in one buffer.
        last_tile_length=last if uneven else tile,
        last_buffer_length=align_up(last if uneven else tile, TILE_ALIGNMENT),
        last_buffer_num=1 if uneven else buffer_num,
        key=TILING_KEYS[dtype],
    )


def record(soc: Soc, dtype: DType, tiles: Tiles, buffer_length: int, buffer_num: int) -> Program:
    """The program of one block."""
    core = Core(tiles.length)
    if copies_whole_blocks(soc):
        _inference(core, dtype, tiles, buffer_length, buffer_num)
    else:
        _byte_granular(core, dtype, tiles, buffer_length, buffer_num)
    return core.finish()


def _byte_granular(core: Core, dtype: DType, tiles: Tiles, buffer_length: int, buffer_num: int) -> None:
    """Atlas A2 and A3: copies move exact bytes (DataCopyPad)."""
    stage = _Stages(core, dtype, buffer_length, buffer_num)
    for tile in core.loop(tiles):
        stage.load(tile)
        out = stage.compute(tile)
        stage.outputs.enque(out)
        out = stage.outputs.deque(dtype)
        core.copy_out(stage.grad_input[tile], out)
        stage.outputs.free(out)


def _inference(core: Core, dtype: DType, tiles: Tiles, buffer_length: int, buffer_num: int) -> None:
    """Atlas inference series: copies and vector instructions run over whole aligned tiles.

    The tail is stored as an aligned run that reaches past the block, and once more: what is aligned
    by DataCopy, the last elements one by one through the scalar unit.
    """
    stage = _Stages(core, dtype, buffer_length, buffer_num, whole_tiles=True)
    computed = core.event(Pipe.V, Pipe.S)
    stored = core.event(Pipe.S, Pipe.V)
    for tile in core.loop(tiles):
        stage.load(tile)
        out = stage.compute(tile)
        rest = tile.count % TILE_ALIGNMENT
        if rest:
            core.set_flag(computed)
        stage.outputs.enque(out)
        out = stage.outputs.deque(dtype)
        core.copy_out(stage.grad_input[tile], out, issued=align_up(tile.count, TILE_ALIGNMENT))
        if rest:
            even = tile.count - rest
            if even:
                core.copy_out(stage.grad_input[Tile(tile.index, tile.offset, even, False)], out)
            core.wait_flag(computed)
            core.set_value(stage.grad_input[Tile(tile.index, tile.offset + even, rest, True)], out[even:])
            core.set_flag(stored)
            core.wait_flag(stored)
        stage.outputs.free(out)


class _Stages:
    """What both variants share: queues, scratch buffers, loads and the vector part."""

    def __init__(
        self, core: Core, dtype: DType, buffer_length: int, buffer_num: int, *, whole_tiles: bool = False
    ) -> None:
        self.core = core
        self.dtype = dtype
        self.length = buffer_length
        self.whole_tiles = whole_tiles
        self.predict = GlobalTensor("self", dtype)
        self.label = GlobalTensor("target", dtype)
        self.dout = GlobalTensor("grad_output", dtype)
        self.grad_input = GlobalTensor("out", dtype)
        self.inputs: Queue = core.queue("VECIN", 3 * buffer_length * dtype.itemsize, buffer_num)
        self.outputs: Queue = core.queue("VECOUT", buffer_length * dtype.itemsize, buffer_num)
        if dtype is not DType.FLOAT32:
            self.result = core.buffer("result", DType.FLOAT32, buffer_length)
            self.widened = core.buffer("widened", DType.FLOAT32, 3 * buffer_length)

    def load(self, tile: Tile) -> None:
        """Three copies into one buffer: one flag covers them."""
        buffer = self.inputs.alloc(self.dtype)
        for place, tensor in enumerate((self.predict, self.label, self.dout)):
            self.core.copy_in(self._part(buffer, place), tensor[tile], issued=self._issued(tile))
        self.inputs.enque(buffer)

    def compute(self, tile: Tile) -> LocalTensor:
        """(predict - label) * coefficient * dout, in float32; returns the filled output buffer."""
        core, count, issued = self.core, tile.count, self._issued(tile)
        source = self.inputs.deque(self.dtype)
        out = self.outputs.alloc(self.dtype)
        if self.dtype is DType.FLOAT32:
            result, wide = out, source
        else:
            result, wide = self.result, self.widened
            whole = 3 * self.length
            core.cast(
                wide.every(self.length, count, 3),
                source.every(self.length, count, 3),
                RoundMode.NONE,
                issued=whole,
            )
        x, y, g = (self._part(wide, place)[:count] for place in range(3))
        core.sub(result[:count], x, y, issued=issued)
        core.muls(result[:count], result[:count], "coefficient", issued=issued)
        core.mul(result[:count], result[:count], g, issued=issued)
        if self.dtype is not DType.FLOAT32:
            # On A2 and A3 this instruction runs over three times the tile (facts: operator, 3.8).
            mode = RoundMode.NONE if self.whole_tiles else RoundMode.RINT
            spill = self.length if self.whole_tiles else 3 * self.length
            core.cast(out[:count], result[:count], mode, issued=spill)
        self.inputs.free(source)
        return out

    def _part(self, tensor: LocalTensor, place: int) -> LocalTensor:
        return tensor[place * self.length : (place + 1) * self.length]

    def _issued(self, tile: Tile) -> int:
        return align_up(tile.count, TILE_ALIGNMENT) if self.whole_tiles else tile.count

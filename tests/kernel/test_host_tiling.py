"""The host tiling against a second statement of it, hand-worked figures, and exact covering."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mse_oracle import ARCHS

import socs
from kernel.core import Tiles
from kernel.mse_loss_grad_v2 import record, tiling
from kernel.tiling import Tiling, TilingOptions, with_options
from socs.isa import DType
from socs.spec import Soc

F32, F16, BF16 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16
B4 = "Ascend910B4-1"
CORES_AND_UB = {
    # chip: (vector cores, UB that the host tiling sees), from the vendor's platform files
    "Ascend910B1": (48, 196352),
    "Ascend910B4-1": (40, 196352),
    "Ascend910_9391": (48, 196608),
    "Ascend910_9362": (40, 196608),
    "Ascend310P1": (10, 262144),
    "Ascend310P3": (8, 262144),
}


def host_tiling(n: int, dtype: DType, cores: int, ub: int, inference: bool) -> dict[str, int]:
    """The tiling in the order of the facts' steps (operator, 5.1), in uint32 as the host has it."""
    u = np.uint32
    total = u(n)
    per_element = u({F32: 4 * 4, F16: 4 * 2 + 16, BF16: 4 * 2 + 16}[dtype])  # step 1
    max_tile = u(np.ceil(ub / int(per_element)))  # step 2
    loops = u(np.ceil(n / int(max_tile)))
    used = loops if loops <= u(cores) else u(cores)  # step 3
    block_dim = used
    pad = total % used  # step 4
    if pad == 0:
        block = total // used
    else:
        used = u(used - u(1))
        pad = total % used
        block = total // used
        block_dim = used if pad == 0 else u(used + u(1))
    tile_num = u(np.ceil(int(loops) / int(used)))  # step 5
    double = n > 65536
    if double:  # step 6
        tile_num = u(tile_num * u(2))
    if inference:
        tile = max(int(block) // int(tile_num), 1)
        tile = (tile + 31) // 32 * 32
    else:
        tile = int(np.ceil(int(block) / int(tile_num)))
    return {
        "block_dim": int(block_dim),
        "block": int(block),
        "pad": int(pad),
        "tile": tile,
        "buffers": 2 if double else 1,
        "key": {F32: 1, F16: 2, BF16: 3}[dtype],  # step 7
    }


SIZES = st.one_of(
    st.integers(1, 200_000),
    st.integers(1, 2**32 - 1),
    st.builds(
        lambda k, unit, d: max(1, k * unit + d),
        st.integers(1, 100),
        st.sampled_from([8182, 12272, 8192, 12288, 10923, 16384]),
        st.integers(-2, 2),
    ),
)


@settings(max_examples=400, deadline=None)
@given(
    n=SIZES,
    dtype=st.sampled_from([F32, F16, BF16]),
    chip=st.sampled_from(sorted(CORES_AND_UB)),
)
@example(n=65536, dtype=F32, chip=B4)
@example(n=65537, dtype=F32, chip=B4)
@example(n=2**32 - 1, dtype=F16, chip="Ascend310P3")
def test_the_tiling_is_the_hosts(n: int, dtype: DType, chip: str) -> None:
    cores, ub = CORES_AND_UB[chip]
    soc = socs.load(chip)
    inference = chip.startswith("Ascend310P")
    theirs = host_tiling(n, dtype, cores, ub, inference)
    ours = tiling(soc, dtype, n)
    assert ours.block_dim == theirs["block_dim"]
    assert ours.block_length == theirs["block"]
    assert ours.key == theirs["key"]
    # A tile is never longer than its block; the buffer has the length that the host asks for.
    assert ours.tile_length == min(theirs["tile"], theirs["block"])
    assert ours.buffer_length == -(-min(theirs["tile"], theirs["block"]) // 32) * 32
    assert ours.buffer_num == theirs["buffers"]
    if theirs["pad"]:
        assert ours.last_block_length == ours.last_tile_length == theirs["pad"]
        assert ours.last_buffer_length == -(-theirs["pad"] // 32) * 32
        assert ours.last_buffer_num == 1
    else:
        assert ours.last_block_length == theirs["block"]


@pytest.mark.parametrize(
    ("n", "dtype", "blocks", "length", "rest", "tile", "buffers"),
    [
        # One loop: one core. 4096 elements in a tile.
        (4096, F32, 1, 4096, 0, 4096, 1),
        (4096, F16, 1, 4096, 0, 4096, 1),
        # ceil(2^20 / 12272) = 86 loops, 40 cores; 2^20 % 40 = 16, so 39 share: 26886 each and 22.
        # ceil(86 / 39) = 3 tiles, doubled 6: ceil(26886 / 6) = 4481.
        (2**20, F32, 40, 26886, 22, 4481, 2),
        # ceil(2^20 / 8182) = 129 loops; ceil(129 / 39) = 4, doubled 8: ceil(26886 / 8) = 3361.
        (2**20, F16, 40, 26886, 22, 3361, 2),
        (2**20, BF16, 40, 26886, 22, 3361, 2),
        # 2^26 = 39 * 1720740 + 4. 5469 loops: 141 tiles, doubled 282: ceil(1720740 / 282) = 6102.
        (2**26, F32, 40, 1720740, 4, 6102, 2),
        # 8203 loops: 211 tiles, doubled 422: ceil(1720740 / 422) = 4078.
        (2**26, F16, 40, 1720740, 4, 4078, 2),
        # 65536 = 5 * 13107 + 1 and takes 6 loops: one buffer, ceil(6 / 5) = 2 tiles.
        (65536, F32, 6, 13107, 1, 6554, 1),
        # One element more doubles the buffers: 65537 % 6 = 5, 65537 = 5 * 13107 + 2, 4 tiles.
        (65537, F32, 6, 13107, 2, 3277, 2),
        # 24544 = 2 * 12272: even at once.
        (24544, F32, 2, 12272, 0, 12272, 1),
        # 24546: 3 loops, even over 3.
        (24546, F32, 3, 8182, 0, 8182, 1),
        # 24548: 3 loops, 24548 % 3 = 2; even over 2, so two blocks of 12274 in ceil(3 / 2) tiles.
        (24548, F32, 2, 12274, 0, 6137, 1),
        # 12273: 2 loops, odd; one core alone, two tiles.
        (12273, F32, 1, 12273, 0, 6137, 1),
    ],
)
def test_the_tiling_on_910b4_is_the_one_worked_by_hand(
    n: int, dtype: DType, blocks: int, length: int, rest: int, tile: int, buffers: int
) -> None:
    cut = tiling(socs.load(B4), dtype, n)
    assert (cut.block_dim, cut.block_length) == (blocks, length)
    assert cut.last_block_length == (rest or length)
    assert (cut.tile_length, cut.buffer_num) == (tile, buffers)


@pytest.mark.parametrize(
    ("n", "dtype", "blocks", "length", "rest", "tile"),
    [
        # 64 loops of 16384 on 8 cores: 2^17 each, 16 tiles of 8192.
        (2**20, F32, 8, 2**17, 0, 8192),
        # 96 loops of 10923: 24 tiles, floor(131072 / 24) = 5461, up to 5472.
        (2**20, F16, 8, 2**17, 0, 5472),
        # 1000 in one tile: up to 1024, but no more than the block.
        (1000, F32, 1, 1000, 0, 1000),
        # 33 loops: 16384 * 32 + 1 = 7 * 74898 + 3; ceil(33 / 7) = 5, doubled 10 tiles;
        # floor(74898 / 10) = 7489, up to 7520.
        (16384 * 32 + 1, F32, 8, 74898, 3, 7520),
    ],
)
def test_the_tiling_on_310p_floors_and_rounds_up_to_32(
    n: int, dtype: DType, blocks: int, length: int, rest: int, tile: int
) -> None:
    cut = tiling(socs.load("Ascend310P3"), dtype, n)
    assert (cut.block_dim, cut.block_length, cut.last_block_length) == (blocks, length, rest or length)
    assert cut.tile_length == tile


def test_310p_floors_where_910b_rounds_up() -> None:
    # 65605 = 5 * 13121 elements: 5 loops on 5 cores, 2 tiles each: floor(13121 / 2) = 6560 = 205 * 32
    # stays as it is; rounded up it would be 6561, and a buffer of 6592.
    soc = socs.load("Ascend310P3")
    assert tiling(soc, F32, 5 * 13121).tile_length == 6560
    assert host_tiling(5 * 13121, F32, 8, 262144, False)["tile"] == 6561


@pytest.mark.parametrize("name", ["Ascend310P3", B4])
def test_a_second_split_that_comes_out_even_uses_one_core_less(name: str) -> None:
    found = 0
    for n in range(1, 400_000, 37):
        cut = tiling(socs.load(name), F32, n)
        loops = -(-n // (16384 if name == "Ascend310P3" else 12272))
        used = min(socs.load(name).vector_cores, loops)
        if n % used and n % (used - 1) == 0:
            found += 1
            assert cut.block_dim == used - 1
            assert cut.block_length == cut.last_block_length == n // (used - 1)
    assert found > 100


def elements(cut: Tiling) -> list[tuple[int, int]]:
    """Runs (start, stop) of every tile of every block, for small launches."""
    return [
        (start + tile.offset, start + tile.offset + tile.count)
        for starts, _, tiles, _, _ in cut.shapes()
        for start in starts
        for tile in (tiles[i] for i in range(len(tiles)))
    ]


@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize("dtype", [F32, F16])
def test_tiles_hold_every_element_once_and_fit_their_buffers(name: str, dtype: DType) -> None:
    soc = socs.load(name)
    for n in (
        *range(1, 400),
        *range(8100, 8260, 7),
        *range(10_900, 10_930),
        *range(12_200, 12_300, 3),
        *range(65_500, 65_600, 3),
        *range(199_000, 201_000, 61),
    ):
        cut = tiling(soc, dtype, n)
        edge = 0
        for start, stop in elements(cut):
            assert start == edge
            assert stop > start
            edge = stop
        assert edge == n
        for _, _, tiles, buffer, _ in cut.shapes():
            assert max(tiles[0].count, tiles[len(tiles) - 1].count) <= buffer
            assert [tiles[i].last for i in range(len(tiles))] == [*[False] * (len(tiles) - 1), True]


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 2**40),
    name=st.sampled_from(ARCHS),
    dtype=st.sampled_from([F32, F16]),
    tile=st.none() | st.integers(1, 20_000),
    blocks=st.none() | st.integers(1, 48),
    buffers=st.none() | st.integers(1, 4),
)
def test_blocks_cover_any_length_exactly_once(
    n: int, name: str, dtype: DType, tile: int | None, blocks: int | None, buffers: int | None
) -> None:
    options = TilingOptions(tile, buffers, min(blocks, n) if blocks else None)
    cut = with_options(tiling(socs.load(name), dtype, n), options, dtype.itemsize)
    edge = count = 0
    for starts, first, tiles, buffer, depth in cut.shapes():
        assert first == count
        assert starts[0] == edge
        assert len(starts) == 1 or starts.step == tiles.length
        last = tiles[len(tiles) - 1]
        assert last.offset + last.count == tiles.length
        assert 0 < last.count <= tiles.tile_length <= buffer
        assert tile is None or tiles.tile_length == min(tile, tiles.length)
        assert buffers is None or depth == buffers
        edge = starts[-1] + tiles.length
        count += len(starts)
    assert edge == n
    assert count == cut.block_dim
    assert cut.chosen_by == ("user" if options.given else "kernel")


def ub_asked_for(soc: Soc, dtype: DType, n: int) -> int:
    """Four buffers' worth per queue depth, and four float32 scratch buffers for 16-bit dtypes."""
    scratch = 0 if dtype is F32 else 16
    return max(
        buffer * (4 * dtype.itemsize * depth + scratch)
        for _, _, _, buffer, depth in tiling(soc, dtype, n).shapes()
    )


@pytest.mark.parametrize("name", ARCHS)
@pytest.mark.parametrize("dtype", [F32, F16])
def test_a_program_reserves_four_tiles_per_buffer_and_scratch_for_16_bits(name: str, dtype: DType) -> None:
    soc = socs.load(name)
    for n in (1, 31, 4096, 8182, 10_913, 12_273, 65_536, 65_537, 2**20, 2**40 + 1):
        programs = [
            record(soc, dtype, tiles, buffer, depth)
            for _, _, tiles, buffer, depth in tiling(soc, dtype, n).shapes()
        ]
        assert max(program.ub_bytes for program in programs) == ub_asked_for(soc, dtype, n)


def test_gap_float16_on_310p_asks_for_more_ub_than_there_is() -> None:
    # ceil(262144 / 24) = 10923 rounds up to 10944 elements of 24 bytes: 262656. The real one does too.
    soc = socs.load("Ascend310P3")
    assert [n for n in range(10_880, 10_960) if ub_asked_for(soc, F16, n) > 262_144] == [
        *range(10_913, 10_924)
    ]
    assert ub_asked_for(soc, F16, 10_913) == ub_asked_for(soc, F16, 10_923) == 10_944 * 24 == 262_656
    assert ub_asked_for(soc, F16, 10_912) == 10_912 * 24
    for n in (21_826, 21_846, 32_739, 54_565):  # several tiles or blocks of such a length
        assert ub_asked_for(soc, F16, n) == 262_656
    assert all(ub_asked_for(soc, F16, n) <= 262_144 for n in range(65_537, 300_000, 1009))


@pytest.mark.parametrize("name", ["Ascend910B4-1", "Ascend910_9391"])
@pytest.mark.parametrize("dtype", [F32, F16, BF16])
def test_a2_and_a3_never_ask_for_more_ub_than_there_is(name: str, dtype: DType) -> None:
    soc = socs.load(name)
    for n in (*range(8000, 12_500), *range(12_500, 400_000, 331), 2**26, 2**31 - 1, 2**40 + 1):
        assert ub_asked_for(soc, dtype, n) <= 196_608


def test_the_reserve_of_the_tiling_is_no_limit_of_the_chip() -> None:
    # 8182 rounds up to 8192 elements of 24 bytes: all 196608, more than the 196352 of the tiling.
    soc = socs.load(B4)
    assert ub_asked_for(soc, F16, 8182) == 196_608
    bare = soc.model_copy(update={"ub": soc.ub.model_copy(update={"reserved_bytes": 0})})
    assert tiling(bare, F16, 8192).tile_length == 8192
    assert tiling(soc, F16, 8192).tile_length == 4096


def test_options_replace_only_what_they_name() -> None:
    cut = tiling(socs.load(B4), F32, 2**20)
    assert with_options(cut, TilingOptions(), 4) is cut
    deeper = with_options(cut, TilingOptions(buffer_num=3), 4)
    assert deeper == replace(
        cut, buffer_num=3, last_buffer_num=3, chosen_by="user", last_tile_length=22, last_buffer_length=32
    )
    fewer = with_options(cut, TilingOptions(block_dim=16), 4)
    assert (fewer.block_dim, fewer.block_length, fewer.last_block_length) == (16, 2**16, 2**16)
    assert fewer.tile_length == cut.tile_length
    shorter = with_options(cut, TilingOptions(tile_length=33), 4)
    assert (shorter.tile_length, shorter.buffer_length) == (33, 64)
    assert (shorter.last_tile_length, shorter.last_buffer_length) == (22, 32)


def test_a_tile_of_a_steady_block_is_followed_by_a_shorter_one() -> None:
    tiles = Tiles(26886, 4482)
    assert len(tiles) == 6
    assert [tiles[i].count for i in range(6)] == [4482] * 5 + [4476]
    assert len(Tiles(26886, 4481)) == 6
    assert Tiles(26886, 4481)[5].count == 4481

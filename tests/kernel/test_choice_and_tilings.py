"""Which kernel a call takes, and the cuts of those that broadcast, restated from the operator's facts."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from legal_orders import Stuck, favouring, legal_order
from mse_oracle import ARCHS, INPUTS, chip_dtypes

import socs
from kernel import registry
from kernel.mse_loss_backward import Plan, Reduction, plan
from kernel.program import Instruction, Launch, Loop
from kernel.tiling import Problem, TilingOptions
from kernel.verify import verify
from socs.errors import AtlasError
from socs.isa import DType, Op, Pipe

F32, F16, BF16 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16
REGISTER = socs.load("Ascend950PR_9579")


def planned_for(
    name: str, shape: Any, dtype: DType = F32, reduction: Reduction = Reduction.MEAN, **named: Any
) -> Plan:
    return plan(socs.load(name), shape=shape, dtype=dtype, reduction=reduction, **named)


def launch_of(found: Plan) -> Launch:
    assert found.launch is not None
    return found.launch


# ---- the choice (facts: operator, 1.5 and 5.5) ---------------------------------------------------


def documented(family: str, alike: bool, release: str) -> str:
    """The kernel of a chip family, as the facts have it."""
    if family == "950":
        return {"newer": "mse_loss_grad_v2_950", "older": "mse_loss_grad_950"}[release]
    return "mse_loss_grad_v2" if alike and family in ("A2", "A3", "310P") else "mse_loss_grad"


def family_of(name: str) -> str:
    for start, family in (("Ascend950", "950"), ("Ascend910_93", "A3"), ("Ascend310P", "310P")):
        if name.startswith(start):
            return family
    if name.startswith("Ascend310B"):
        return "310B"
    # 910B alone is of the training series, as 910A and the ProB are; 910B1 to B4 are the A2 series.
    return "A2" if name[len("Ascend910B") :][:1].isdigit() and name.startswith("Ascend910B") else "910"


@pytest.mark.parametrize("name", socs.names())
def test_the_kernel_is_the_documented_one(name: str) -> None:
    shapes: Any = [
        ((4, 5), (4, 5), (4, 5), True),
        ((4, 5), (4, 5), (), False),
        ((4, 5), (5,), (4, 5), False),
        ((1, 5), (4, 5), (4, 5), False),
        ((4, 5), (4, 5), (1, 4, 5), False),  # as many elements, but not the same view shape
        ((), (), (), True),
        ((), (), (1,), False),
    ]
    for own, target, grad, alike in shapes:
        for formats, release in itertools.product((True, False), ("newer", "older")):
            found = planned_for(
                name, own, target_shape=target, grad_shape=grad, formats_agree=formats, release=release
            )
            assert found.kernel == documented(family_of(name), alike and formats, release)
            assert found.stand_in_for is None
            assert launch_of(found).kernel == found.kernel


@pytest.mark.parametrize("release", ["", "Newer", "newest", "8.1"])
def test_an_unknown_release_is_refused(release: str) -> None:
    with pytest.raises(AtlasError, match="must be newer or older"):
        planned_for("Ascend910B3", (4,), release=release)


# ---- the coefficient (facts: operator, 3.2, 3.3, 3.5, 5.5) ------------------------------------------


def nearest(value: Fraction) -> np.float32:
    """``value`` in float32, to the nearest, ties to even, from its neighbours."""
    guess = np.float32(float(value))
    near = [np.nextafter(guess, np.float32(0)), guess, np.nextafter(guess, np.float32(4))]
    return min(near, key=lambda x: (abs(Fraction(float(x)) - value), int(x.view(np.uint32)) & 1))


LARGE = (2**24 + 1, 2**25 + 3, 3 * 2**23 + 1, 2**31 - 1, 10**9 + 7)


@pytest.mark.parametrize("count", [1, 3, 7, 1000, 2**24 - 1, *LARGE])
def test_the_coefficient_has_the_count_of_self_before_it_is_broadcast(count: int) -> None:
    rounded = nearest(Fraction(count))  # (float)N
    once = nearest(Fraction(2, count))
    cases = [
        ("Ascend910A", "newer", once),
        ("Ascend910B4", "newer", once),
        ("Ascend950PR_9579", "older", once),
        ("Ascend950PR_9579", "newer", nearest(2 / Fraction(float(rounded)))),
    ]
    for name, release, factor in cases:
        named = {"target_shape": (3, 2, count), "grad_shape": (2, 1), "release": release}
        found = launch_of(planned_for(name, (count,), **named))
        assert found.scalars == {"coefficient": float(factor)}
        for reduction in (Reduction.NONE, Reduction.SUM):
            found = launch_of(planned_for(name, (count,), reduction=reduction, **named))
            assert found.scalars == {"coefficient": 2.0}


def test_the_releases_of_the_950_round_the_coefficient_differently() -> None:
    # Facts, 3.4: N = 16777217 gives 2^-23 with a rounded count, 0x33FFFFFF with an exact one.
    bits = {
        release: np.float32(
            launch_of(planned_for(REGISTER.name, (2**24 + 1,), release=release)).scalars["coefficient"]
        ).view(np.uint32)
        for release in ("newer", "older")
    }
    assert bits == {"newer": 0x34000000, "older": 0x33FFFFFF}


# ---- the cuts --------------------------------------------------------------------------------------


def register_based(shape: tuple[int, ...], ub: int, cores: int) -> tuple[list[int], int]:
    """Facts, 5.5: (tiles of each core, elements of a full tile). Only where tiles are whole rows."""
    dims = [dim for dim in shape if dim != 1]
    capacity = ub // 4 // 32 * 32 // 4
    inner, piece, outer = 1, 1, 1
    for place in range(len(dims) - 1, -1, -1):
        if inner * dims[place] <= capacity:
            inner *= dims[place]
            continue
        piece = capacity // inner
        outer = math.prod(dims[:place]) * math.ceil(dims[place] / piece)
        break
    used = min(outer, cores)
    return [outer // used + (core < outer % used) for core in range(used)], inner * piece


def per_core(found: Plan) -> list[tuple[int, int, int]]:
    """(start, elements, tiles) of every block in order."""
    assert found.tiling is not None
    return [
        (start, tiles.length, len(tiles))
        for starts, _, tiles, _, _ in found.tiling.shapes()
        for start in starts
    ]


def test_a_slot_of_the_950_is_a_quarter_of_the_ub() -> None:
    # 253952 / 4 = 63488 B, a multiple of 32: 15872 float32, whatever the dtype.
    for dtype in (F32, F16, BF16):
        found = planned_for(REGISTER.name, (10**6,), dtype)
        assert found.tiling is not None
        assert found.tiling.tile_length == 15_872
        assert max(b.bytes for g in launch_of(found).blocks for b in g.program.buffers) == 63_488
        assert all(g.program.ub_bytes == 4 * 63_488 for g in launch_of(found).blocks)
    odd = REGISTER.model_copy(update={"ub": REGISTER.ub.model_copy(update={"bytes": 253_951})})
    cut = registry.find("mse_loss_grad_v2_950").tiling(odd, Problem(F32, (10**6,)))
    assert cut.tile_length == 63_456 // 4  # 63487 down to a multiple of 32


@settings(max_examples=150, deadline=None)
@given(
    inner=st.lists(st.integers(1, 25), max_size=3).map(tuple),  # always fit into a slot
    split=st.integers(1, 3_000_000),
    dtype=st.sampled_from([F32, F16, BF16]),
)
def test_the_register_based_cut_is_the_documented_one_in_one_split_axis(
    inner: tuple[int, ...], split: int, dtype: DType
) -> None:
    shape = (split, *inner)
    cores, tile = register_based(shape, REGISTER.ub.bytes, REGISTER.vector_cores)
    found = planned_for(REGISTER.name, shape, dtype)
    blocks = per_core(found)
    assert [tiles for _, _, tiles in blocks] == cores
    assert found.tiling is not None
    assert found.tiling.tile_length == min(tile, math.prod(shape))
    total = 0
    for start, length, tiles in blocks:
        assert start == total
        assert (tiles - 1) * tile < length <= tiles * tile
        total += length
    assert total == math.prod(shape)


@pytest.mark.parametrize(
    ("tiles", "cores"),
    [
        (1, [1]),
        (64, [1] * 64),
        (65, [2, *[1] * 63]),
        (130, [*[3] * 2, *[2] * 62]),
        (127, [*[2] * 63, 1]),
        (128, [2] * 64),
    ],
)
@pytest.mark.parametrize("short", [0, 1, 15_871])
def test_the_first_cores_take_one_tile_more(tiles: int, cores: list[int], short: int) -> None:
    chip = socs.load(REGISTER.name, {"vector_cores": 64})
    found = plan(chip, shape=(tiles * 15_872 - short,), dtype=F32, reduction=Reduction.SUM)
    blocks = per_core(found)
    assert [count for _, _, count in blocks] == cores
    assert blocks[-1][0] + blocks[-1][1] == tiles * 15_872 - short


def test_gap_register_based_tiles_run_across_rows_where_the_real_ones_stop() -> None:
    # 100 rows of 20000 elements: the real cut is 2 pieces a row (15872 and 4128), 200 tiles. Here the
    # index space is flat: ceil(2000000 / 15872) = 127 tiles (module docstring of mse_loss_grad_950).
    cores, tile = register_based((100, 20_000), REGISTER.ub.bytes, REGISTER.vector_cores)
    assert (sum(cores), tile) == (200, 15_872)
    assert sum(tiles for _, _, tiles in per_core(planned_for(REGISTER.name, (100, 20_000)))) == 127


@pytest.mark.parametrize(("rank", "key"), [(1, 0), (4, 0), (5, 1), (8, 1)])
def test_the_tiling_key_of_the_register_based_kernel_counts_axes_that_are_not_1(rank: int, key: int) -> None:
    for shape in ((2,) * rank, ((1,) * (8 - rank) + (2,) * rank)):
        found = planned_for(REGISTER.name, shape)
        assert found.tiling is not None
        assert found.tiling.key == key


def atvoss(n: int, alive: int, ub: int, cores: int) -> tuple[int, int, int]:
    """Facts, 5.2, schMode 201: (ubFormer, blockFormer in elements, blockNum)."""
    former = math.floor((ub / alive) / 128) * 128 // 4
    outer = math.ceil(n / former)
    block = math.ceil(outer / cores)
    number = math.ceil(outer / block)
    if number < cores / 2 and former * 4 * alive > 8192:
        wanted = math.ceil(2 * n / cores) * 4
        wanted = (wanted + 127) // 128 * 128 // 4
        former = max(min(former, wanted), math.floor((8192 / alive) / 128) * 128 // 4)
        outer = math.ceil(n / former)
        block = math.ceil(outer / cores)
        number = math.ceil(outer / block)
    return former, block * former, number


@settings(max_examples=300, deadline=None)
@given(
    n=st.integers(1, 10_000) | st.integers(1, 5_000_000) | st.integers(1, 2**40),
    dtype=st.sampled_from([F32, F16, BF16]),
    scalar=st.booleans(),
    name=st.sampled_from([n for n in socs.names() if n.startswith("Ascend950")]),
)
def test_the_atvoss_cut_is_the_documented_one(n: int, dtype: DType, scalar: bool, name: str) -> None:
    scalar = scalar or n == 1  # one element of one is a single element too
    soc = socs.load(name)
    alive = {(False, True): 10, (True, True): 8, (False, False): 11, (True, False): 9}[scalar, dtype is F32]
    former, block, number = atvoss(n, alive, soc.ub.bytes, soc.vector_cores)
    found = planned_for(name, (n,), dtype, release="older", grad_shape=() if scalar else None)
    assert found.tiling is not None
    assert found.tiling.block_dim == number
    assert found.tiling.block_length == min(block, n)
    assert found.tiling.tile_length == min(former, n)
    assert found.tiling.key == (65_543 if scalar else 7)
    assert found.tiling.buffer_num == 2


@pytest.mark.parametrize(
    ("n", "scalar", "tile", "blocks"),
    [
        # 253952 / 10 = 25395.2, down to 25344 B = 6336 float32. 2^20: 166 pieces, 3 a core: 56 of 64.
        (2**20, False, 6_336, 56),
        # With a single dout 253952 / 8 = 31744 B = 7936. 133 pieces, 3 a core: 45.
        (2**20, True, 7_936, 45),
        # 100000: 16 pieces, under half the cores: 2 * 100000 / 64 = 3125 elements, up to 3136: 32.
        (100_000, False, 3_136, 32),
        # 1000: 32 elements would do, but no less than 8192 / 10, down to 768 B = 192.
        (1_000, False, 192, 6),
    ],
)
def test_the_atvoss_cut_worked_by_hand(n: int, scalar: bool, tile: int, blocks: int) -> None:
    chip = socs.load(REGISTER.name, {"vector_cores": 64})
    grad = () if scalar else None
    found = plan(
        chip, shape=(n,), dtype=F32, reduction=Reduction.SUM, release="older", grad_shape=grad
    ).tiling
    assert found is not None
    assert (found.tile_length, found.block_dim) == (tile, blocks)


def tbe_block(n: int, cores: int, itemsize: int) -> int:
    """Facts, 5.3, in one dimension: the elements of a block."""
    elements = 32 // itemsize
    if n <= elements * cores * 2:
        return n
    unit = elements if n <= elements * 64 * cores else 128
    return math.ceil(math.ceil(n / cores) / unit) * unit


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 3_000) | st.integers(1, 3_000_000) | st.integers(1, 2**40),
    chip_dtype=st.sampled_from([(n, d) for n, d in chip_dtypes() if not n.startswith("Ascend950")]),
)
def test_the_tbe_cut_is_the_documented_one_in_one_dimension(n: int, chip_dtype: Any) -> None:
    name, dtype = chip_dtype
    soc = socs.load(name)
    found = planned_for(name, (n,), dtype, grad_shape=(1, 1))
    assert found.kernel == "mse_loss_grad"
    assert found.tiling is not None
    block = min(tbe_block(n, soc.vector_cores, dtype.itemsize), n)
    assert found.tiling.block_length == block
    assert found.tiling.block_dim == math.ceil(n / block) <= soc.vector_cores
    assert {"tiling", "queues", "coefficient"} <= set(found.assumed)


SHAPES: Any = [
    {"shape": (7, 33)},
    {"shape": (7, 33), "grad_shape": ()},
    {"shape": (7, 33), "grad_shape": (33,)},
    {"shape": (33,), "target_shape": (7, 1)},
    {"shape": (1,), "grad_shape": (3, 1, 70_001)},
    {"shape": (2, 1, 5, 1, 3, 1, 7, 1), "target_shape": (1, 3, 1, 2, 1, 4, 1, 2)},
    {"shape": (2**20, 2**20), "grad_shape": (2**20, 1)},
]


@pytest.mark.parametrize("release", ["newer", "older"])
@pytest.mark.parametrize("name", socs.names())
def test_nothing_is_found_in_any_kernel_of_any_chip(name: str, release: str) -> None:
    soc = socs.load(name)
    for named in SHAPES:
        for dtype in (F32, F16, BF16) if soc.npu_arch in (2201, 3510) else (F32, F16):
            found = planned_for(name, dtype=dtype, release=release, **named)
            assert found.findings == ()
            assert verify(launch_of(found), soc) == []


CHIP_KERNELS = [
    *((name, "mse_loss_grad") for name in ARCHS),
    (REGISTER.name, "mse_loss_grad_v2_950"),
    (REGISTER.name, "mse_loss_grad_950"),
]


@pytest.mark.parametrize("kernel", ["mse_loss_grad_v2_950", "mse_loss_grad_950"])
@pytest.mark.parametrize("name", ["Ascend910A", "Ascend310P3"])
def test_a_kernel_of_the_950_is_refused_where_copies_are_whole_blocks(name: str, kernel: str) -> None:
    with pytest.raises(AtlasError, match="copies whole 32 B blocks"):
        planned_for(name, (7, 33), kernel=kernel)


@settings(max_examples=150, deadline=None)
@given(
    chip_kernel=st.sampled_from(CHIP_KERNELS),
    rows=st.integers(1, 50),
    columns=st.integers(1, 4_000) | st.integers(1, 2**34),
    grad=st.sampled_from(["one", "row", "column", "whole"]),
    tile=st.none() | st.integers(1, 3_000),
    buffers=st.none() | st.integers(1, 2),
    blocks=st.none() | st.integers(1, 8),
)
def test_blocks_and_tiles_hold_every_element_once(
    chip_kernel: tuple[str, str],
    rows: int,
    columns: int,
    grad: str,
    tile: int | None,
    buffers: int | None,
    blocks: int | None,
) -> None:
    name, kernel = chip_kernel
    soc, total = socs.load(name), rows * columns
    shape = {"one": (), "row": (columns,), "column": (rows, 1), "whole": (rows, columns)}[grad]
    options = TilingOptions(tile, buffers, min(blocks, total, soc.vector_cores) if blocks else None)
    found = planned_for(name, (rows, columns), F16, grad_shape=shape, kernel=kernel, options=options)
    assert found.tiling is not None
    edge = count = 0
    for starts, first, tiles, buffer, depth in found.tiling.shapes():
        assert (first, starts[0]) == (count, edge)
        assert len(starts) == 1 or starts.step == tiles.length
        last = tiles[len(tiles) - 1]
        assert last.offset + last.count == tiles.length
        assert 0 < last.count <= tiles.tile_length <= buffer
        assert tile is None or tiles.tile_length == min(tile, tiles.length)
        assert buffers is None or depth == buffers
        edge, count = starts[-1] + tiles.length, count + len(starts)
    assert (edge, count) == (total, found.tiling.block_dim)
    assert count <= soc.vector_cores


# ---- defects that were planted ----------------------------------------------------------------------


def register_launch(dtype: DType) -> Launch:
    options = TilingOptions(tile_length=64, block_dim=1)
    launch = launch_of(planned_for(REGISTER.name, (4, 50), dtype, grad_shape=(50,), options=options))
    assert not any(isinstance(item, Loop) for item in launch.blocks[0].program.items)
    assert verify(launch, REGISTER) == []
    return launch


@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("flag", ["MTE2->V", "V->MTE3", "MTE3->MTE2", "V->MTE2"])
def test_a_missing_flag_of_the_register_based_kernel_is_found(dtype: DType, flag: str) -> None:
    launch = register_launch(dtype)
    (blocks,) = launch.blocks
    items = blocks.program.items
    places = [
        place
        for place, item in enumerate(items)
        if isinstance(item, Instruction) and item.op is Op.WAIT_FLAG and str(item.flag).startswith(flag)
    ]
    assert bool(places) is not (dtype is F32 and flag == "V->MTE2")
    for place in places:
        for gone, rule in (({place}, "race"), ({setter(items, place)}, "deadlock")):
            left = tuple(item for number, item in enumerate(items) if number not in gone)
            program = replace(blocks.program, items=left)
            broken = replace(launch, blocks=(replace(blocks, program=program),))
            assert rule in {finding.rule for finding in verify(broken, REGISTER)}
            if rule == "deadlock":
                with pytest.raises(Stuck):
                    legal_order(program, favouring(Pipe.V, Pipe.MTE2, Pipe.MTE3, Pipe.S))


def setter(items: Any, wait: int) -> int:
    """The last set of the flag that the wait at ``wait`` takes."""
    return max(
        place
        for place in range(wait)
        if items[place].op is Op.SET_FLAG and items[place].flag == items[wait].flag
    )


@pytest.mark.parametrize("name", ARCHS)
def test_a_launch_counts_the_bytes_of_distinct_elements(name: str) -> None:
    launch = launch_of(planned_for(name, (7, 1), F16, target_shape=(5,), grad_shape=()))
    assert {t.name: t.bytes for t in launch.tensors} == {
        "self": 14,
        "target": 10,
        "grad_output": 2,
        "out": 70,
    }
    assert set(INPUTS) == {t.name for t in launch.tensors if not t.written}

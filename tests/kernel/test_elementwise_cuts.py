"""The cuts of the elementwise kernels: the vendor's rule restated, and the block counts of recorded runs."""

from __future__ import annotations

import csv
import math
from typing import Any

import pytest
from family import planned, request
from hypothesis import given, settings
from hypothesis import strategies as st

import socs
from emulator.validation.shipped import MEASUREMENTS
from kernel.elementwise import FAMILY, Input, Job
from kernel.operators import find
from kernel.plan import Plan
from kernel.program import Instruction, Loop
from kernel.schedules import live_tensors
from kernel.tiling import Tiling, TilingOptions
from kernel.verify import verify
from socs.errors import AtlasError
from socs.isa import DType, Op, Pipe

A2 = socs.load("Ascend910B3")
B4 = socs.load("Ascend910B4-1")
F32, F16, BF16 = DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16


def cut_of(plan: Plan) -> Tiling:
    assert plan.tiling is not None
    return plan.tiling


def up(value: int, unit: int) -> int:
    return math.ceil(value / unit) * unit


# ---- TBE ----------------------------------------------------------------------------------------

LIVE = {
    # operator and dtypes of its inputs and result: tensors of a tile that lie in the UB at once
    ("relu", F32): 1,
    ("relu", F16): 1,
    ("relu", BF16): 2,
    ("neg", F32): 1,
    ("fill", F32): 1,
    ("fill", BF16): 2,
    ("add", F32): 3,
    ("add", F16): 3,
    ("add", BF16): 4,
}


@pytest.mark.parametrize(("case", "live"), LIVE.items())
def test_the_count_of_live_tensors_is_that_of_the_schedules(case: Any, live: int) -> None:
    name, dtype = case
    operator = FAMILY[name]
    inputs = tuple(Input(n, dtype) for n in operator.inputs if operator.reads)
    assert live_tensors(Job(operator, inputs, dtype, (8,))) == live


def test_a_cast_has_the_limits_that_the_vendors_cast_names() -> None:
    # 24568 and 12280 elements on the A2 series, 32760 and 16376 on the 910: atb-ops-lib, cast_tiling.cpp.
    assert live_tensors(Job(FAMILY["cast"], (Input("x", F32),), F16, (8,))) == 2
    # Before that comes the longest instruction, of 255 repeats.
    assert cut_of(planned(A2, "cast", (40 * 16256,), "float32")).buffer_num == 1
    assert cut_of(planned(A2, "cast", (40 * 16384,), "float32")).buffer_num == 2
    for chip, most in (("Ascend910B3", 12280), ("Ascend910A", 16376)):
        for tiles in (5, 12, 33):
            cores = socs.load(chip).vector_cores
            # Whole 128 elements, so that one tile more is needed wherever ``most`` is none of them.
            cut = cut_of(planned(socs.load(chip), "cast", (cores * tiles * (most // 128 * 128),), "float32"))
            assert (cut.buffer_num, cut.tile_length) == (2, most // 128 * 128)


def vendors(
    total: int, cores: int, ub: int, size: int, live: int, out: int, small: int
) -> tuple[int, int, int]:
    """Block, tile and buffers of ``eletwise_v4``, written out from its description."""
    most = {2: 32767, 4: 16383}[size]
    one = min(int(ub / live) // 32 * 32 // size, most)
    two = min(int(ub / 2 / live) // 32 * 32 // size, most)
    block = up(math.ceil(total / cores), 128)
    block = min(max(block, small * 32 // size), total)
    limit = two if block > one else one
    tile = block
    if limit < block:
        even = math.ceil(block / math.ceil(block / limit))
        tile = up(even, 128) if up(even, 128) <= limit else even // 128 * 128
    return block, tile, 2 if block > one else 1


@settings(max_examples=150, deadline=None)
@given(
    total=st.integers(1, 1 << 26),
    case=st.sampled_from(list(LIVE.items())),
    chip=st.sampled_from(["Ascend910B3", "Ascend910B1", "Ascend910_9391", "Ascend310P3", "Ascend910A"]),
)
def test_equal_shapes_are_cut_as_the_vendors_rule_has_it(total: int, case: Any, chip: str) -> None:
    (name, dtype), live = case
    soc = socs.load(chip)
    small = 32 if chip == "Ascend910A" else 128
    size = 4 if dtype is BF16 else dtype.itemsize
    cut = cut_of(planned(soc, name, (total,), str(dtype)))
    wanted = vendors(total, soc.vector_cores, soc.ub.bytes - 32, size, live, dtype.itemsize, small)
    assert (cut.block_length, min(cut.tile_length, cut.block_length), cut.buffer_num) == wanted
    assert cut.block_dim == math.ceil(total / wanted[0])


def recorded() -> list[Any]:
    """The runs of vendor kernels with a block count, one for each call."""
    with MEASUREMENTS.open() as stream:
        rows = [r for r in csv.DictReader(stream) if r["kernel"] == "vendor" and r["block_dim"]]
    calls = {}
    for row in rows:
        if row["op"] != "MseLossGrad":
            calls[row["soc"], row["op"], row["in_dtypes"], row["out_dtypes"], row["in_shapes"]] = row
    return list(calls.values())


def predicted_blocks(row: Any) -> int:
    operator = find(row["op"])
    shapes = [tuple(map(int, s.split(","))) if s else () for s in row["in_shapes"].split(";")]
    kinds = row["in_dtypes"].split(";")
    count = len(shapes) if operator.reads else 1
    names = operator.arguments(count)
    plan = planned(
        socs.load(row["soc"]),
        operator.name,
        (1,),
        "float32",
        shapes=dict(zip(names, shapes, strict=False)),
        dtypes=dict(zip(names, kinds, strict=False)),
        count=count,
        to=row["out_dtypes"],
    )
    assert plan.launch is not None
    return plan.launch.block_dim


def test_recorded_runs_on_a2_chips_had_the_blocks_that_are_predicted() -> None:
    rows = [row for row in recorded() if row["soc"].startswith("Ascend910B") and row["soc"] != "Ascend910B"]
    assert len(rows) > 60
    assert [(row["id"], predicted_blocks(row)) for row in rows] == [
        (row["id"], int(row["block_dim"])) for row in rows
    ]


def test_recorded_runs_on_the_training_series_had_them_but_for_a_few_shapes() -> None:
    rows = [row for row in recorded() if row["soc"] == "Ascend910B"]
    other = [row for row in rows if predicted_blocks(row) != int(row["block_dim"])]
    assert len(rows) > 250
    assert len(other) / len(rows) < 0.1
    # A first axis of 12, 16 or 18, whose elements one core each takes; 5 more cores than there are pieces.
    for row in other:
        first = int(row["block_dim"])
        assert f"{first}," in row["in_shapes"] or row["in_shapes"] == "21128;1,1", row["id"]


# ---- broadcasting -------------------------------------------------------------------------------


def test_rows_of_a_broadcast_input_are_kept_whole_as_long_as_no_core_stays_idle() -> None:
    cut = cut_of(planned(B4, "div", (3072, 256), "float16", shapes={"y": (3072, 1)}))
    assert (cut.block_dim, cut.block_length, cut.buffer_num) == (40, 77 * 256, 1)
    cut = cut_of(planned(B4, "div", (64, 38400), "float16", shapes={"y": (64, 1)}))
    assert cut.block_dim == 40
    assert cut.block_length % 38400
    assert cut_of(planned(B4, "mul", (4096, 512), "float32", shapes={"y": (512,)})).block_length % 512 == 0


def work(plan: Plan, op: Op) -> list[Instruction]:
    assert plan.launch is not None
    items = plan.launch.blocks[0].program.items
    flat = [i for item in items for i in (item.body if isinstance(item, Loop) else (item,))]
    return [i for i in flat if i.op is op]


def test_a_repeated_last_axis_costs_a_scalar_read_and_a_fill_for_each_row() -> None:
    plan = planned(B4, "div", (3072, 256), "float16", shapes={"y": (3072, 1)})
    (read,) = work(plan, Op.GET_VALUE)
    assert (read.pipe, read.issued_count) == (Pipe.S, 77)
    (fill,) = work(plan, Op.BROADCAST)
    assert (fill.dst.rows, fill.dst.count) == (77, 256)  # type: ignore[union-attr]
    for shapes in ({"y": (256,)}, {"y": ()}):
        plan = planned(B4, "div", (3072, 256), "float16", shapes=shapes)
        assert work(plan, Op.GET_VALUE) == []
        assert len(work(plan, Op.BROADCAST)) == len(shapes["y"])
    assert (
        work(
            planned(socs.load("Ascend950PR_9589"), "div", (8, 64), "float16", shapes={"y": (8, 1)}),
            Op.BROADCAST,
        )
        == []
    )


def test_rows_that_are_no_whole_blocks_are_filled_at_once() -> None:
    plan = planned(B4, "div", (1000, 5), "float16", shapes={"y": (1000, 1)})
    assert work(plan, Op.GET_VALUE) == []
    assert work(plan, Op.BROADCAST)[0].dst.rows == 1  # type: ignore[union-attr]


# ---- the others ---------------------------------------------------------------------------------


def test_one_input_is_worked_on_in_place_and_two_are_not() -> None:
    def stores_what_it_loaded(name: str) -> bool:
        plan = planned(A2, name, (1 << 20,), "float32")
        loads = {i.dst.address for i in work(plan, Op.COPY_IN)}  # type: ignore[union-attr]
        stores = {i.srcs[0].address for i in work(plan, Op.COPY_OUT)}  # type: ignore[union-attr]
        return stores <= loads

    assert stores_what_it_loaded("relu")
    assert stores_what_it_loaded("copy")
    assert not stores_what_it_loaded("add")
    assert not stores_what_it_loaded("cast")


def test_a_vendor_copy_never_overlaps_its_loads_and_stores() -> None:
    plan = planned(A2, "copy", (1 << 22,), "float32")
    assert (plan.kernel, cut_of(plan).buffer_num, cut_of(plan).block_dim) == ("copy_tensor_move", 1, 40)
    # 12,000 elements of float16 in 30 blocks, where whole 128 elements would make 24 (recorded).
    assert cut_of(planned(socs.load("Ascend910B"), "copy", (12000, 1), "float16")).block_dim == 30


@pytest.mark.parametrize(
    ("tiles", "cores", "blocks"), [(12, 20, 12), (24, 20, 12), (48, 20, 16), (96, 20, 20)]
)
def test_whole_tiles_are_shared_out_as_a_published_kernel_does(tiles: int, cores: int, blocks: int) -> None:
    # cannbot-ascendc-vs-pypto, mul_kernel: tiles of 8192 float16, block_dim as recorded.
    options = TilingOptions(block_dim=cores, tile_length=8192)
    plan = planned(B4, "mul", (tiles * 8192,), "float16", kernel="mul_ascendc", options=options)
    assert cut_of(plan).block_dim == blocks


@pytest.mark.parametrize(
    ("shape", "tile", "blocks"),
    [((32, 64), 1024, 2), ((128, 256), 1024, 32), ((512, 1024), 1024, 40), ((2048, 4096), 4096, 40)],
)
def test_triton_programs_are_rows_of_at_least_1024_elements(shape: Any, tile: int, blocks: int) -> None:
    cut = cut_of(planned(B4, "copy", shape, "float16", kernel="copy_triton"))
    assert (cut.tile_length, cut.block_dim) == (tile, pytest.approx(blocks, abs=1))


@pytest.mark.parametrize("block", [256, 1024, 8192])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tritons_loss_gradient_takes_the_block_size_that_is_stated(block: int, dtype: str) -> None:
    operator = find("MseLossGrad")
    options = TilingOptions(tile_length=block)
    plan = operator.plan(
        B4, request(operator, (1024, 1024), dtype, kernel=operator.kernel("triton"), options=options)
    )
    assert plan.launch is not None
    assert verify(plan.launch, B4) == []
    assert cut_of(plan).tile_length == block
    assert cut_of(plan).block_length % block == 0


def test_the_950_shares_out_pieces_of_the_ub() -> None:
    soc = socs.load("Ascend950PR_9589")
    # Two inputs and a result, each double: a sixth of the UB, in whole 128 B.
    piece = soc.ub.bytes // 6 // 128 * 128 // 4
    total = 2048 * 2048
    cut = cut_of(planned(soc, "maximum", (total,), "float32"))
    each = math.ceil(math.ceil(total / piece) / soc.vector_cores)
    assert (cut.tile_length, cut.block_length) == (piece, each * piece)
    small = cut_of(planned(soc, "relu", (5000,), "float32"))
    assert small.block_dim == math.ceil(5000 / up(math.ceil(5000 / math.ceil(5000 * 32 / 32768)), 512))


def test_a_block_count_beyond_the_cores_is_refused() -> None:
    with pytest.raises(AtlasError, match="block-dim = 41: Ascend910B3 has 40 vector cores"):
        planned(A2, "add", (1 << 20,), "float32", options=TilingOptions(block_dim=41))

"""What holds of every elementwise operator by its being registered: bits, programs, times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from family import COMPUTING, DTYPES, FAMILY, expected, planned, same, takes, tensor

import socs
from emulator.device.bound import bounds
from emulator.device.device import simulate
from kernel.compile import execute
from kernel.interpret import CARRIERS, interpret
from kernel.operators import OPERATORS, find
from kernel.plan import Plan
from kernel.program import Launch
from kernel.tiling import TilingOptions
from kernel.verify import verify
from socs.errors import AtlasError, UnknownCost
from socs.isa import DType
from socs.spec import Soc

A2 = socs.load("Ascend910B3")
CHIPS = ("Ascend910B4-1", "Ascend910_9391", "Ascend310P3", "Ascend910A", "Ascend310B1", "Ascend950PR_9579")
ODD = 1237
BINARY = [name for name in FAMILY if len(OPERATORS[name].inputs) == 2]


def launch_of(plan: Plan) -> Launch:
    assert plan.launch is not None
    return plan.launch


def bits_of(plan: Plan, soc: Soc, tensors: dict[str, Any], out: Any, run: Any, **more: Any) -> Any:
    launch = launch_of(plan)
    kinds = {t.name: CARRIERS[t.dtype] for t in launch.tensors}
    flat = {n: a.reshape(-1).view(kinds[n]) for n, a in tensors.items() if n in kinds}
    result = out.copy()
    run(launch, soc, {**flat, "out": result.reshape(-1).view(kinds["out"])}, **more)
    return result


def both(plan: Plan, soc: Soc, tensors: dict[str, Any], **more: Any) -> Any:
    """The bits of the interpreter and of the fused loop, which must agree."""
    kind = DTYPES.get(str(plan.dtype), np.dtype(str(plan.dtype)))
    rubbish = np.frombuffer(b"\xa5" * int(np.prod(plan.shape)) * kind.itemsize, kind).reshape(plan.shape)
    found = [bits_of(plan, soc, tensors, rubbish, run, **more) for run in (interpret, execute)]
    assert found[0].tobytes() == found[1].tobytes()
    return found[0]


def inputs_of(name: str, shape: tuple[int, ...], dtype: str, count: int = 3) -> dict[str, Any]:
    names = find(name).arguments(count)
    return {n: tensor(shape, dtype, seed) for seed, n in enumerate(names)}


# ---- bits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPUTING)
def test_interpreter_and_compiled_loop_give_the_oracles_bits(name: str, dtype: str) -> None:
    for shape in ((ODD,), (), (3, 1, 67)):
        tensors = inputs_of(name, shape, dtype)
        found = both(planned(A2, name, shape, dtype), A2, tensors)
        assert same(found, expected(name, tensors, dtype)), (name, dtype, shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cast_reaches_every_dtype_from_every_other(dtype: str) -> None:
    tensors = inputs_of("cast", (ODD,), dtype)
    for to in DTYPES:
        found = both(planned(A2, "cast", (ODD,), dtype, to=to), A2, tensors)
        assert same(found, expected("cast", tensors, dtype, to)), to


@pytest.mark.parametrize("small", [(7,), (5, 1), (), (1, 1, 1), (2, 5, 7)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_broadcast_inputs_give_the_bits_of_repeated_ones(dtype: str, small: tuple[int, ...]) -> None:
    for shapes in ((small, (5, 7)), ((5, 7), small)):
        tensors = {n: tensor(s, dtype, i) for i, (n, s) in enumerate(zip("xy", shapes, strict=True))}
        plan = planned(A2, "sub", (1,), dtype, shapes=dict(zip("xy", shapes, strict=True)))
        repeated = dict(zip("xy", np.broadcast_arrays(*tensors.values()), strict=True))
        assert plan.shape == np.broadcast_shapes(*shapes)
        assert same(both(plan, A2, tensors), expected("sub", repeated, dtype))


@pytest.mark.parametrize(
    "shapes", [((4, 1), (4, 8)), ((3, 64), (3, 1)), ((1000, 1), (1, 16)), ((2, 1, 1), (2, 3, 32))]
)
@pytest.mark.parametrize("chip", ["Ascend910A", "Ascend310P3", A2.name, "Ascend950PR_9589"])
def test_a_last_axis_of_whole_blocks_is_repeated_in_place(chip: str, shapes: Any) -> None:
    soc = socs.load(chip)
    for dtype in ("float32", "float16"):
        # No infinities, which not all of these chips have.
        normal = np.random.default_rng(5).standard_normal
        tensors = {n: normal(s).astype(dtype) for n, s in zip("xy", shapes, strict=True)}
        plan = planned(soc, "mul", (1,), dtype, shapes=dict(zip("xy", shapes, strict=True)))
        repeated = dict(zip("xy", np.broadcast_arrays(*tensors.values()), strict=True))
        assert same(both(plan, soc, tensors), expected("mul", repeated, dtype))


def test_inputs_of_different_dtypes_are_computed_in_float32() -> None:
    tensors = {"x": tensor((ODD,), "bfloat16", 1), "y": tensor((ODD,), "float32", 2)}
    plan = planned(A2, "mul", (ODD,), "bfloat16", dtypes={"y": "float32"})
    with np.errstate(all="ignore"):
        wanted = tensors["x"].astype(np.float32) * tensors["y"]
    assert plan.dtype is DType.FLOAT32
    assert same(both(plan, A2, tensors), wanted)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint16", "int8", "bool"])
def test_a_copy_takes_elements_of_every_size(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 2, ODD).astype(dtype)
    assert both(planned(A2, "copy", (ODD,), dtype), A2, {"x": x}).tolist() == x.tolist()


@pytest.mark.parametrize("kind", ["tbe", "tbe_older", "atvoss", "ascendc", "triton", "plain"])
@pytest.mark.parametrize("name", ["relu", "sub", "cast", "fill", "add_n"])
def test_bits_do_not_depend_on_the_kernel_that_was_chosen(name: str, kind: str) -> None:
    shape = (37, 1111)
    tensors = inputs_of(name, shape, "bfloat16")
    own = planned(A2, name, shape, "bfloat16")
    other = planned(A2, name, shape, "bfloat16", kernel=find(name).kernel(kind))
    assert other.kernel == f"{name}_{kind}"
    results = [bits_of(p, A2, tensors, np.zeros(shape, DTYPES[str(p.dtype)]), execute) for p in (own, other)]
    assert results[0].tobytes() == results[1].tobytes()


def test_saturation_reaches_float16_arithmetic_and_not_float32() -> None:
    big = np.full((8,), 60000, np.float16)
    plan = planned(A2, "add", (8,), "float16")
    assert both(plan, A2, {"x": big, "y": big}, overflow="saturation").tolist() == [65504.0] * 8
    assert both(plan, A2, {"x": big, "y": big}, overflow="inf_nan").tolist() == [np.inf] * 8
    wide = np.full((8,), 3e38, np.float32)
    plan = planned(A2, "add", (8,), "float32")
    assert both(plan, A2, {"x": wide, "y": wide}, overflow="saturation").tolist() == [np.inf] * 8


def test_gap_the_950_keeps_subnormal_quotients() -> None:
    # Its Div flushes them (asc-devkit, subnormal sample); docs/deviations.md.
    soc = socs.load("Ascend950PR_9579")
    x, y = np.array([1e-38], np.float32), np.array([8.0], np.float32)
    assert both(planned(soc, "div", (1,), "float32"), soc, {"x": x, "y": y})[0] == x[0] / y[0] > 0


# ---- programs and times -------------------------------------------------------------------------


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", FAMILY)
def test_every_operator_runs_on_every_chip_that_has_its_costs(name: str, chip: str) -> None:
    soc = socs.load(chip)
    for dtype in DTYPES:
        for shape in ((ODD,), (1,), (129, 4099)):
            plan = planned(soc, name, shape, dtype)
            launch = launch_of(plan)
            assert verify(launch, soc) == []
            if not takes(soc, dtype) and name not in ("copy", "load"):
                with pytest.raises(UnknownCost, match=f"{chip} has no cost for cast"):
                    simulate(launch, soc)
                continue
            for l2 in ("cold", "hot"):
                timeline, device = simulate(launch, soc, l2=l2)
                limits = bounds(launch, device)
                assert limits.lower <= timeline.cycles <= limits.serial


@pytest.mark.parametrize("chip", ["Ascend910B4-1", "Ascend910A", "Ascend950PR_9579"])
@pytest.mark.parametrize(
    "shapes", [((40, 512), (40, 1)), ((40, 512), (512,)), ((40, 3), (40, 1)), ((9, 9), ())]
)
@pytest.mark.parametrize("name", BINARY)
def test_broadcast_programs_are_valid_and_between_their_bounds(name: str, shapes: Any, chip: str) -> None:
    soc = socs.load(chip)
    for pair in (shapes, shapes[::-1]):
        for kind in (None, "ascendc", "triton", "plain"):
            kernel = None if kind is None else find(name).kernel(kind)
            given = dict(zip("xy", pair, strict=True))
            launch = launch_of(planned(soc, name, (1,), "float16", shapes=given, kernel=kernel))
            assert verify(launch, soc) == []
            timeline, device = simulate(launch, soc, l2="hot")
            limits = bounds(launch, device)
            assert limits.lower <= timeline.cycles <= limits.serial


@pytest.mark.parametrize("name", FAMILY)
def test_cost_does_not_grow_with_the_tensor(name: str) -> None:
    plan = planned(A2, name, (1 << 40,), "float32")
    assert sum(len(blocks.program.items) for blocks in launch_of(plan).blocks) < 1500
    timeline, _ = simulate(launch_of(plan), A2, l2="cold")
    moved = launch_of(plan).bytes_read + launch_of(plan).bytes_written
    assert timeline.cycles > moved / (A2.memory.hbm_bytes_per_s / A2.clock_hz)
    assert timeline.simulated_instructions < 100_000


def test_a_number_of_the_users_replaces_the_tilings() -> None:
    for kind in (None, "ascendc", "triton"):
        kernel = None if kind is None else find("add").kernel(kind)
        options = TilingOptions(tile_length=1024, buffer_num=1, block_dim=5)
        plan = planned(A2, "add", (40_000,), "float32", kernel=kernel, options=options)
        assert plan.tiling is not None
        assert (plan.tiling.tile_length, plan.tiling.buffer_num) == (1024, 1)
        assert plan.tiling.block_dim <= 6
        assert plan.tiling.chosen_by == "user"


def test_a_tile_that_does_not_fit_is_refused_with_the_chips_number() -> None:
    options = TilingOptions(tile_length=1 << 20)
    for kind in ("ascendc", "triton", "tbe"):
        with pytest.raises(AtlasError, match=r"of UB, Ascend910B3 has 196,608 B"):
            planned(A2, "add", (1 << 22,), "float32", kernel=find("add").kernel(kind), options=options)


# ---- refusals -----------------------------------------------------------------------------------


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    with pytest.raises(AtlasError, match=r"x \[3, 4\], y \[5\] cannot be broadcast together"):
        planned(A2, "add", (3, 4), "float32", shapes={"y": (5,)})
    with pytest.raises(AtlasError, match="x has 9 dimensions: at most 8"):
        planned(A2, "relu", (1,) * 9, "float32")


@pytest.mark.parametrize(
    ("name", "dtype", "part"),
    [
        ("relu", "float64", "x is float64: there are float32"),
        ("add", "int8", "x is int8: add of int8 is not modelled"),
        ("mul", "bool", "not modelled"),
    ],
)
def test_a_dtype_without_an_instruction_is_refused_by_name(name: str, dtype: str, part: str) -> None:
    with pytest.raises(AtlasError, match=part):
        planned(A2, name, (8,), dtype)


def test_integers_have_a_time_where_the_chip_has_a_cost_and_no_bits() -> None:
    launch = launch_of(planned(A2, "add", (ODD,), "int32"))
    assert simulate(launch, A2)[0].cycles > 0
    x = np.zeros(ODD, np.uint32)
    with pytest.raises(AtlasError, match=r"add from int32 to int32 .* has no body"):
        execute(launch, A2, {"x": x, "y": x, "out": x.copy()})
    with pytest.raises(UnknownCost, match="no cost for div int32"):
        simulate(launch_of(planned(A2, "div", (ODD,), "int32")), A2)


def test_a_chip_that_lacks_one_cost_refuses_that_operator_alone() -> None:
    data = A2.model_dump()
    del data["vector"]["costs"]["relu"]
    bare = Soc.model_validate(data)
    with pytest.raises(UnknownCost, match=r"no cost for relu float16 .*vector\.costs\.relu\.float16"):
        simulate(launch_of(planned(bare, "relu", (ODD,), "float16")), bare)
    assert simulate(launch_of(planned(bare, "neg", (ODD,), "float16")), bare)[0].cycles > 0


def test_an_unknown_kernel_is_refused_with_those_of_the_operator() -> None:
    with pytest.raises(
        AtlasError, match="unknown kernel 'add_cuda': add has add_tbe, add_tbe_older, add_atvoss"
    ):
        planned(A2, "add", (8,), "float32", kernel="add_cuda")
    with pytest.raises(AtlasError, match="unknown kernel 'add_tensor_move'"):
        planned(A2, "add", (8,), "float32", kernel="add_tensor_move")
    with pytest.raises(AtlasError, match="relu has no cuda kernel: there are relu_tbe"):
        find("relu").kernel("cuda")


def test_nothing_is_launched_for_an_empty_tensor() -> None:
    plan = planned(A2, "add", (0, 3), "float32", shapes={"y": (3,)})
    assert plan.launch is None
    assert plan.warnings == ("a tensor is empty: nothing is launched",)

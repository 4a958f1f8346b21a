"""``verify`` finds each kind of defect, names where it is, and finds nothing in what the kernel records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from legal_orders import Stuck, at_random, favouring, legal_order
from mse_oracle import ARCHS, chip_dtypes, depth_for, launched, planned

import socs
from kernel.core import Core, GlobalTensor, Tiles
from kernel.program import Blocks, Flag, Instruction, Launch, Loop, Program, Region, TensorArg, Window
from kernel.verify import Finding, check_program, verify
from socs.isa import DType, Op, Pipe

F32, F16 = DType.FLOAT32, DType.FLOAT16
SOC = socs.load("Ascend910B4-1")
Change = Callable[[Instruction], list[Instruction]]

DROP: Change = lambda _: []  # noqa: E731


def good(
    dtype: DType = F32, *, tiles: int = 3, depth: int = 1, rest: int = 0, name: str = SOC.name
) -> Launch:
    """One block of ``tiles`` tiles of 64 elements (and ``rest`` more)."""
    n = 64 * tiles + rest
    launch = launched(name, dtype, n, tile_length=64, buffer_num=depth, block_dim=1)
    assert verify(launch, socs.load(name)) == []
    return launch


def with_items(launch: Launch, items: Any, **changes: Any) -> Launch:
    (blocks,) = launch.blocks
    program = replace(blocks.program, items=tuple(items), **changes)
    return replace(launch, blocks=(replace(blocks, program=program),))


def changed(launch: Launch, where: Callable[[Instruction], bool], change: Change, which: int = 0) -> Launch:
    """``launch`` with its ``which``-th instruction that is ``where`` replaced, loop bodies included."""
    met = -1

    def each(body: Any) -> list[Any]:
        nonlocal met
        new: list[Any] = []
        for item in body:
            if isinstance(item, Loop):
                new.append(replace(item, body=tuple(each(item.body))))
                continue
            met += where(item)
            new += change(item) if where(item) and met == which else [item]
        return new

    items = each(launch.blocks[0].program.items)
    assert met >= which, "nothing to change"
    return with_items(launch, items)


def is_op(op: Op, tile: int | None = None, flag: str | None = None) -> Callable[[Instruction], bool]:
    def test(instruction: Instruction) -> bool:
        return (
            instruction.op is op
            and (tile is None or instruction.tile == tile)
            and (flag is None or str(instruction.flag).startswith(flag))
        )

    return test


def position(items: list[Any], where: Callable[[Instruction], bool]) -> int:
    return next(i for i, item in enumerate(items) if isinstance(item, Instruction) and where(item))


def rules(launch: Launch, soc: Any = SOC) -> set[str]:
    return {finding.rule for finding in verify(launch, soc)}


def the(launch: Launch, rule: str, soc: Any = SOC) -> Finding:
    """The first finding of ``rule``."""
    found = [finding for finding in verify(launch, soc) if finding.rule == rule]
    assert found, f"no {rule} among {verify(launch, soc)}"
    return found[0]


def test_a_dropped_wait_is_a_race_and_an_unbalanced_flag() -> None:
    broken = changed(good(), is_op(Op.WAIT_FLAG, 1, "MTE2->V"), DROP)
    assert rules(broken) == {"race", "flags"}
    race = the(broken, "race").instruction
    assert race is not None
    assert (race.op, race.tile, race.pipe) == (Op.SUB, 1, Pipe.V)
    assert "after copy_in (tile 1, pipe MTE2)" in the(broken, "race").message
    assert {f.message for f in verify(broken, SOC) if f.rule == "flags"} == {
        # In place of the dropped wait each later one takes an earlier flag; tile 2's is left over.
        "MTE2->V#0 is raised and never waited for",
        "V->MTE2#0 is raised twice before a wait",
        "MTE2->V#0 is raised twice before a wait",
    }
    assert str(the(broken, "race")).endswith("at sub (tile 1, pipe V)")


def test_a_dropped_wait_in_the_last_tile_leaves_a_flag_raised() -> None:
    broken = changed(good(), is_op(Op.WAIT_FLAG, 2, "V->MTE3"), DROP)
    race = the(broken, "race").instruction
    assert race is not None
    assert (race.op, race.tile) == (Op.COPY_OUT, 2)
    assert {f.message for f in verify(broken, SOC) if f.rule == "flags"} == {
        "V->MTE3#0 is raised and never waited for",
        "MTE3->V#0 is raised twice before a wait",  # the early store answers too early
    }


def test_a_dropped_set_is_a_deadlock_of_the_pipe_that_waits() -> None:
    broken = changed(good(), is_op(Op.SET_FLAG, 1, "V->MTE3"), DROP)
    (finding,) = (f for f in verify(broken, SOC) if f.message == "pipe MTE3 waits for V->MTE3#0 forever")
    assert finding.rule == "deadlock"
    assert finding.instruction is not None
    assert (finding.instruction.op, finding.instruction.tile) == (Op.WAIT_FLAG, 1)


def test_pipes_that_wait_for_each_other_are_a_deadlock() -> None:
    """The store of tile 0 may only go once the vector unit has waited for that very store."""
    launch = good(tiles=2)
    items = list(launch.blocks[0].program.items)
    give = position(items, is_op(Op.SET_FLAG, 0, "V->MTE3"))
    take = position(items, is_op(Op.WAIT_FLAG, 1, "MTE3->V"))
    items[give], items[take] = items[take], items[give]
    broken = with_items(launch, items)
    assert {f.message.split(" waits")[0] for f in verify(broken, SOC) if f.rule == "deadlock"} == {
        "pipe V",
        "pipe MTE3",
        "pipe MTE2",
    }
    with pytest.raises(Stuck):
        legal_order(broken.blocks[0].program, at_random(0))


def test_the_scalar_unit_waiting_for_what_it_has_not_issued_is_a_deadlock() -> None:
    # It issues in order: the vector unit never gets the instruction that would raise the flag.
    flag = Flag(Pipe.V, Pipe.S, 7)
    wait = Instruction(Op.WAIT_FLAG, Pipe.S, flag=flag, tile=1)
    give = Instruction(Op.SET_FLAG, Pipe.V, flag=flag, tile=1)
    launch = good()
    items = list(launch.blocks[0].program.items)
    assert rules(with_items(launch, [*items, give, wait])) == set()
    broken = with_items(launch, [*items, wait, give])
    assert "pipe S waits for V->S#7 forever" in {f.message for f in verify(broken, SOC)}


def test_a_flag_that_only_some_orders_raise_twice_is_found() -> None:
    """V raises, waits for MTE2 and raises again; MTE3 may or may not have waited in between."""
    to_mte3, to_v = Flag(Pipe.V, Pipe.MTE3, 0), Flag(Pipe.MTE2, Pipe.V, 0)
    raised = Instruction(Op.SET_FLAG, Pipe.V, flag=to_mte3)
    taken = Instruction(Op.WAIT_FLAG, Pipe.MTE3, flag=to_mte3)
    pause = [
        Instruction(Op.WAIT_FLAG, Pipe.V, flag=to_v),
        Instruction(Op.SET_FLAG, Pipe.MTE2, flag=to_v),
    ]
    for stream in (
        [raised, taken, *pause, raised, taken],
        [*pause, raised, taken, raised, taken],
        [taken, raised, *pause[::-1], raised, taken],
    ):
        found = check_program(Program(tuple(stream), (), 0), SOC)
        assert [f.message for f in found] == ["V->MTE3#0 is raised twice before a wait"]
    answer = Flag(Pipe.MTE3, Pipe.V, 0)
    ordered = [
        *(raised, taken, Instruction(Op.SET_FLAG, Pipe.MTE3, flag=answer)),
        *(Instruction(Op.WAIT_FLAG, Pipe.V, flag=answer), raised, taken),
    ]
    assert check_program(Program(tuple(ordered), (), 0), SOC) == []


def test_a_missing_second_load_is_a_read_of_unwritten_ub() -> None:
    broken = changed(good(), is_op(Op.COPY_IN, 0), DROP, which=1)
    finding = the(broken, "unwritten")
    assert finding.instruction is not None
    assert (finding.instruction.op, finding.instruction.tile) == (Op.SUB, 0)
    assert finding.message == "UB bytes 256..512 are read but never written"
    assert rules(broken) == {"unwritten"}


def test_a_missing_load_of_16_bits_is_found_in_the_row_that_misses_it() -> None:
    broken = changed(good(F16), is_op(Op.COPY_IN, 0), DROP, which=1)
    finding = the(broken, "unwritten")
    assert finding.instruction is not None
    assert finding.instruction.op is Op.CAST
    assert finding.message == "UB bytes 128..256 are read but never written"


def test_a_load_that_is_one_element_short_is_a_read_of_unwritten_ub() -> None:
    def shorten(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Region)
        return [replace(i, dst=replace(i.dst, count=63))]

    broken = changed(good(), is_op(Op.COPY_IN, 0), shorten, 2)
    assert the(broken, "unwritten").message == "UB bytes 512..768 are read but never written"


def test_gap_a_missing_load_in_a_later_tile_reads_what_an_earlier_one_left() -> None:
    # Those bytes were written once, so this is no read of unwritten UB: the compiler refuses it, and the
    # interpreter's bits show it (test_bits_agree).
    assert rules(changed(good(), is_op(Op.COPY_IN, 1), DROP)) == set()


@pytest.mark.parametrize("op", [Op.COPY_IN, Op.SUB, Op.MULS, Op.COPY_OUT])
def test_an_address_between_blocks_is_misaligned(op: Op) -> None:
    def shift(i: Instruction) -> list[Instruction]:
        def moved(x: Any) -> Any:
            return replace(x, address=x.address + 2) if isinstance(x, Region) else x

        return [replace(i, dst=moved(i.dst), srcs=tuple(map(moved, i.srcs)))]

    finding = the(changed(good(), is_op(op, 1), shift), "alignment")
    assert finding.instruction is not None
    assert (finding.instruction.op, finding.instruction.tile) == (op, 1)
    assert "is not a multiple of 32 B" in finding.message


def test_every_row_has_to_be_aligned() -> None:
    def squeeze(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Region)
        return [replace(i, dst=replace(i.dst, count=60, pitch=60))]

    finding = the(changed(good(F16), is_op(Op.CAST, 1), squeeze), "alignment")
    assert finding.instruction is not None
    assert (finding.instruction.op, finding.instruction.tile) == (Op.CAST, 1)


def test_a_chip_without_byte_granular_copies_refuses_a_partial_block() -> None:
    launch = good(name="Ascend310P3")
    soc = socs.load("Ascend310P3")
    for op in (Op.COPY_IN, Op.COPY_OUT):
        broken = changed(launch, is_op(op, 1), lambda i: [replace(i, issued_count=63)])
        assert the(broken, "alignment", soc).message == (
            "Ascend310P3 copies whole 32 B blocks, this one is 252 B"
        )
        assert rules(broken) == set()  # the same on a chip that can


def test_enlarged_buffers_exceed_the_capacity_and_the_message_says_where_the_limit_is_from() -> None:
    launch = good()
    items, buffers = launch.blocks[0].program.items, launch.blocks[0].program.buffers
    huge = replace(buffers[-1], bytes=196_609 - buffers[-1].address)
    finding = the(with_items(launch, items, buffers=(*buffers[:-1], huge)), "capacity")
    assert "196,609 B" in finding.message
    assert "196,608 B (socs/data/ascend910b.toml: ub.bytes)" in finding.message
    whole = replace(huge, bytes=huge.bytes - 1)
    assert rules(with_items(launch, items, buffers=(*buffers[:-1], whole))) == set()


def test_an_access_outside_the_reserved_buffers_is_out_of_bounds() -> None:
    launch = good()
    top = launch.blocks[0].program.ub_bytes

    def away(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Region)
        return [replace(i, dst=replace(i.dst, address=top - 32))]

    finding = the(changed(launch, is_op(Op.SUB, 1), away), "bounds")
    assert finding.instruction is not None
    assert (finding.instruction.op, finding.instruction.tile) == (Op.SUB, 1)
    (buffer, *_) = launch.blocks[0].program.buffers

    def across(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Region)
        return [replace(i, dst=replace(i.dst, address=buffer.bytes - 32))]

    assert "bounds" in rules(changed(launch, is_op(Op.COPY_IN, 0), across))


@pytest.mark.parametrize("tiles", [3, 40])
def test_a_short_store_leaves_elements_uncovered(tiles: int) -> None:
    def shorten(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Window)
        return [replace(i, dst=replace(i.dst, count=63))]

    assert rules(changed(good(tiles=tiles), is_op(Op.COPY_OUT, 1), shorten)) == {"coverage"}
    assert rules(changed(good(tiles=tiles, depth=2), is_op(Op.COPY_OUT, 3 if tiles > 3 else 1), shorten)) == {
        "coverage"
    }


@pytest.mark.parametrize(("depth", "which"), [(1, 0), (2, 0), (2, 1), (4, 2)])
def test_a_store_of_the_loop_that_does_not_move_on_is_found(depth: int, which: int) -> None:
    launch = good(tiles=60, depth=depth)

    def stay(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Window)
        assert i.dst.stride
        return [replace(i, dst=replace(i.dst, stride=0))]

    assert "coverage" in rules(changed(launch, is_op(Op.COPY_OUT, depth + which), stay))


def test_a_loop_that_leaves_gaps_is_found_even_where_its_ends_are_covered() -> None:
    launch = good(tiles=40)
    items = list(launch.blocks[0].program.items)
    after = next(i for i, item in enumerate(items) if isinstance(item, Loop)) + 1
    store = after + position(items[after:], is_op(Op.COPY_OUT))
    last = items[store]
    assert isinstance(last, Instruction)
    assert isinstance(last.dst, Window)
    wider = replace(last.dst, offset=last.dst.offset - 1, count=last.dst.count + 1)
    items[store] = replace(last, dst=wider)

    def shorten(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Window)
        return [replace(i, dst=replace(i.dst, count=63))]

    broken = changed(with_items(launch, items), is_op(Op.COPY_OUT, 1), shorten)
    assert "the loop leaves gaps in out" in {finding.message for finding in verify(broken, SOC)}


def test_a_race_between_two_trips_of_a_loop_is_found() -> None:
    """Each trip loads and stores in order; nothing makes the next load wait for the store before it."""
    core = Core(80)
    buffer, loaded = core.buffer("b", F32, 8), core.event(Pipe.MTE2, Pipe.MTE3)
    core.copy_in(buffer, Window("self", F32, 0, 8))
    core.set_flag(loaded)
    core.wait_flag(loaded)
    core.copy_out(Window("out", F32, 0, 8), buffer)
    program = core.finish()
    assert check_program(program, SOC) == []
    body = tuple(item for item in program.items if isinstance(item, Instruction))
    found = check_program(replace(program, items=(Loop(body, 10, 1),)), SOC)
    assert {finding.rule for finding in found} == {"race", "flags"}


def test_a_missing_store_and_a_store_into_the_next_block_are_found() -> None:
    assert rules(changed(good(), is_op(Op.COPY_OUT, 1), DROP)) == {"coverage"}
    launch = launched(SOC.name, F32, 192 * 3, tile_length=64, block_dim=3)
    (blocks,) = launch.blocks

    def further(item: Instruction | Loop) -> Instruction | Loop:
        if isinstance(item, Instruction) and isinstance(item.dst, Window) and item.tile == 2:
            return replace(item, dst=replace(item.dst, offset=item.dst.offset + 1))
        return item

    program = replace(blocks.program, items=tuple(map(further, blocks.program.items)))
    assert rules(replace(launch, blocks=(replace(blocks, program=program),))) == {"coverage", "bounds"}


def test_blocks_that_overlap_or_leave_a_gap_are_found() -> None:
    launch = launched(SOC.name, F32, 192 * 3, tile_length=64, block_dim=3)
    (blocks,) = launch.blocks
    for start, step, count in ((0, 191, 3), (0, 193, 3), (0, 192, 2), (1, 192, 3)):
        starts = range(start, start + step * count, step)
        assert "coverage" in rules(replace(launch, blocks=(replace(blocks, starts=starts),)))
    assert "coverage" in rules(replace(launch, blocks=(blocks, blocks)))


@pytest.mark.parametrize("tensor", ["self", "target", "grad_output"])
def test_a_window_past_the_tensor_is_out_of_bounds(tensor: str) -> None:
    place = ["self", "target", "grad_output"].index(tensor)

    def move(by: int) -> Change:
        def change(i: Instruction) -> list[Instruction]:
            (window,) = i.srcs
            assert isinstance(window, Window)
            return [replace(i, srcs=(replace(window, offset=window.offset + by),))]

        return change

    finding = the(changed(good(), is_op(Op.COPY_IN, 2), move(1), place), "bounds")
    assert finding.message == f"{tensor}[129:193] is outside its 192 elements"
    assert finding.instruction is not None
    assert finding.instruction.tile == 2
    assert "bounds" in rules(changed(good(), is_op(Op.COPY_IN, 0), move(-1), place))


def test_only_the_last_trip_of_a_loop_reaches_past_the_end() -> None:
    launch = good(tiles=60, rest=0)

    def stretch(i: Instruction) -> list[Instruction]:
        (window,) = i.srcs
        assert isinstance(window, Window)
        return [replace(i, srcs=(replace(window, stride=window.stride + 2),))]

    (loop,) = (i for i in launch.blocks[0].program.items if isinstance(i, Loop))
    last = 64 + (loop.trips - 1) * 66
    assert last + 64 > 60 * 64 > last - 66 + 64 - 66  # the trips that verify looks at first are inside
    found = [f for f in verify(changed(launch, is_op(Op.COPY_IN, 1), stretch), SOC) if f.rule == "bounds"]
    assert [f.message for f in found] == [f"self[{last}:{last + 64}] is outside its 3840 elements"]


def test_a_store_into_an_input_is_found() -> None:
    def elsewhere(i: Instruction) -> list[Instruction]:
        assert isinstance(i.dst, Window)
        return [i, replace(i, dst=replace(i.dst, tensor="self"))]

    finding = the(changed(good(), is_op(Op.COPY_OUT, 1), elsewhere), "bounds")
    assert finding.message == "self is an input and may not be stored"
    assert finding.instruction is not None
    assert finding.instruction.tile == 1


def test_a_store_that_races_with_the_next_tiles_results_is_found() -> None:
    broken = changed(good(), is_op(Op.WAIT_FLAG, 1, "MTE3->V"), DROP)
    finding = the(broken, "race")
    assert finding.instruction is not None
    assert (finding.instruction.op, finding.instruction.tile) == (Op.SUB, 1)
    assert "after copy_out (tile 0, pipe MTE3)" in finding.message


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("flag", ["MTE3->V", "V->MTE2", "MTE2->V", "V->MTE3"])
@pytest.mark.parametrize(("tiles", "dtype"), [(6, F32), (40, F16)])
def test_every_wait_of_the_kernel_is_needed(dtype: DType, depth: int, flag: str, tiles: int) -> None:
    """Without any one of its waits there is a race: in the first tiles, in the loop, in the last one."""
    launch = good(dtype, tiles=tiles, depth=depth, rest=5)
    items = [
        i
        for item in launch.blocks[0].program.items
        for i in (item.body if isinstance(item, Loop) else (item,))
    ]
    waits = sum(is_op(Op.WAIT_FLAG, None, flag)(i) for i in items)
    at_the_end = depth if flag in ("MTE3->V", "V->MTE2") else 0  # they only take flags back
    assert waits > at_the_end
    for which in range(waits - at_the_end):
        found = rules(changed(launch, is_op(Op.WAIT_FLAG, None, flag), DROP, which))
        assert found == {"race", "flags"}, which
    for which in range(waits - at_the_end, waits):
        assert "flags" in rules(changed(launch, is_op(Op.WAIT_FLAG, None, flag), DROP, which))


@pytest.mark.parametrize("flag", ["V->S", "S->V"])
def test_the_tail_of_310p_needs_its_flags(flag: str) -> None:
    soc = socs.load("Ascend310P3")
    launch = good(F16, tiles=3, rest=5, name="Ascend310P3")
    broken = changed(launch, is_op(Op.WAIT_FLAG, None, flag), DROP)
    # Nothing follows the tail, so its second flag protects nothing; but it stays raised.
    assert rules(broken, soc) == ({"race", "flags"} if flag == "V->S" else {"flags"})


def races(tiles: int, depth: int, *, distance: int) -> set[str]:
    """A kernel with ``depth`` buffers that waits for the store ``distance`` tiles back."""
    core = Core(tiles * 8)
    buffers = [core.buffer(f"b{i}", F32, 8) for i in range(depth)]
    loaded = [core.event(Pipe.MTE2, Pipe.MTE3) for _ in range(depth)]
    freed = [core.event(Pipe.MTE3, Pipe.MTE2) for _ in range(depth)]
    source, out = GlobalTensor("self", F32), GlobalTensor("out", F32)
    for tile in (Tiles(tiles * 8, 8)[i] for i in range(tiles)):
        slot = tile.index % depth
        if tile.index >= distance:
            core.wait_flag(freed[(tile.index - distance) % depth])
        core.copy_in(buffers[slot], source[tile])
        core.set_flag(loaded[slot])
        core.wait_flag(loaded[slot])
        core.copy_out(out[tile], buffers[slot])
        core.set_flag(freed[slot])
    for tile in range(max(tiles - distance, 0), tiles):
        core.wait_flag(freed[tile % depth])
    n = tiles * 8
    tensors = (TensorArg("self", F32, n), TensorArg("out", F32, n, written=True))
    return rules(Launch("copy", (Blocks(core.finish(), range(1), 0),), tensors))


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_waiting_for_one_buffer_fewer_than_there_are_is_enough_and_for_one_more_is_not(depth: int) -> None:
    for distance in range(1, depth + 1):
        assert races(12, depth, distance=distance) == set(), distance
    assert "race" in races(depth + 1, depth, distance=depth + 1)
    assert races(depth, depth, distance=depth + 1) == set()


def test_a_race_in_one_row_of_a_pitched_region_is_found() -> None:
    """MTE2 refills the third part of a buffer while the cast of all three may still read it."""
    launch = good(F16, tiles=2, depth=2)
    items = list(launch.blocks[0].program.items)
    cast = position(items, is_op(Op.CAST, 0))
    third = [x for x in items if isinstance(x, Instruction) and is_op(Op.COPY_IN, 0)(x)][2]
    late = with_items(launch, [*items[: cast + 1], replace(third, tile=1), *items[cast + 1 :]])
    finding = the(late, "race")
    assert "UB bytes 256..384" in finding.message
    assert finding.instruction is not None
    assert finding.instruction.op is Op.COPY_IN


def test_accesses_between_the_rows_of_a_pitched_region_do_not_race() -> None:
    core = Core(8)
    buffer = core.buffer("b", F32, 64)
    wide = core.buffer("w", F32, 64)
    core.copy_in(buffer[:8], Window("self", F32, 0, 8))
    core.copy_in(buffer[32:], Window("self", F32, 0, 8))
    ready = core.event(Pipe.MTE2, Pipe.V)
    core.set_flag(ready)
    core.wait_flag(ready)
    core.muls(wide.every(32, 8, 2), buffer.every(32, 8, 2), "coefficient")
    core.copy_in(buffer[8:32], Window("self", F32, 0, 8))
    assert check_program(core.finish(), SOC) == []
    core.copy_in(buffer[32:], Window("self", F32, 0, 8))
    assert [f.rule for f in check_program(core.finish(), SOC)] == ["race"]


@pytest.mark.parametrize(("name", "dtype"), chip_dtypes())
def test_nothing_is_found_in_the_hosts_own_launches(name: str, dtype: DType) -> None:
    larger = (127, 4096, 8191, 10_000, 12_289, 24_576, 65_536, 65_537, 2**20, 2**20 + 1, 2**40 + 3)
    for n in (*range(1, 67), *larger):
        assert planned(name, dtype, n).findings == (), n


@pytest.mark.parametrize("name", socs.names())
def test_nothing_is_found_on_any_chip(name: str) -> None:
    for dtype in (F32, F16):
        for n in (33, 70_001, 2**24):
            assert planned(name, dtype, n).findings == ()


@settings(max_examples=100, deadline=None)
@given(
    chip_dtype=st.sampled_from(chip_dtypes()),
    n=st.one_of(st.integers(1, 5000), st.integers(1, 2**40)),
    tile=st.none() | st.integers(1, 1000),
    depth=st.none() | st.integers(1, 4),
    blocks=st.none() | st.integers(1, 8),
)
def test_nothing_is_found_in_any_cut(
    chip_dtype: Any, n: int, tile: int | None, depth: int | None, blocks: int | None
) -> None:
    name, dtype = chip_dtype
    if socs.load(name).vector_cores == 1 or (blocks or 1) > n:
        blocks = None
    if depth and depth > 2 and tile is None:
        tile = 512
    depth = depth_for(name, depth)
    launch = launched(name, dtype, n, tile_length=tile, buffer_num=depth, block_dim=blocks)
    assert verify(launch, socs.load(name)) == []


@pytest.mark.parametrize("name", ARCHS)
def test_no_order_of_the_pipes_gets_stuck_where_no_deadlock_is_found(name: str) -> None:
    launch = good(F16, tiles=20, depth=depth_for(name, 3) or 3, rest=7, name=name)
    program = launch.blocks[0].program
    for seed in range(10):
        assert len(legal_order(program, at_random(seed))) == program.instruction_count
    for first in (Pipe.S, Pipe.MTE2, Pipe.V, Pipe.MTE3):
        others = [pipe for pipe in Pipe if pipe is not first]
        assert len(legal_order(program, favouring(first, *others))) == program.instruction_count

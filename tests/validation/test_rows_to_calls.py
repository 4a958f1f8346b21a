"""What of a file becomes a call, and why the rest does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from measured_files import ROW, text_of, write

import emulator
from emulator.validation.cases import Case, case_of, plan_of, tensor_bytes
from emulator.validation.cells import Unusable
from emulator.validation.columns import RawRow
from emulator.validation.compare import STATE_NAMES, Measured, compare, measure
from kernel.tiling import TilingOptions
from socs import load
from socs.errors import AtlasError

B3 = "Ascend910B3"


def raw(**cells: str) -> RawRow:
    known = {**ROW, "name": "", "core": "", "source": "", "duration": ROW["duration_us"], **cells}
    return RawRow(*(known[field] for field in RawRow._fields))


def case(**cells: str) -> Case:
    return case_of(raw(**cells), B3)


def reasons(found: Measured) -> dict[str, int]:
    return {reason: why.count for reason, why in found.skipped.reasons.items()}


# ---- one row ------------------------------------------------------------------------------------


def test_the_vendors_kernel_takes_prediction_label_and_gradient_in_this_order() -> None:
    found = case(in_shapes="4,5;5;()")
    plan = plan_of(found, load(B3))
    same = emulator.predict(
        "mse_loss_backward", soc=B3, shape=(4, 5), target_shape=(5,), grad_shape=(), dtype="float32"
    )
    assert (plan.kernel, plan.shape) == (same.kernel, (4, 5))


@pytest.mark.parametrize(
    ("op", "operator", "inputs"),
    [
        ("Mul", "mul", 2),
        ("RealDiv", "div", 2),
        ("AddN", "add_n", 3),
        ("TensorMove", "copy", 1),
        ("MseLossGradV2", "mse_loss_backward", 3),
    ],
)
def test_the_vendors_names_are_known(op: str, operator: str, inputs: int) -> None:
    kinds, dims = ";".join(["float32"] * inputs), ";".join(["8,8"] * inputs)
    found = case(op=op, in_dtypes=kinds, in_shapes=dims)
    assert (found.op, found.operator) == (op, operator)


def test_without_a_type_the_name_of_the_kernel_tells_the_operator() -> None:
    found = case(
        op="N/A", name="aclnnMul_MulAiCore_Mul", in_dtypes="FLOAT;FLOAT", in_shapes="8;8", out_dtypes="FLOAT"
    )
    assert (found.op, found.operator) == ("Mul", "mul")


def test_what_is_filled_is_the_output() -> None:
    found = case(
        op="Fill", in_dtypes="int64;float16", in_shapes="2;()", out_dtypes="float16", out_shapes="30,7"
    )
    assert (found.shapes, found.dtypes) == (((30, 7),), ("float16",))


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"op": "Softmax"}, "unknown operator 'Softmax'"),
        ({"op": ""}, "no operator"),
        ({"op": "x" * 500}, r"^unknown operator 'x{37}\.\.\.'$"),
        ({"core": "AI_CPU"}, "did not run on an AI core"),
        ({"core": "HCCL"}, "did not run on an AI core"),
        ({"in_dtypes": "", "in_shapes": ""}, "no shapes and dtypes"),
        ({"in_dtypes": ""}, "no dtype of the inputs"),
        ({"in_shapes": "4;4"}, "numbers of input shapes and dtypes differ"),
        ({"op": "Mul"}, "mul takes 2 inputs, not 3"),
        ({"in_shapes": "4,0;4,0;4,0"}, "a tensor is empty"),
        (
            {"op": "Cast", "in_dtypes": "float32", "in_shapes": "4", "out_dtypes": ""},
            "no dtype of the output",
        ),
        (
            {"kernel": "ascendc sample", "note": "scalar GetValue loop"},
            "computes in the scalar unit",
        ),
        ({"kernel": "ascendc sample", "note": "double buffer + L2 bypass"}, "goes past L2"),
        ({"kernel": "pypto"}, "unknown kind of kernel 'pypto'"),
    ],
)
def test_a_row_that_is_no_call_has_a_reason(cells: dict[str, str], reason: str) -> None:
    with pytest.raises(Unusable) as refused:
        case(**cells)
    assert re.search(reason, refused.value.reason)


@pytest.mark.parametrize("core", ["AI_VECTOR_CORE", "AI_CORE", "MIX_AIV", "AI VECTOR CORE", "N/A", ""])
def test_rows_of_the_cores_are_taken(core: str) -> None:
    assert case(core=core).operator == "mse_loss_backward"


@pytest.mark.parametrize(
    ("cells", "reason", "detail"),
    [
        ({"in_dtypes": "float32;float16;float32"}, "refused by the operator", "must agree"),
        ({"in_shapes": "3;4;5"}, "refused by the operator", "broadcast"),
        ({"in_dtypes": "float64;float64;float64"}, "mse_loss_backward of float64 is not modelled", ""),
        (
            {"kernel": "ascendc sample"},
            "mse_loss_backward has no kernel of kind 'ascendc sample'",
            "mse_loss_grad_triton",
        ),
    ],
)
def test_a_call_that_the_emulator_refuses_has_a_reason(
    cells: dict[str, str], reason: str, detail: str
) -> None:
    with pytest.raises(Unusable) as refused:
        plan_of(case(**cells), load(B3))
    assert refused.value.reason == reason
    assert detail in refused.value.detail


@pytest.mark.parametrize(
    ("kernel", "note", "block_dim", "expected"),
    [
        ("vendor", "tile 64, double buffer", "7", TilingOptions()),
        ("ascendc sample", "tile 1024, double buffer", "7", TilingOptions(1024, 2, 7)),
        (
            "ascendc sample",
            "dataCopyLen=512 half; single core, no double buffer",
            "1",
            TilingOptions(512, 1, 1),
        ),
        (
            "ascendc sample",
            "TQue double buffer, tile 8192 half; ratios scalar=0.7",
            "",
            TilingOptions(4096, 2),
        ),
        ("ascendc sample", "", "", TilingOptions()),
        ("triton", "elementwise kernel BLOCK<=1024, grid=ceil(n/BLOCK)", "", TilingOptions(1024)),
    ],
)
def test_a_kernel_that_is_not_the_vendors_has_the_tiling_that_its_row_states(
    kernel: str, note: str, block_dim: str, expected: TilingOptions
) -> None:
    assert case(kernel=kernel, note=note, block_dim=block_dim).options == expected


@pytest.mark.parametrize(
    ("kernel", "operator", "name"),
    [
        ("triton", "MseLossGrad", "mse_loss_grad_triton"),
        ("triton", "Mul", "mul_triton"),
        ("ascendc sample", "Mul", "mul_ascendc"),
        ("vendor", "Mul", "mul_tbe"),
    ],
)
def test_a_kind_of_kernel_is_run_as_such(kernel: str, operator: str, name: str) -> None:
    count = 3 if operator == "MseLossGrad" else 2
    found = case(
        kernel=kernel,
        op=operator,
        in_dtypes=";".join(["float32"] * count),
        in_shapes=";".join(["64"] * count),
    )
    assert plan_of(found, load(B3)).kernel == name


def test_bytes_count_each_tensor_once() -> None:
    assert tensor_bytes(case(in_shapes="8,4;4;()")) == 4 * (32 + 4 + 1 + 32)
    cast = case(op="Cast", in_dtypes="float32", in_shapes="10", out_dtypes="bfloat16")
    assert tensor_bytes(cast) == 10 * (4 + 2)
    assert tensor_bytes(case(op="Fill", in_dtypes="int8", in_shapes="3", out_shapes="5")) == 20


# ---- a file -------------------------------------------------------------------------------------


def test_equal_rows_are_one_call(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.csv",
        {"duration_us": "2.2"},
        {"id": "2", "duration_us": "2.3"},
        {"in_dtypes": "FLOAT;FLOAT;FLOAT"},
    )
    found = measure(path)
    assert (len(found.ids), len(found.cases)) == (3, 1)
    assert found.measured.tolist() == [2.2, 2.3, 2.2]


def test_the_state_of_l2_is_that_of_the_row_and_else_the_one_that_is_given(tmp_path: Path) -> None:
    states = ("hot", "cold", "trace", "unknown", "", "lukewarm", "HOT")
    path = write(tmp_path / "m.csv", *({"l2_state": state} for state in states))
    names = [STATE_NAMES[state] for state in measure(path).state]
    assert names == ["hot", "cold", "trace", "unknown", "unknown", "unknown", "hot"]
    names = [STATE_NAMES[state] for state in measure(path, l2="cold").state]
    assert names == ["hot", "cold", "cold", "cold", "cold", "cold", "hot"]


def test_every_row_that_is_left_out_is_counted_under_its_reason(tmp_path: Path) -> None:
    path = write(
        tmp_path / "m.csv",
        {},
        {"soc": "Ascend999"},
        {"soc": ""},
        {"op": "Softmax"},
        {"duration_us": "0"},
        {"duration_us": "-3"},
        {"duration_us": "nan"},
        {"duration_us": ""},
        {"soc": "/etc/chip.toml"},
    )
    found = measure(path)
    assert (found.rows, len(found.ids)) == (9, 1)
    assert reasons(found) == {
        "unknown SoC 'Ascend999'": 1,
        "no SoC": 1,
        "unknown operator 'Softmax'": 1,
        "duration is zero or negative": 2,
        "duration is not a number": 1,
        "no duration": 1,
        "unknown SoC '/etc/chip.toml'": 1,
    }


def test_a_product_is_a_chip_too(tmp_path: Path) -> None:
    found = measure(write(tmp_path / "m.csv", {"soc": "Ascend310P3"}, {"soc": "atlas 300i pro"}))
    assert set(found.socs) == {"Ascend310P3"}


def test_rows_are_left_out_by_their_id(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", {"id": "7"}, {"id": "8"})
    assert measure(path, exclude=["7"]).ids == ["8"]
    with pytest.raises(AtlasError, match="no row has the id '9'"):
        measure(path, exclude=["7", "9"])


def test_rows_without_an_id_go_by_their_line(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", {"id": ""}, {"id": "x"}, columns=[c for c in ROW if c != "id"])
    assert measure(path).ids == ["line 2", "line 3"]


def test_of_a_table_one_chip_can_be_taken_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", {}, {"soc": "Ascend910B3"})
    found = measure(path, soc=load("Ascend910B3"))
    assert (found.ids, list(found.socs)) == (["1"], ["Ascend910B3"])
    assert reasons(found) == {"measured on another chip than --soc": 1}


def test_a_chip_with_other_numbers_is_the_one_that_predicts(tmp_path: Path) -> None:
    slow = load("Ascend910B4-1", {"clock_hz": 1e8})
    found = measure(write(tmp_path / "m.csv", {}), soc=slow)
    assert found.socs["Ascend910B4-1"] is slow


PROFILE = (
    "\ufeffDevice_id,Task ID,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Num,"
    "Input Shapes,Input Data Types,Input Formats,Output Shapes,Output Data Types\r\n"
    '0,7,aclnnMul,Mul,AI_VECTOR_CORE,1.0\t,5.2\t,40,"""64,64;64,64""",FLOAT16;FLOAT16,ND;ND,"""64,64""",FLOAT16\r\n'
    "0,8,copy,MEMCPY_ASYNC,SDMA,1,2,0,N/A,N/A,N/A,N/A,N/A\r\n"
    "0,9,a,N/A,AI_CPU,1,2,0,,,,,\r\n"
)


def test_a_profile_is_read_with_its_quotes_tabs_and_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "op_summary_1.csv"
    path.write_bytes(PROFILE.encode())
    found = measure(path, soc=load(B3))
    assert found.cases == [
        Case(
            B3,
            "vendor",
            "Mul",
            "mul",
            ((64, 64), (64, 64)),
            ("float16", "float16"),
            "float16",
            TilingOptions(),
        )
    ]
    assert (found.ids, found.measured.tolist()) == (["line 2"], [5.2])
    assert reasons(found) == {"did not run on an AI core": 2}


def test_a_profile_names_no_chip(tmp_path: Path) -> None:
    path = tmp_path / "op_summary_1.csv"
    path.write_bytes(PROFILE.encode())
    with pytest.raises(AtlasError, match="op_summary names no chip: give it with --soc"):
        measure(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"soc,op\n", "no columns in_dtypes, in_shapes, duration_us"),
        (b"\x00\x01\xff", "none of the columns"),
        (text_of([]).encode("utf-16"), "none of the columns"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "m.csv"
    path.write_bytes(content)
    with pytest.raises(AtlasError, match=message):
        measure(path)


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AtlasError, match="is a directory"):
        measure(tmp_path)
    with pytest.raises(AtlasError, match="there is no such file"):
        measure(tmp_path / "none.csv")


def test_lines_that_are_no_rows_are_counted_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    good = text_of([{}]).splitlines()
    lines = [good[0], good[1], "too,short", good[1] + ",more", "", good[1]]
    path.write_bytes("\r\n".join(lines).encode() + b'\r\n"' + b"x" * 200_000 + b"\r\n")
    found = measure(path)
    assert len(found.ids) == 2
    counts = reasons(found)
    assert counts["the line has fewer cells than the header"] == 1
    assert counts["the line has more cells than the header"] == 1
    assert sum(count for reason, count in counts.items() if "not CSV" in reason) == 1


def test_a_quarter_of_a_million_rows_of_two_calls_are_two_calls(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    header, one, two = text_of([{}, {"l2_state": "trace", "soc": "Ascend910B3"}]).splitlines()
    path.write_text("\n".join([header, *[one, two] * 125_000]) + "\n")
    found = measure(path)
    assert (len(found.ids), len(found.cases)) == (250_000, 2)


def test_a_million_reasons_are_not_kept_apart(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", {}, *({"op": f"Op{number}"} for number in range(500)))
    found = measure(path)
    assert len(found.skipped.reasons) == 101
    assert (found.skipped.total, found.skipped.reasons["other reasons"].count) == (500, 400)


CELLS = st.one_of(
    st.sampled_from(
        [
            "",
            "N/A",
            "nan",
            "-1",
            "0",
            "1e400",
            "4,5",
            ";;",
            '"',
            "64,64;64,64",
            "float32;float16",
            "hot",
            "Mul",
        ]
    ),
    st.text(max_size=12),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(CELLS, min_size=10, max_size=14), max_size=6), st.sampled_from([",", "\n", "\x00"]))
def test_whatever_a_file_holds_its_rows_are_taken_or_counted(
    tmp_path: Path, lines: list[list[str]], extra: str
) -> None:
    path = tmp_path / "m.csv"
    body = "\n".join(",".join(cells) for cells in lines) + extra
    path.write_bytes((text_of([{}]) + body).encode("utf-8", "surrogatepass"))
    found = measure(path)
    assert len(found.ids) + found.skipped.total == found.rows
    compared = compare(found, engine="simpy")
    assert len(compared.ids) + compared.skipped.total == found.rows

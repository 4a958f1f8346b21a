"""Which columns make which kind of file, and what its cells say."""

from __future__ import annotations

import pytest

from emulator.validation.cells import Unusable, dtypes, duration_us, shapes, whole
from emulator.validation.columns import RawRow, recognise
from socs.errors import AtlasError

TABLE = "id,soc,kernel,op,in_dtypes,out_dtypes,in_shapes,out_shapes,block_dim,l2_state,duration_us,note"
OP_SUMMARY = (
    "Device_id,Model ID,Task ID,Stream ID,Op Name,OP Type,OP State,Task Type,Task Start Time(us),"
    "Task Duration(us),Task Wait Time(us),Block Dim,Mix Block Dim,HF32 Eligible,Input Shapes,"
    "Input Data Types,Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID,aicore_time(us)"
)
KERNEL_DETAILS = (
    "Step Id,Device_id,Model ID,Task ID,Stream ID,Name,Type,OP State,Accelerator Core,Start Time(us),"
    "Duration(us),Wait Time(us),Block Num,Mix Block Num,HF32 Eligible,Input Shapes,Input Data Types,"
    "Input Formats,Output Shapes,Output Data Types,Output Formats,Context ID"
)


def places(header: str) -> dict[str, str]:
    """Field to column."""
    cells = header.split(",")
    layout = recognise(cells, "file.csv")
    return {
        field: cells[place]
        for field, place in zip(RawRow._fields, layout.places, strict=True)
        if place < layout.width
    }


def test_a_table_of_measurements_is_recognised() -> None:
    found = places(TABLE)
    assert found == {field: field for field in TABLE.split(",") if field != "duration_us"} | {
        "duration": "duration_us"
    }


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            OP_SUMMARY,
            {
                "op": "OP Type",
                "name": "Op Name",
                "core": "Task Type",
                "duration": "Task Duration(us)",
                "block_dim": "Block Dim",
            },
        ),
        (
            KERNEL_DETAILS,
            {
                "op": "Type",
                "name": "Name",
                "core": "Accelerator Core",
                "duration": "Duration(us)",
                "block_dim": "Block Num",
            },
        ),
    ],
)
def test_a_profile_is_recognised_by_its_own_names(header: str, expected: dict[str, str]) -> None:
    tensors = {
        "in_shapes": "Input Shapes",
        "in_dtypes": "Input Data Types",
        "out_shapes": "Output Shapes",
        "out_dtypes": "Output Data Types",
    }
    assert places(header) == expected | tensors


def test_case_blanks_and_a_byte_order_mark_do_not_matter() -> None:
    layout = recognise(["\ufeffSOC ", " Op", "In_Dtypes", "in_shapes", "Duration_US"], "f")
    assert layout.places[RawRow._fields.index("soc")] == 0


def test_missing_columns_are_named() -> None:
    with pytest.raises(AtlasError, match=r"^f\.csv: no columns in_dtypes, in_shapes, which a table of"):
        recognise(["soc", "op", "duration_us"], "f.csv")
    with pytest.raises(AtlasError, match=r"no column Input Shapes, which msprof's op_summary needs"):
        recognise(OP_SUMMARY.replace("Input Shapes", "x").split(","), "f.csv")


def test_a_file_of_something_else_is_told_what_there_is() -> None:
    with pytest.raises(AtlasError, match=r"has none of the columns .*duration_us.*Task Duration.*Type"):
        recognise(["a", "b"], "f.csv")


def test_a_chip_given_otherwise_needs_no_column() -> None:
    header = ["op", "in_dtypes", "in_shapes", "duration_us"]
    with pytest.raises(AtlasError, match="no column soc"):
        recognise(header, "f.csv")
    assert recognise(header, "f.csv", needs_soc=False).format.raw is False


# ---- cells --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["8.63", " 8.63\t", "8.63e0"])
def test_a_duration_is_a_number(text: str) -> None:
    assert duration_us(text) == 8.63


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no duration"),
        ("N/A", "no duration"),
        ("0", "zero or negative"),
        ("-1.5", "zero or negative"),
        ("-inf", "zero or negative"),
        ("inf", "infinite"),
        ("1e999", "infinite"),
        ("nan", "not a number"),
        ("12us", "not a number"),
        ("1,5", "not a number"),
    ],
)
def test_a_duration_that_says_nothing_has_a_reason(text: str, reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        duration_us(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FLOAT16;FLOAT", ("float16", "float32")),
        ("DT_BF16", ("bfloat16",)),
        ("float32;bfloat16", ("float32", "bfloat16")),
        ('"FLOAT16;INT64"', ("float16", "int64")),
        ("DT_FLOAT;BOOL", ("float32", "bool")),
        ("N/A", ()),
        ("", ()),
    ],
)
def test_dtypes_have_numpys_names(text: str, expected: tuple[str, ...]) -> None:
    assert dtypes(text, "input") == expected


@pytest.mark.parametrize("text", ["FLOAT16;", "banana", "float"[:3]])
def test_a_word_that_is_no_dtype_is_a_reason(text: str) -> None:
    with pytest.raises(Unusable, match="unknown dtype"):
        dtypes(text, "input")


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("4096,1;128", 2, ((4096, 1), (128,))),
        ('"8"', 1, ((8,),)),
        ('"2,3;4"', 2, ((2, 3), (4,))),
        ("", 1, ((),)),
        (";64,1001", 2, ((), (64, 1001))),
        (";", 2, ((), ())),
        ("4,5;", 1, ((4, 5),)),
        ("[2, 3];()", 2, ((2, 3), ())),
        ("0,3", 1, ((0, 3),)),
    ],
)
def test_shapes_are_separated_by_semicolons_and_a_scalar_has_none(
    text: str, count: int, expected: tuple[tuple[int, ...], ...]
) -> None:
    assert shapes(text, count, "input") == expected


@pytest.mark.parametrize(
    ("text", "count", "reason"),
    [
        ("4;5;6", 2, "numbers of input shapes and dtypes differ"),
        ("N/A", 1, "no shape"),
        ("4,-1", 1, "malformed"),
        ("4,x", 1, "malformed"),
        ("4.0", 1, "malformed"),
        ("4,,5", 1, "malformed"),
        ("9" * 30, 1, "malformed"),
        ("\u0664", 1, "malformed"),
    ],
)
def test_a_malformed_shape_is_a_reason(text: str, count: int, reason: str) -> None:
    with pytest.raises(Unusable, match=reason):
        shapes(text, count, "input")


@pytest.mark.parametrize(
    ("text", "value"), [("40", 40), ("40.0", 40), ("0", None), ("N/A", None), ("", None)]
)
def test_a_number_of_blocks_is_positive_or_not_there(text: str, value: int | None) -> None:
    assert whole(text) == value

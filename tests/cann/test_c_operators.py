"""The operators around the gradient: bits of the emulator's own, documented refusals, known device times."""

from __future__ import annotations

import csv
import io
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import emulator
from emulator.cann.execute import execute, op_summary, table
from socs import load

Built = Callable[..., Path]
Compared = Callable[[str, str], Any]
Ran = Callable[..., subprocess.CompletedProcess[str]]

CHIPS = {
    "Ascend910B3": 1962,
    "Ascend950PR_9589": 981,
    "Ascend910A": 566,
    "Ascend310P3": 566,
    "Ascend310B1": 566,
}
"""Calls per chip: by its dtypes, and in every overflow mode that it has."""


@pytest.mark.slow
@pytest.mark.parametrize("soc", CHIPS)
def test_every_operator_gives_the_bits_of_the_emulators_own_operators(compared: Compared, soc: str) -> None:
    found = compared("c_operators.py", soc)
    assert found["differ"] == []
    assert sum(found["made"].values()) == CHIPS[soc]
    assert len(found["made"]) == 17


REFUSALS = """\
161001 got null for argument self.
161001 got null for argument other.
161001 got null for argument out.
161001 The workspaceSize or executor is nullptr.
161002 other is no aclScalar, or was destroyed.
161002 other of DT_COMPLEX64 is not emulated: no real number.
161002 not implemented for DT_INT32, should be in dtype support list [DT_FLOAT,DT_FLOAT16,DT_BFLOAT16,].
161002 Expected tensor for self to have same size as tensor for out, but [2,3] does not equal [6].
161002 The selfRef tensor cannot be larger than 8 dimensions.
161002 The size of tensor self [6] must match the size of tensor other [2].
161002 Expected tensor for selfRef to have same size as [6], but got [1].
161001 got null for argument alpha.
161002 Expected tensor for out to have same size as [6], but got [1].
161001 got null for argument dims.
161002 dims is no aclIntArray, or was destroyed.
161002 Provided dim 2 must be in the range of [-1, 0].
161002 Dim 0 appears multiple times in the list of dims.
161002 Expected out to be of the dtype that is asked for, DT_FLOAT16, but got DT_FLOAT.
161002 Expected tensor for out to have same size as [3], but got [1].
161002 Tensor self not implemented for DT_INT32
161002 Expected out to be of the dtype that is asked for, DT_FLOAT, but got DT_FLOAT16.
161002 Expected tensor for out to have same size as tensor for self, but [1,6] does not equal [2,3].
161002 Tensor self not implemented for DT_INT32
161001 got null for argument selfRef.
161002 The size of tensor selfRef [6] must match the size of tensor src [2].
161002 Shape of broadcast result should be [6], but self is [1].
161001 executor is nullptr.
561000 the executor is one of aclnnMuls.
161002 index 1: the executor has 1 such tensors.
507035 aclnnMuls: out, 24 bytes
"""


def test_a_client_gets_its_numbers_and_documented_statuses_with_a_text(build: Built, run: Ran) -> None:
    done = run(build("operators.c"))
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[:5] == [
        "x/2+y 1.5 3 4.5 6 7.5 9",
        "x*x 1 4 9 16 25 36",
        "sum 91",
        "copy 91.25 91.25 91.25 91.25 91.25 91.25",
        "cast 3c00 4600",
    ]
    for line, refusal in zip(lines[5:], REFUSALS.splitlines(), strict=True):
        status, text = refusal.split(" ", 1)
        assert f" {status} " in line, line
        assert text in line, line


@pytest.mark.parametrize("soc", ["Ascend910B2", "Ascend950PR_9589"])
def test_device_times_are_those_of_the_recorded_kernels_and_sums_have_none(
    root: Path, build: Built, soc: str
) -> None:
    done = execute([str(build("operators.c"))], root, load(soc))
    launches = {launch.call["operator"]: launch for launch in done.launches}
    six = {"soc": soc, "shape": (6,), "dtype": "float32"}
    wanted = {
        "aclnnMuls": emulator.predict("mul", **six, input_shapes={"y": ()}),
        "aclnnAdd": emulator.predict("add", **six),
        "aclnnInplaceMul": emulator.predict("mul", **six),
    }
    for operator, time in wanted.items():
        assert launches[operator].time_us == time.time_us > 0, operator
    cast = emulator.predict("cast", soc=soc, shape=(1, 6), dtype="float32", to="float16").time_us
    assert launches["aclnnCast"].time_us == cast
    unknown = {name for name, launch in launches.items() if launch.time is None}
    assert unknown == {"aclnnInplaceSub", "aclnnReduceSum", "aclnnInplaceCopy", "aclnnInplaceAdds"}
    assert set(done.problems) == {
        "aclnnInplaceSub: no program of Axpy is recorded",
        "aclnnReduceSum: no program of ReduceSum is recorded",
        "aclnnInplaceCopy: no program of BroadcastTo is recorded",
        "aclnnInplaceAdds: no program of Axpy is recorded",
    }
    assert "unknown" in table(done, load(soc))
    rows = list(csv.DictReader(io.StringIO(op_summary(done))))
    assert [row["OP Type"] for row in rows] == ["Mul", "Add", "Mul", "Cast", "Mul"]
    assert rows[0]["Input Shapes"] == "6;"
    assert rows[3]["Output Data Types"] == "FLOAT16"

"""``run`` and ``predict`` of every operator, by its name or the vendor's, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import emulator
from emulator import api
from kernel.operators import ALIASES, OPERATORS, find
from socs.errors import AtlasError

VENDOR = {
    "Add": "add",
    "AddN": "add_n",
    "Cast": "cast",
    "Copy": "copy",
    "Fill": "fill",
    "ZerosLike": "fill",
    "Maximum": "maximum",
    "Minimum": "minimum",
    "MseLossGrad": "mse_loss_backward",
    "Mul": "mul",
    "Neg": "neg",
    "RealDiv": "div",
    "Relu": "relu",
    "Sub": "sub",
    "TensorMove": "copy",
}
KEYS = [
    *(
        "operator",
        "backend",
        "soc",
        "kernel",
        "dtype",
        "shapes",
        "reduction",
        "block_dim",
        "tiling",
        "cycles",
    ),
    *("time_us", "bound_cycles", "serial_cycles", "pipes", "launch", "assumed", "accuracy"),
]


def refusal(call: Callable[[], object], status: int | None = None) -> str:
    with pytest.raises(AtlasError) as caught:
        call()
    assert caught.value.status == status
    message = str(caught.value)
    assert "\n" not in message
    return message


def extras(name: str) -> dict[str, Any]:
    operator = OPERATORS[name]
    given: dict[str, Any] = {}
    if operator.scalar:
        given["scalar"] = 2.5
    if operator.casts:
        given["to"] = "bfloat16"
    return given


@pytest.mark.parametrize(("theirs", "ours"), VENDOR.items())
def test_the_vendors_names_find_our_operators(theirs: str, ours: str) -> None:
    assert find(theirs) is find(theirs.upper()) is OPERATORS[ours]


def test_no_name_means_two_operators() -> None:
    names = [name.lower() for o in OPERATORS.values() for name in o.vendor]
    assert len(names) == len(set(names)) == len(ALIASES)
    assert all(ALIASES.get(name, name) == name for name in OPERATORS)


@pytest.mark.parametrize("name", OPERATORS)
def test_predict_answers_with_the_keys_of_a_result(name: str) -> None:
    result = emulator.predict(name, shape=(100, 33), dtype="float16", l2="hot", **extras(name))
    document = result.to_json()
    assert set(KEYS) <= set(document)
    assert document["operator"] == name
    assert document["reduction"] == ("mean" if name == "mse_loss_backward" else None)
    assert document["kernel"] in OPERATORS[name].kernels
    assert document["bound_cycles"] <= document["cycles"] <= document["serial_cycles"]
    assert document["stand_in_for"] is None


@pytest.mark.parametrize("name", [n for n, o in OPERATORS.items() if o.writes])
def test_run_and_predict_agree_on_the_time(name: str) -> None:
    operator = OPERATORS[name]
    tensors = {n: np.ones((7, 33), np.float16) for n in operator.arguments(2)}
    ran = emulator.run(name, soc="Ascend910B3", **extras(name), **tensors)
    asked = emulator.predict(name, soc="Ascend910B3", shape=(7, 33), dtype="float16", **extras(name))
    assert (ran.cycles, ran.kernel, ran.dtype, ran.shapes) == (
        asked.cycles,
        asked.kernel,
        asked.dtype,
        asked.shapes,
    )
    assert ran.output is not None
    assert (ran.output.shape, str(ran.output.dtype)) == ((7, 33), ran.dtype)


def test_results_are_those_of_numpy() -> None:
    x, y = np.array([[-1.5, 2.0]], np.float32), np.array([[4.0], [-3.0]], np.float32)
    for name, wanted in (
        *(("add", x + y), ("sub", x - y), ("mul", x * y), ("div", x / y)),
        *(("maximum", np.maximum(x, y)), ("minimum", np.minimum(x, y))),
    ):
        assert emulator.run(name, x=x, y=y).output.tolist() == wanted.tolist()  # type: ignore[union-attr]
    assert emulator.run("relu", x=x).output.tolist() == [[0.0, 2.0]]  # type: ignore[union-attr]
    assert emulator.run("neg", x=x).output.tolist() == [[1.5, -2.0]]  # type: ignore[union-attr]
    assert emulator.run("muls", x=x, scalar=2).output.tolist() == [[-3.0, 4.0]]  # type: ignore[union-attr]
    assert emulator.run("fill", x=x, scalar=7).output.tolist() == [[7.0, 7.0]]  # type: ignore[union-attr]
    assert emulator.run("add_n", x0=x, x1=x, x2=y[:1]).output.tolist() == [[1.0, 8.0]]  # type: ignore[union-attr]
    cast = emulator.run("cast", x=x, to="float16").output
    assert (cast.dtype, cast.tolist()) == (np.float16, x.tolist())  # type: ignore[union-attr]


def test_out_is_written_in_place_also_in_another_dtype() -> None:
    x = np.array([1.25, 3.0], np.float32)
    out = np.zeros(2, np.float16)
    result = emulator.run("cast", x=x, to="float16", out=out)
    assert result.output is out
    assert out.tolist() == [1.25, 3.0]
    assert "must be float16" in refusal(lambda: emulator.run("cast", x=x, to="float16", out=np.zeros(2)))


def test_input_shapes_and_dtypes_are_by_name_and_broadcast() -> None:
    result = emulator.predict("mul", shape=(8192, 1), dtype="float32", input_shapes={"y": (255, 1, 8)})
    assert result.shapes == {"x": (8192, 1), "y": (255, 1, 8), "out": (255, 8192, 8)}
    mixed = emulator.predict("add", shape=(1024,), dtype="float32", input_dtypes={"y": "bfloat16"})
    assert (mixed.dtype, mixed.bytes_read) == ("float32", 1024 * 6)
    many = emulator.predict("add_n", shape=(64,), dtype="float16", inputs=5, input_shapes={"x4": ()})
    assert list(many.shapes) == ["x0", "x1", "x2", "x3", "x4", "out"]
    same = emulator.predict("mse_loss_backward", shape=(64, 8), dtype="float32", grad_shape=())
    named = emulator.predict(
        "mse_loss_backward", shape=(64, 8), dtype="float32", input_shapes={"grad_output": ()}
    )
    assert same.cycles == named.cycles


def test_a_kernel_of_another_kind_says_for_what_it_stands_in() -> None:
    result = emulator.predict("add", shape=(4096,), dtype="float32", kernel="add_triton")
    assert (result.kernel, result.stand_in_for) == ("add_triton", "add_tbe")
    assert any(entry.key == "kernel.add_triton.queues" for entry in result.assumed)


def test_fill_moves_no_input() -> None:
    result = emulator.predict("fill", shape=(1 << 20,), dtype="float32", scalar=0)
    assert (result.bytes_read, result.bytes_written) == (0, 4 << 20)


@pytest.mark.parametrize(
    ("call", "part"),
    [
        (
            lambda: emulator.predict("exp", shape=(4,), dtype="float32"),
            "unknown operator 'exp': there are add, add_n",
        ),
        (lambda: emulator.predict(5, shape=(4,), dtype="float32"), "unknown operator 5"),
        (
            lambda: emulator.predict("add", shape=(4,), dtype="float32", input_shapes={"z": (4,)}),
            "has no 'z'",
        ),
        (
            lambda: emulator.predict("add", shape=(4,), dtype="float32", input_dtypes={"z": "float32"}),
            "has no 'z'",
        ),
        (
            lambda: emulator.predict("add", shape=(4,), dtype="float32", grad_shape=(4,)),
            "has no 'grad_output'",
        ),
        (lambda: emulator.predict("add", shape=(4,), dtype="float32", scalar=1.0), "add takes no scalar"),
        (lambda: emulator.predict("add", shape=(4,), dtype="float32", to="float16"), "takes no dtype"),
        (
            lambda: emulator.predict("add", shape=(4,), dtype="float32", inputs=3),
            "inputs = 3: add takes x, y",
        ),
        (lambda: emulator.predict("add_n", shape=(4,), dtype="float32", inputs=1), "it takes 2 to 64"),
        (lambda: emulator.predict("cast", shape=(4,), dtype="float32"), "cast needs to="),
        (lambda: emulator.run("add", x=np.ones(3, np.float32)), "y is missing"),
        (lambda: emulator.run("add", x=1, y=2, z=3), "add has no argument 'z'"),
        (lambda: emulator.run("load", x=np.ones(3, np.float32)), "load has no result"),
        (lambda: emulator.run("relu", x=np.ones(3)), "x is float64"),
    ],
)
def test_bad_requests_are_refused_on_one_line(call: Callable[[], object], part: str) -> None:
    with pytest.raises(AtlasError) as caught:
        call()
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_input_names_are_those_of_the_arguments() -> None:
    assert api.input_names(find("add"), None) == ("x", "y")
    assert api.input_names(find("AddN"), 4) == ("x0", "x1", "x2", "x3")

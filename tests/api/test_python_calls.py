"""``emulator.run``, ``predict``, ``mse_loss_backward`` and ``soc`` as a program calls them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import emulator
from emulator import AtlasError

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
OPERATOR = "mse_loss_backward"
NULL, INVALID = 161001, 161002  # ACLNN_ERR_PARAM_NULLPTR and _INVALID, from CANN's documentation


def tensors(shape: tuple[int, ...] = (4, 8), dtype: Any = np.float32) -> dict[str, np.ndarray]:
    base = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    return {
        "grad_output": (base % 3 + 1).astype(dtype),
        "self": (base % 7 - 3).astype(dtype),
        "target": (base % 5).astype(dtype),
    }


def refusal(call: Callable[[], object], status: int | None = None) -> str:
    with pytest.raises(AtlasError) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert caught.value.status == status
    return str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize(
    ("reduction", "factor"), [("none", 2.0), ("mean", 1 / 16), (2, 2.0), (np.int64(2), 2.0)]
)
def test_the_gradient_is_the_formula_where_nothing_rounds(
    dtype: Any, reduction: str | int, factor: float
) -> None:
    arrays = tensors(dtype=dtype)
    found = emulator.mse_loss_backward(*arrays.values(), reduction=reduction)
    wide = [array.astype(np.float64) for array in arrays.values()]
    assert found.dtype == dtype
    assert np.array_equal(found.astype(np.float64), wide[0] * (wide[1] - wide[2]) * factor)


def test_run_gives_the_bits_of_the_short_call_and_the_time_of_the_prediction() -> None:
    arrays = tensors((100, 33), np.float16)
    result = emulator.run(OPERATOR, soc="Ascend310P3", l2="hot", **arrays)
    short = emulator.mse_loss_backward(*arrays.values(), soc="Ascend310P3")
    predicted = emulator.predict(OPERATOR, soc="Ascend310P3", shape=(100, 33), dtype="float16", l2="hot")
    assert result.output is not None
    assert result.output.tobytes() == short.tobytes()
    assert predicted.output is None
    assert predicted == result
    assert predicted.to_json() == result.to_json()


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BFLOAT16])
@pytest.mark.parametrize("overflow", ["inf_nan", "saturation"])
def test_compiled_and_interpreted_bits_are_equal(dtype: Any, overflow: str) -> None:
    random = np.random.default_rng(910)
    kind = {2: np.uint16, 4: np.uint32}[np.dtype(dtype).itemsize]
    # Any bits at all: NaN, infinity, subnormal numbers, overflow.
    bits = random.integers(0, np.iinfo(kind).max, (3, 5000), dtype=kind, endpoint=True)
    grad, own, target = (row.view(dtype) for row in bits)
    results = [
        emulator.run(OPERATOR, grad_output=grad, self=own, target=target, bits=way, overflow=overflow)
        for way in ("compiled", "interpreted")
    ]
    first, second = (result.output for result in results)
    assert first is not None
    assert second is not None
    assert first.tobytes() == second.tobytes()
    assert results[0].cycles == results[1].cycles


def test_values_that_are_no_arrays_yet_are_read_as_such() -> None:
    column = [np.float32(value) for value in (1, 2, 3)]
    found = emulator.mse_loss_backward(column, column, np.zeros(3, np.float32), reduction="sum")
    assert found.tolist() == [2, 8, 18]
    message = refusal(lambda: emulator.mse_loss_backward(1.0, 2.0, 3.0), INVALID)
    assert "float64" in message


def test_memory_order_and_byte_order_do_not_matter() -> None:
    plain = tensors()
    expected = emulator.mse_loss_backward(*plain.values())
    for change in (np.asfortranarray, lambda a: a.astype(">f4"), lambda a: np.repeat(a, 2, 1)[:, ::2]):
        found = emulator.mse_loss_backward(*(change(array) for array in plain.values()))
        assert found.flags.c_contiguous
        assert found.dtype == np.float32
        assert np.array_equal(found, expected)


def test_inputs_are_only_read() -> None:
    arrays = tensors()
    before = {name: array.copy() for name, array in arrays.items()}
    for array in arrays.values():
        array.flags.writeable = False
    emulator.run(OPERATOR, **arrays)
    assert all(np.array_equal(arrays[name], before[name]) for name in arrays)


# ---- names, null pointers -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grad_output", "self", "target"])
def test_a_tensor_that_is_none_or_missing_is_a_null_pointer(name: str) -> None:
    given = {**tensors(), name: None}
    assert name in refusal(lambda: emulator.run(OPERATOR, **given), NULL)
    assert name in refusal(lambda: emulator.mse_loss_backward(**given), NULL)
    del given[name]
    assert name in refusal(lambda: emulator.run(OPERATOR, **given), NULL)


def test_an_argument_that_the_operator_has_not_is_refused_with_those_it_has() -> None:
    message = refusal(lambda: emulator.run(OPERATOR, **tensors(), weight=np.ones(3)))
    assert "'weight'" in message
    assert "grad_output, self, target" in message
    assert "grad_output, self, target" in refusal(lambda: emulator.run(OPERATOR, grad=1, input=2))


def test_an_unknown_operator_is_refused_with_the_known_one() -> None:
    for call in (
        lambda: emulator.run("mse_loss", **tensors()),
        lambda: emulator.predict("mse_loss", shape=(4,), dtype="float32"),
    ):
        message = refusal(call)
        assert "'mse_loss'" in message
        assert OPERATOR in message


# ---- out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", ["compiled", "interpreted"])
def test_out_is_written_in_place_and_is_the_result(bits: str) -> None:
    arrays = tensors()
    out = np.full((4, 8), 77, np.float32)
    result = emulator.run(OPERATOR, **arrays, out=out, bits=bits)
    assert result.output is out
    assert np.array_equal(out, emulator.mse_loss_backward(*arrays.values()))
    again = np.zeros_like(out)
    assert emulator.mse_loss_backward(*arrays.values(), out=again) is again
    assert np.array_equal(out, again)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_a_matrix_and_a_mapped_file_are_written_too(tmp_path: Path) -> None:
    expected = emulator.mse_loss_backward(*tensors().values())
    mapped = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (4, 8))
    for out in (mapped, np.asmatrix(np.zeros((4, 8), np.float32))):
        assert emulator.mse_loss_backward(*tensors().values(), out=out) is out
        assert np.array_equal(np.asarray(out), expected)


def test_out_of_an_empty_call_stays_as_it_is() -> None:
    out = np.empty((0, 3), np.float32)
    result = emulator.run(OPERATOR, **tensors((0, 3)), out=out)
    assert result.output is out
    assert (result.cycles, result.block_dim, result.timeline) == (0, 0, None)


def read_only() -> np.ndarray:
    array = np.zeros((4, 8), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "part"),
    [
        (read_only(), "read-only"),
        (np.zeros((8, 4), np.float32), "shape (8, 4)"),
        (np.zeros((4, 8, 1), np.float32), "shape (4, 8, 1)"),
        (np.zeros((4, 8)), "float64"),
        (np.zeros((4, 8), np.float16), "float16"),
        (np.zeros((8, 4), np.float32).T, "C-contiguous"),
        (np.zeros((4, 8), ">f4"), "native-endian"),
        ([[0.0] * 8] * 4, "list"),
        ("out", "str"),
    ],
)
def test_an_out_that_cannot_be_written_is_refused_and_stays_as_it_is(out: Any, part: str) -> None:
    before = np.array(out)
    assert part in refusal(lambda: emulator.run(OPERATOR, **tensors(), out=out))
    assert part in refusal(lambda: emulator.mse_loss_backward(*tensors().values(), out=out))
    assert np.array_equal(np.array(out), before)


def test_out_may_not_lie_on_an_input() -> None:
    arrays = tensors()
    memory = np.zeros(40, np.float32)
    arrays["target"] = memory[:32].reshape(4, 8)
    for out in (arrays["target"], memory[8:].reshape(4, 8)):
        message = refusal(lambda out=out: emulator.run(OPERATOR, **arrays, out=out))
        assert "shares memory with target" in message
    assert not memory.any()


# ---- options ------------------------------------------------------------------------------------


def test_a_chip_is_a_name_a_product_a_file_or_itself(tmp_path: Path) -> None:
    path = tmp_path / "same.toml"
    path.write_text('extends = "Ascend310P3"\n')
    chips = ["Ascend310P3", "Atlas 300I Pro", str(path), path, emulator.soc("Ascend310P3")]
    found = {emulator.predict(OPERATOR, shape=(500,), dtype="float32", soc=chip).cycles for chip in chips}
    assert len(found) == 1
    assert found != {emulator.predict(OPERATOR, shape=(500,), dtype="float32", soc="Ascend910B3").cycles}


def test_overrides_are_those_of_soc() -> None:
    changed = {"launch.task_s": 1e-3, "vector_cores": "8"}
    whole = emulator.soc("Ascend910B3", changed)
    assert whole.vector_cores == 8
    by_name = emulator.run(OPERATOR, **tensors(), overrides=changed)
    by_chip = emulator.run(OPERATOR, **tensors(), soc=whole)
    assert by_name.cycles == by_chip.cycles > emulator.run(OPERATOR, **tensors()).cycles
    assert "launch.task_s" in [entry.key for entry in by_name.assumed]


def test_overrides_of_a_loaded_chip_or_of_no_number_are_refused() -> None:
    chip = emulator.soc("Ascend910B3")
    assert "loaded already" in refusal(lambda: emulator.soc(chip, {"vector_cores": 1}))
    assert "nearest" in refusal(lambda: emulator.soc("Ascend910B3", {"vector_core": 1}))
    wrong: Any = 5
    assert "overrides = 5" in refusal(lambda: emulator.run(OPERATOR, **tensors(), overrides=wrong))
    assert "no chip" in refusal(lambda: emulator.soc("Ascend9"))
    for no_name in (None, 5):
        assert "is not a chip" in refusal(lambda soc=no_name: emulator.run(OPERATOR, **tensors(), soc=soc))


@pytest.mark.parametrize("kind", ["mapping", "options"])
def test_tiling_is_a_mapping_or_an_object(kind: str) -> None:
    numbers = {"tile_length": np.int64(128), "buffer_num": 2, "block_dim": None}
    tiling = numbers if kind == "mapping" else emulator.TilingOptions(**numbers)
    made = emulator.predict(OPERATOR, shape=(5000,), dtype="float32", tiling=tiling).tiling
    assert made is not None
    assert (made.tile_length, made.buffer_num, made.chosen_by) == (128, 2, "user")
    assert isinstance(made.tile_length, int)


@pytest.mark.parametrize(
    ("tiling", "parts"),
    [
        ({"tile": 4}, ["'tile'", "tile_length, buffer_num, block_dim"]),
        ({"tile_length": 7.5}, ["tile_length = 7.5", "whole number"]),
        ({"tile_length": 8.0}, ["tile_length = 8.0", "whole number"]),
        ({"tile_length": "8"}, ["tile_length = '8'", "whole number"]),
        ({"block_dim": True}, ["block_dim = True", "whole number"]),
        ({"buffer_num": 0}, ["buffer-num = 0", "at least 1"]),
        ({5: 1}, ["tiling has no 5"]),
        (5, ["tiling = 5"]),
        (emulator.TilingOptions(tile_length=7.5), ["tile_length = 7.5"]),  # type: ignore[arg-type]
    ],
)
def test_a_tiling_of_no_whole_numbers_is_refused(tiling: Any, parts: list[str]) -> None:
    for call in (
        lambda: emulator.run(OPERATOR, **tensors(), tiling=tiling),
        lambda: emulator.predict(OPERATOR, shape=(4,), dtype="float32", tiling=tiling),
    ):
        message = refusal(call)
        assert [part for part in parts if part not in message] == []


@pytest.mark.parametrize(
    ("options", "part", "status"),
    [
        ({"reduction": "avg"}, "none, mean or sum", INVALID),
        ({"reduction": 3}, "reduction = 3", INVALID),
        ({"reduction": True}, "reduction = True", INVALID),
        ({"l2": "warm"}, "cold or hot", None),
        ({"kernel": "other"}, "mse_loss_grad_v2", None),
        ({"engine": "x"}, "simpy", None),
        ({"bits": "exact"}, "compiled or interpreted", None),
        ({"overflow": "wrap"}, "inf_nan, saturation", None),
        ({"backend": "gpu"}, "there are emulated", None),
    ],
)
def test_an_option_of_no_known_value_is_refused_with_the_known_ones(
    options: dict[str, Any], part: str, status: int | None
) -> None:
    assert part in refusal(lambda: emulator.run(OPERATOR, **tensors(), **options), status)


@pytest.mark.parametrize(
    ("changed", "part"),
    [
        ({"target": np.ones((4, 8), np.float16)}, "target is float16 but self is float32"),
        ({"target": np.ones((4, 7), np.float32)}, "cannot be broadcast"),
        ({"target": np.ones((1,) * 9, np.float32)}, "at most 8"),
    ],
)
def test_tensors_that_the_operator_refuses_have_its_status(changed: dict[str, Any], part: str) -> None:
    given = {**tensors(), **changed}
    assert part in refusal(lambda: emulator.run(OPERATOR, **given), INVALID)


# ---- predict ------------------------------------------------------------------------------------


def test_a_shape_is_any_sequence_of_whole_numbers() -> None:
    for shape in ((2, 3), [2, 3], np.array([2, 3]), iter([2, 3]), (np.int64(2), 3)):
        made: Any = shape
        found = emulator.predict(OPERATOR, shape=made, dtype="float32").shapes
        assert found == dict.fromkeys(("grad_output", "self", "target", "out"), (2, 3))


@pytest.mark.parametrize("name", ["shape", "grad_shape", "target_shape"])
@pytest.mark.parametrize(
    ("value", "part"),
    [
        ("12", "sequence of whole numbers"),
        (5, "sequence of whole numbers"),
        ((3.5,), "3.5 must be a whole number"),
        ((True,), "True must be a whole number"),
        ([[1, 2]], "[1, 2] must be a whole number"),
        ((1 << 63,), f"dimension {1 << 63} is more than {1 << 48}"),
        ((1 << 40, 1 << 40), f"{1 << 80} elements are more than {1 << 48}"),
    ],
)
def test_a_shape_of_no_whole_numbers_is_refused_by_name(name: str, value: Any, part: str) -> None:
    shapes = {"shape": (4,), name: value}
    message = refusal(lambda: emulator.predict(OPERATOR, dtype="float32", **shapes))
    assert message.startswith(name)
    assert part in message


def test_a_negative_dimension_has_the_status_of_the_operator() -> None:
    message = refusal(lambda: emulator.predict(OPERATOR, shape=(4, -1), dtype="float32"), INVALID)
    assert "-1 is negative" in message


def test_a_grad_shape_is_checked_as_a_tensor_would_be() -> None:
    options = {"shape": (4, 8), "dtype": "float32"}
    same = emulator.predict(OPERATOR, **options, grad_shape=(4, 8))
    assert same == emulator.predict(OPERATOR, **options)
    scalar = emulator.predict(OPERATOR, **options, grad_shape=())
    assert scalar.shapes == {"grad_output": (), "self": (4, 8), "target": (4, 8), "out": (4, 8)}
    assert scalar.kernel == "mse_loss_grad"
    refused = refusal(lambda: emulator.predict(OPERATOR, **options, grad_shape=(), kernel="mse_loss_grad_v2"))
    assert "mse_loss_grad_v2 takes equal shapes" in refused
    assert "broadcast" in refusal(lambda: emulator.predict(OPERATOR, **options, grad_shape=(3,)), INVALID)
    nothing = emulator.predict(OPERATOR, shape=(4, 0), dtype="float32", grad_shape=(4, 1))
    assert nothing.shapes == {"grad_output": (4, 1), "self": (4, 0), "target": (4, 0), "out": (4, 0)}
    assert nothing.cycles == 0


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("float16"), None, ""])
def test_a_dtype_is_given_by_name(dtype: Any) -> None:
    assert "dtype = " in refusal(lambda: emulator.predict(OPERATOR, shape=(4,), dtype=dtype))


def test_a_backend_is_found_by_its_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    seen = []

    class Recorder:
        def run(self, call: Any) -> str:
            seen.append(call)
            return "answer"

    class Entry:
        name = "recorder"

        def load(self) -> type[Recorder]:
            return Recorder

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry()] if "atlas" in group else [])
    monkeypatch.setenv("ATLAS_EMU_BACKEND", "recorder")
    assert emulator.run(OPERATOR, **tensors()) == "answer"
    assert emulator.run(OPERATOR, **tensors(), backend="emulated") != "answer"
    (call,) = seen
    assert sorted(call.tensors) == ["grad_output", "self", "target"]
    assert (call.out.shape, call.timed, call.l2) == ((4, 8), True, "cold")
    assert "emulated, npu, recorder" in refusal(lambda: emulator.run(OPERATOR, **tensors(), backend="other"))

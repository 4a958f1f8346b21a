"""Python to the C libraries and back: the backend ``npu`` has the bits of the direct route."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from c_cases import wild
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import emulator
from emulator import aclnn
from emulator.backends.npu import Npu, NpuError
from emulator.backends.npu.device import open_device
from emulator.backends.npu.libraries import Libraries
from emulator.backends.npu.places import VARIABLES

Array = NDArray[Any]

OPERATOR = "mse_loss_backward"
DTYPES = (np.float32, np.float16, ml_dtypes.bfloat16)


@pytest.fixture(scope="module", autouse=True)
def _card(root: Path) -> Iterator[None]:
    """A card that is an Ascend910B3; in one process it stays what it was at first."""
    with pytest.MonkeyPatch.context() as patch:
        for name in (*VARIABLES, "ATLAS_EMU_SOC", "ATLAS_EMU_BACKEND", "ATLAS_EMU_DEVICE"):
            patch.delenv(name, raising=False)
        patch.setenv("ASCEND_HOME_PATH", str(root))
        yield


def same(ours: Any, theirs: Any) -> bool:
    """Equal in shape, dtype and every bit."""
    return (ours.shape, ours.dtype, ours.tobytes()) == (theirs.shape, theirs.dtype, theirs.tobytes())


def both(g: object, x: object, y: object, **options: Any) -> tuple[Array, Array]:
    """The result on the card, and the emulated one."""
    card = emulator.mse_loss_backward(g, x, y, backend="npu", **options)
    return card, emulator.mse_loss_backward(g, x, y, backend="emulated", **options)


LAYOUTS = {
    "plain": lambda d: (wild((6, 10), d, 1), wild((6, 10), d, 2), wild((6, 10), d, 3)),
    "a scalar gradient": lambda d: (wild((), d, 1), wild((300, 10), d, 2), wild((300, 10), d, 3)),
    "three scalars": lambda d: (wild((), d, 1), wild((), d, 2), wild((), d, 3)),
    "broadcast": lambda d: (wild((7, 1, 3), d, 1), wild((5, 3), d, 2), wild((1,), d, 3)),
    "broadcast by NumPy": lambda d: (
        np.broadcast_to(wild((10,), d, 1), (6, 10)),
        wild((6, 10), d, 2),
        wild((6, 10), d, 3),
    ),
    "transposed": lambda d: (wild((6, 10), d, 1), wild((10, 6), d, 2).T, wild((6, 10), d, 3)),
    "slices": lambda d: (
        wild((40, 90), d, 1)[7:, 5:][:6, :10],
        wild((60, 60), d, 2)[::10, 3:53:5],
        wild((6, 21), d, 3)[::-1, ::-2][:, :10],
    ),
    "rank 8": lambda d: (wild((2, 1) * 4, d, 1), wild((2,) * 8, d, 2), wild((1, 2) * 4, d, 3)),
    "empty": lambda d: (wild((), d, 1), wild((4, 0), d, 2), wild((4, 0), d, 3)),
    "inputs that are one array": lambda d: (lambda a: (a, a[::-1], a))(wild((50,), d, 1)),
    "large": lambda d: (wild((1,), d, 1), wild((70001, 5), d, 2), wild((70001, 5), d, 3)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_dtype_and_reduction_has_the_bits_of_the_direct_route(layout: str) -> None:
    for dtype, reduction in itertools.product(DTYPES, ("none", "mean", "sum")):
        card, direct = both(*LAYOUTS[layout](dtype), reduction=reduction)
        assert same(card, direct), (dtype, reduction)


@st.composite
def views(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Three arrays that broadcast together, of any strides."""
    dtype = draw(st.sampled_from(DTYPES))
    dims = draw(st.lists(st.integers(0, 6), max_size=5))

    def one(seed: int) -> Array:
        shape = [1 if draw(st.integers(0, 4)) == 0 else dim for dim in dims]
        shape = shape[draw(st.integers(0, len(shape))) :] if draw(st.integers(0, 3)) == 0 else shape
        steps = [draw(st.sampled_from((1, 1, 2, 3, -1, -2))) for _ in shape]
        starts = [draw(st.integers(0, 3)) for _ in shape]
        order = draw(st.permutations(range(len(shape))))
        around = [first + dim * abs(step) for first, dim, step in zip(starts, shape, steps, strict=True)]
        whole = wild(tuple(around[axis] for axis in order), dtype, seed)
        turned = whole.transpose([order.index(axis) for axis in range(len(shape))])
        cut = tuple(
            slice(first, first + dim * abs(step), abs(step))
            for first, dim, step in zip(starts, shape, steps, strict=True)
        )
        return turned[cut][tuple(slice(None, None, -1 if step < 0 else 1) for step in steps)]

    return one(1), one(2), one(3)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tensors=views(), reduction=st.sampled_from(("none", "mean", "sum")))
def test_views_of_any_strides_have_the_bits_of_the_direct_route(
    tensors: tuple[Array, Array, Array], reduction: str
) -> None:
    assert same(*both(*tensors, reduction=reduction))


def test_strides_and_offset_reach_the_library_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    from emulator.backends.npu import backend

    seen: list[Any] = []
    create = backend.descriptions.create
    monkeypatch.setattr(
        backend.descriptions, "create", lambda *given: (seen.append(given[2]), create(*given))[1]
    )
    x = np.zeros((20, 64), np.float32)[3:7, 5::2].T
    both(np.broadcast_to(np.float32(1), (30, 4)), x, np.zeros((30, 4), np.float32)[::-1])
    assert [tensor.strides for tensor in seen] == [(0, 0), (2, 64), (-4, 1), (4, 1)]
    # 3 * 64 + 5 elements from the array's start, of which whole blocks of 32 bytes are left out.
    assert [tensor.offset for tensor in seen] == [0, 5, 116, 0]


def test_only_the_part_of_a_large_array_that_is_reached_goes_to_the_card() -> None:
    from emulator.backends.npu.tensors import described, memory_of

    large = np.zeros((1000, 1000), np.float16)
    assert memory_of(described(large[500, 500:510])).size == 2 * (500 % 16 + 10)
    assert memory_of(described(large[:0])).size == 0


def test_what_lies_around_out_is_not_written() -> None:
    whole = np.full((5, 7), 9, np.float32)
    x = wild((3, 7), np.float32, 1)
    result = emulator.mse_loss_backward(x, x * 2, x, out=whole[1:4], backend="npu")
    assert result.base is whole
    assert same(whole[1:4], emulator.mse_loss_backward(x, x * 2, x))
    assert (whole[[0, 4]] == 9).all()


def test_nothing_is_written_where_nothing_is_launched() -> None:
    out = np.empty((0, 3), np.float32)
    assert emulator.mse_loss_backward(out, out, out, backend="npu").shape == (0, 3)
    result = emulator.run(OPERATOR, grad_output=out, self=out, target=out, backend="npu")
    assert result.measured is None


def test_a_mode_other_than_the_chips_is_that_of_the_stream_of_the_call() -> None:
    x = np.array([6e4, -6e4, np.nan, np.inf], np.float16)
    for mode in ("saturation", "inf_nan", None):
        results = [
            emulator.run(OPERATOR, grad_output=x, self=x, target=-x, overflow=mode, backend=name).output
            for name in ("npu", "emulated")
        ]
        assert same(*results), mode


def test_threads_with_streams_of_their_own_get_their_own_bits() -> None:
    cases = [tuple(wild((300,), dtype, seed) for seed in range(3)) for dtype in DTYPES]
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(60):
            tensors = cases[(number + turn) % len(cases)]
            if not same(*both(*tensors, reduction="none")):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_stream_of_the_callers_is_used_and_left() -> None:
    device = open_device()
    device.need_context()
    stream = device.libraries.made("aclrtCreateStream")
    x = wild((40,), np.float32, 1)
    card = emulator.mse_loss_backward(x, -x, x, backend=Npu(stream=stream))
    assert same(card, emulator.mse_loss_backward(x, -x, x))
    device.libraries.call("aclrtSynchronizeStream", stream)
    with pytest.raises(emulator.AtlasError, match="overflow = 'saturation': a stream that is given"):
        emulator.run(
            OPERATOR, grad_output=x, self=x, target=x, backend=Npu(stream=stream), overflow="saturation"
        )
    device.libraries.call("aclrtDestroyStream", stream)


def test_a_result_holds_measured_times_and_no_predicted_ones() -> None:
    x = wild((4, 1024), np.float32, 1)
    tensors = {"grad_output": x, "self": x, "target": x}
    result = emulator.run(OPERATOR, **tensors, backend=Npu(warm_up=1, repeats=5), l2="hot")
    assert result.measured is not None
    assert (result.measured.repeats, result.measured.warm_up, result.measured.l2) == (5, 1, "hot")
    low, high = result.measured.quartiles_us
    assert min(result.measured.times_us) <= low <= result.measured.median_us <= high
    assert result.measured.empty_us >= 0
    assert (result.backend, result.kernel) == ("npu", "aclnnMseLossBackward")
    assert (result.cycles, result.time_us, result.bytes_read) == (0, 0, 3 * x.nbytes)
    assert (result.bounds, result.pipes, result.timeline, result.assumed) == (None, (), None, ())
    document = json.loads(json.dumps(result.to_json()))
    assert document["measured"]["median_us"] == result.measured.median_us
    assert document["measured"]["emulated"] is True
    assert any("say nothing about a card" in warning for warning in result.warnings)
    assert emulator.run(OPERATOR, **tensors).to_json()["measured"] is None


def test_a_time_of_a_cold_call_says_what_l2_held() -> None:
    x = wild((4,), np.float32, 1)
    chip = emulator.soc("Ascend910B3", {"memory.l2.bytes": 1 << 20})
    result = emulator.run(
        OPERATOR, grad_output=x, self=x, target=x, soc=chip, backend=Npu(warm_up=0, repeats=2)
    )
    assert result.measured is not None
    assert (result.l2, result.measured.l2) == ("cold", "dirty")
    assert any("L2 was dirty before each launch" in warning for warning in result.warnings)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"soc": "Ascend910B2"}, "the card is Ascend910B3"),
        ({"kernel": "mse_loss_grad"}, "kernel = mse_loss_grad"),
        ({"tiling": {"block_dim": 3}}, "its own tiling"),
        ({"bits": "interpreted"}, "nothing is interpreted on a card"),
        ({"without": ["bank_conflicts"]}, "without = "),
        ({"backend": Npu(device=7)}, "device 7: the libraries under"),
        ({"backend": 3}, "backend = 3"),
    ],
)
def test_what_a_card_cannot_do_is_refused(options: dict[str, Any], words: str) -> None:
    x = np.ones(4, np.float32)
    if "without" in options:
        from emulator.device.mechanisms import MECHANISMS

        options = {"without": [next(iter(MECHANISMS))]}
    with pytest.raises(emulator.AtlasError, match=words):
        emulator.run(OPERATOR, grad_output=x, self=x, target=x, **{"backend": "npu", **options})


def test_another_operator_is_only_emulated() -> None:
    x = np.ones(4, np.float32)
    with pytest.raises(emulator.AtlasError, match="add is only emulated"):
        emulator.run("add", x=x, y=x, backend="npu")


@pytest.mark.parametrize("options", [{"repeats": 0}, {"warm_up": -1}, {"device": -1}, {"stream": 1.5}])
def test_numbers_that_are_none_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(emulator.AtlasError, match=next(iter(options))):
        Npu(**options)


def test_the_variable_chooses_the_backend_of_all_three_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    x = wild((4, 8), np.float16, 1)
    direct = emulator.mse_loss_backward(x, -x, x)
    monkeypatch.setenv("ATLAS_EMU_BACKEND", "npu")
    assert emulator.run(OPERATOR, grad_output=x, self=-x, target=x).backend == "npu"
    assert same(emulator.mse_loss_backward(x, -x, x), direct)
    out = np.zeros_like(x)
    tensors = [aclnn.AclTensor.from_array(a) for a in (x, -x, x, out)]
    status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(*tensors[:3], 1, tensors[3])
    assert (status, size) == (0, 512)
    assert executor is not None
    with pytest.raises(emulator.AtlasError, match="predicts nothing"):
        executor.predict()
    assert aclnn.aclnnMseLossBackward(bytearray(size), size, executor) == 0
    assert same(out, direct)
    assert aclnn.aclnnMseLossBackward(bytearray(size), size, executor) == aclnn.ACLNN_ERR_INNER


def test_a_repeatable_executor_runs_on_the_contents_of_its_time() -> None:
    x, out = wild((4, 8), np.float32, 1), np.zeros((4, 8), np.float32)
    tensors = [aclnn.AclTensor.from_array(a) for a in (x, x, np.zeros_like(x), out)]
    status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(
        *tensors[:3], 0, tensors[3], backend="npu"
    )
    assert (status, aclnn.aclSetAclOpExecutorRepeatable(executor)) == (0, 0)
    for seed in (2, 3):
        x[...] = wild(x.shape, np.float32, seed)
        assert aclnn.aclnnMseLossBackward(bytearray(size), size, executor) == 0
        assert same(out, emulator.mse_loss_backward(x, x, np.zeros_like(x), reduction="none"))
    assert aclnn.aclDestroyAclOpExecutor(executor) == 0
    assert aclnn.aclDestroyAclOpExecutor(executor) == aclnn.ACLNN_ERR_INNER


@pytest.mark.slow
@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend310P3"])
def test_every_two_phase_call_has_the_emulated_status_text_workspace_and_bits(root: Path, soc: str) -> None:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("npu_calls.py")), soc],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASCEND_HOME_PATH": str(root), "ATLAS_EMU_SOC": soc, "ATLAS_EMU_DEBUG": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["differ"] == []
    assert found["succeeded"] > found["made"] // 3 > 100
    # Beside refusals, and that a thread has no context yet, nothing is told: no leak, no overwritten memory.
    refusal = re.compile(r"atlas-emu: (107002|161002|561103): ")
    assert [line for line in done.stderr.splitlines() if not refusal.match(line)] == []


def test_nothing_is_freed_while_it_may_run_and_all_in_reverse_order(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real = Libraries.status

    def status(self: Libraries, name: str, *given: Any) -> int:
        calls.append(name)
        # The event behind the first timed launch, which is running by then.
        fails = name == "aclrtRecordEvent" and calls.count(name) == 2
        return 507000 if fails else real(self, name, *given)

    monkeypatch.setattr(Libraries, "status", status)
    x = wild((4,), np.float32, 1)
    with pytest.raises(NpuError) as failed:
        emulator.run(OPERATOR, grad_output=x, self=x, target=x, l2="hot", backend=Npu(warm_up=0, repeats=1))
    assert failed.value.function == "aclrtRecordEvent"
    assert not hasattr(failed.value, "__notes__")
    after = calls[len(calls) - calls[::-1].index("aclrtRecordEvent") :]
    assert after == [
        "aclrtSynchronizeStream",
        "aclrtDestroyStream",
        *["aclrtDestroyEvent"] * 2,
        "aclrtFree",  # the workspace
        *["aclDestroyTensor"] * 4,
        *["aclrtFree"] * 2,  # the inputs are one piece of memory, out is another
    ]

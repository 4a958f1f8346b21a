"""The life of an executor, what phase 2 refuses, and the messages of a thread."""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import pytest
from aclnn_oracle import A2, TRAINING, expected, first, message, prepared, same, second, values

from emulator import aclnn
from emulator.aclnn import AclTensor, aclnnMseLossBackward
from emulator.aclnn.codes import DTYPES, dtype_text
from socs.errors import AtlasError


def tensors(shape: Any = (4, 3)) -> list[AclTensor]:
    return [AclTensor.from_array(values(shape, "float32", seed, wild=0)) for seed in range(4)]


def executor_of(made: list[AclTensor], **named: Any) -> aclnn.AclOpExecutor:
    return prepared(*made[:3], 1, made[3], **named)


def wanted(made: list[AclTensor]) -> Any:
    return expected(*(t.to_numpy() for t in made[:3]), 1)


def test_an_executor_is_used_up_by_phase_2() -> None:
    made = tensors()
    executor = executor_of(made)
    assert second(executor) == 0
    made[3].to_numpy()[...] = 7
    assert second(executor) == 561000
    assert "use after free" in message()
    assert (made[3].to_numpy() == 7).all()


@pytest.mark.parametrize("shape", [(4, 3), (0, 3)])
def test_an_unknown_state_of_l2_is_refused_and_the_choices_are_named(shape: tuple[int, int]) -> None:
    executor = executor_of(tensors(shape))
    with pytest.raises(AtlasError, match="l2 = 'warm': must be cold or hot or dirty"):
        executor.predict("warm")


def test_an_executor_is_used_up_by_a_phase_2_that_fails() -> None:
    made = tensors()
    executor = executor_of(made)
    assert aclnnMseLossBackward(None, 512, executor) == 161001
    assert message() == "workspace is nullptr."
    assert second(executor) == 561000


def test_a_repeatable_executor_reads_its_memory_anew_each_time() -> None:
    made = tensors()
    executor = executor_of(made)
    assert aclnn.aclSetAclOpExecutorRepeatable(executor) == 0
    for seed in range(3):
        made[0].to_numpy()[...] = values((4, 3), "float32", 100 + seed)
        assert second(executor) == 0
        same(made[3].to_numpy(), wanted(made))
    assert aclnn.aclDestroyAclOpExecutor(executor) == 0
    assert second(executor) == 561000
    assert aclnn.aclDestroyAclOpExecutor(executor) == 561000


def test_an_executor_that_is_used_up_cannot_be_made_repeatable_or_destroyed() -> None:
    executor = executor_of(tensors())
    assert second(executor) == 0
    assert aclnn.aclSetAclOpExecutorRepeatable(executor) == 561000
    assert aclnn.aclDestroyAclOpExecutor(executor) == 561000


def test_an_executor_that_is_destroyed_never_runs() -> None:
    executor = executor_of(tensors())
    assert aclnn.aclDestroyAclOpExecutor(executor) == 0
    assert second(executor) == 561000


def test_null_executors_have_their_statuses() -> None:
    assert aclnnMseLossBackward(None, 0, None) == 161001
    assert message() == "executor is nullptr."
    assert aclnn.aclSetAclOpExecutorRepeatable(None) == 561103
    assert message() == "executor is nullptr."
    assert aclnn.aclDestroyAclOpExecutor(None) == 561103
    with pytest.raises(AtlasError, match="int, no AclOpExecutor"):
        aclnnMseLossBackward(None, 0, 12)  # type: ignore[arg-type]


@pytest.mark.parametrize("workspace", [bytearray(512), bytes(512), np.zeros(512, np.uint8), 0x7F0000000000])
def test_memory_and_addresses_are_workspaces(workspace: Any) -> None:
    made = tensors()
    assert aclnnMseLossBackward(workspace, 512, executor_of(made)) == 0
    same(made[3].to_numpy(), wanted(made))


@pytest.mark.parametrize("null", [None, 0, np.int64(0)])
def test_a_null_workspace_is_refused_if_its_size_is_not_0(null: Any) -> None:
    assert aclnnMseLossBackward(null, 1, executor_of(tensors())) == 161001
    assert message() == "workspace is nullptr."
    assert aclnnMseLossBackward(null, 0, executor_of(tensors(), soc=TRAINING)) == 0


@pytest.mark.parametrize("size", [None, -1, "512", 1.5])
def test_a_size_that_is_none_is_refused(size: Any) -> None:
    assert aclnnMseLossBackward(1, size, executor_of(tensors())) == 361001


def test_a_workspace_that_only_the_kernel_declares_may_be_left_out() -> None:
    assert aclnnMseLossBackward(None, 0, executor_of(tensors())) == 0


def test_a_workspace_too_small_for_the_intermediate_tensors_is_refused() -> None:
    made = tensors()
    made[1] = AclTensor(np.zeros(12, np.float32), (4, 3), "float32", strides=(1, 4))
    for workspace, size in ((None, 0), (1, 1023), (bytearray(1023), 1024), (object(), 1024)):
        assert aclnnMseLossBackward(workspace, size, executor_of(made)) == 361001
    executor = executor_of(made)
    assert executor.workspace_size == 1024
    assert aclnnMseLossBackward(bytearray(1024), 1024, executor) == 0


def test_what_is_no_stream_is_refused() -> None:
    assert second(executor_of(tensors()), stream=5) == 361001  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lost",
    [
        AclTensor(None, (4, 3), "float32"),
        AclTensor(np.zeros(11, np.float32), (4, 3), "float32"),
        AclTensor(np.zeros(12, np.float32), (4, 3), "float32", offset=1),
        AclTensor(np.zeros(12, np.float32), (4, 3), "float32", offset=-1),
        AclTensor(np.zeros(47, np.uint8), (4, 3), "float32"),
        AclTensor(np.zeros(9, np.float32), (4, 3), "float32", strides=(1, 4), storage_dims=(12,)),
    ],
)
@pytest.mark.parametrize("place", range(4))
def test_memory_that_is_missing_is_an_error_of_phase_2(lost: AclTensor, place: int) -> None:
    made = tensors()
    made[place] = lost
    executor = executor_of(made)
    before = None if place == 3 else made[3].to_numpy().copy()
    assert second(executor) == 361001
    assert message().startswith(("grad_output", "self", "target", "out")[place])
    if before is not None:
        np.testing.assert_array_equal(made[3].to_numpy(), before)


def test_read_only_memory_is_no_out() -> None:
    made = tensors()
    made[3] = AclTensor(bytes(48), (4, 3), "float32")
    assert second(executor_of(made)) == 361001
    assert "read-only" in message()


def test_more_memory_than_there_is_is_an_error_of_phase_2() -> None:
    huge = [AclTensor.empty((1 << 45,), "float16") for _ in range(4)]
    assert second(executor_of(huge)) == 361001


HEAD = (
    r"\[PID: \d+\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} "
    r"AclNN_(?:Parameter_Error\(EZ1001\)|Runtime_Error\(EZ9903\)|Inner_Error\(EZ9999\)): "
)


def test_messages_come_newest_first_under_a_head_and_are_cleared() -> None:
    a, b, c, d = tensors()
    assert aclnn.aclGetRecentErrMsg() is None
    first(a, b, c, 9, d)
    first(a, None, c, 0, d)
    aclnnMseLossBackward(None, 0, None)
    text = aclnn.aclGetRecentErrMsg()
    assert text is not None
    lines = text.split("\n")
    assert re.fullmatch(HEAD + r"executor is nullptr\.", lines[0])
    assert lines[1] == "TraceBack (most recent call last):"
    assert re.fullmatch(
        "        " + HEAD + r"Expected a proper Tensor but got null for argument t1\.", lines[2]
    )
    assert re.fullmatch("        " + HEAD + r"Expected reduction to be .* but got 9\.", lines[3])
    assert lines[4:] == [""]
    assert aclnn.aclGetRecentErrMsg() is None


def test_a_message_says_by_its_code_which_kind_of_error_it_is() -> None:
    made = tensors()
    executor_of(made)
    for status, code in ((161001, "EZ1001"), (361001, "EZ9903"), (561103, "EZ9999")):
        if status == 161001:
            assert second(None) == status
        elif status == 361001:
            assert second(executor_of(made), stream=5) == status  # type: ignore[arg-type]
        else:
            assert aclnn.aclDestroyAclOpExecutor(None) == status
        assert f"({code}): " in str(aclnn.aclGetRecentErrMsg())


def test_each_thread_has_messages_of_its_own() -> None:
    seen: list[str | None] = []

    def fail() -> None:
        seen.append(aclnn.aclGetRecentErrMsg())
        second(None)
        seen.append(aclnn.aclGetRecentErrMsg())

    a, b, c, d = tensors()
    first(a, b, c, 9, d)
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    assert seen[0] is None
    assert "executor is nullptr" in str(seen[1])
    assert "but got 9" in message()


def test_phase_2_may_run_in_another_thread() -> None:
    made = tensors()
    executor = executor_of(made)
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(second(executor)))
    thread.start()
    thread.join()
    assert statuses == [0]
    same(made[3].to_numpy(), wanted(made))


def test_many_threads_get_their_own_results() -> None:
    failures: list[object] = []

    def work(seed: int) -> None:
        try:
            for step in range(20):
                made = [
                    AclTensor.from_array(values((3 + seed, 2), "float32", seed * 99 + step + i))
                    for i in range(4)
                ]
                assert second(executor_of(made, soc=A2 if step % 2 else TRAINING)) == 0
                same(made[3].to_numpy(), wanted(made))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_messages_that_nobody_reads_do_not_pile_up() -> None:
    for _ in range(1000):
        second(None)
    assert str(aclnn.aclGetRecentErrMsg()).count("executor is nullptr") == 64


def test_calls_that_look_alike_share_one_plan_but_no_memory() -> None:
    made, others = tensors(), tensors()
    one, two = executor_of(made), executor_of(others)
    assert one.route is two.route
    others[0].to_numpy()[...] = 5
    assert second(one) == second(two) == 0
    same(made[3].to_numpy(), wanted(made))
    same(others[3].to_numpy(), wanted(others))


def test_more_calls_than_the_cache_holds_are_all_right() -> None:
    for n in range(1, 1100):
        view = AclTensor(None, (n,), "float32")
        assert executor_of([view] * 4).workspace_size == 512


def test_the_constants_are_those_of_acl() -> None:
    assert (aclnn.ACL_FLOAT, aclnn.ACL_FLOAT16, aclnn.ACL_BF16, aclnn.ACL_DOUBLE) == (0, 1, 27, 11)
    assert (aclnn.ACL_FORMAT_ND, aclnn.ACL_FORMAT_NCHW, aclnn.ACL_FORMAT_FRACTAL_NZ) == (2, 0, 29)
    assert (aclnn.ACLNN_ERR_PARAM_NULLPTR, aclnn.ACLNN_ERR_PARAM_INVALID) == (161001, 161002)
    assert (aclnn.ACLNN_ERR_RUNTIME_ERROR, aclnn.ACLNN_ERR_INNER_NULLPTR) == (361001, 561103)
    assert len(set(DTYPES.values())) == len(DTYPES)
    assert [dtype_text(n) for n in (0, 1, 3, 11, 27, 4711)] == [
        *("DT_FLOAT", "DT_FLOAT16", "DT_INT32", "DT_DOUBLE", "DT_BFLOAT16", "DT_UNDEFINED"),
    ]

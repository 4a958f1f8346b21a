"""The release of the operator library reaches every call that takes it."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
import socs
from kernel.compile import Computation
from kernel.mse_loss_backward import Reduction, plan
from socs.errors import AtlasError
from socs.isa import DType

KERNELS = {"newer": "mse_loss_grad_v2_950", "older": "mse_loss_grad_950"}


@pytest.mark.parametrize(("release", "kernel"), KERNELS.items())
def test_run_and_predict_take_the_kernel_of_the_release(release: str, kernel: str) -> None:
    ones = np.ones((4, 8), np.float32)
    predicted = emulator.predict(
        "mse_loss_backward", soc="Ascend950PR_9589", shape=(4, 8), dtype="float32", release=release
    )
    ran = emulator.run(
        "mse_loss_backward",
        soc="Ascend950PR_9589",
        release=release,
        grad_output=ones,
        self=ones,
        target=ones,
    )
    assert (predicted.kernel, ran.kernel) == (kernel, kernel)
    assert predicted.cycles == ran.cycles


def test_predict_refuses_an_unknown_release() -> None:
    with pytest.raises(AtlasError, match="release = 'oldest': must be newer or older"):
        emulator.predict("mse_loss_backward", shape=(4,), dtype="float32", release="oldest")


def test_a_buffer_num_that_changes_nothing_is_said_to() -> None:
    found = {}
    for buffers in (1, 2):
        found[buffers] = emulator.predict(
            "mse_loss_backward",
            soc="Ascend950PR_9589",
            shape=(4096,),
            dtype="float32",
            tiling={"buffer_num": buffers},
        )
    assert found[1].warnings == ()
    assert found[2].warnings == ("buffer-num = 2 changes nothing: mse_loss_grad_v2_950 has no queues",)
    assert found[1].cycles == found[2].cycles


def test_a_computation_refuses_an_output_that_it_would_write_beside() -> None:
    soc = socs.load("Ascend910B3")
    launch = plan(soc, shape=(4,), dtype=DType.FLOAT32, reduction=Reduction.SUM).launch
    assert launch is not None
    arrays = {name: np.ones(4, np.float32) for name in ("grad_output", "self", "target")}
    arrays["out"] = np.zeros(17, np.uint8)[1:].view(np.float32)
    with pytest.raises(AtlasError, match="out is not aligned"):
        Computation(launch, soc, "inf_nan").run(arrays, (4,))

"""Ten calls of the two-phase API and their statuses: ``python docs/examples/ten_calls.py``."""

from __future__ import annotations

import numpy as np

from emulator import aclnn


def call(
    title: str,
    grad: object,
    x: object,
    y: object,
    out: object,
    *,
    reduction: int = 1,
    soc: str = "Ascend910B3",
    release: str = "newer",
) -> None:
    """Both phases; prints the status of the last one that ran, the workspace and the launches."""
    tensors = [
        t if isinstance(t, aclnn.AclTensor | None) else aclnn.AclTensor.from_array(t)
        for t in (grad, x, y, out)
    ]
    status, size, executor = aclnn.aclnnMseLossBackwardGetWorkspaceSize(
        tensors[0], tensors[1], tensors[2], reduction, tensors[3], soc=soc, release=release
    )
    steps = "-"
    if executor is not None:
        steps = ", ".join(executor.steps) or "nothing"
        status = aclnn.aclnnMseLossBackward(bytearray(size) if size else None, size, executor)
    lines = (aclnn.aclGetRecentErrMsg() or "").splitlines()
    message = lines[0].partition("): ")[2] if lines else ""
    print(f"| {title} | {soc} | {status} | {size:,} | {steps} | {message} |")


def main() -> None:
    """The table of docs/aclnn.md."""
    f32, f16 = np.ones((4, 8), np.float32), np.ones((4, 8), np.float16)
    big = np.ones((8, 4), np.float32)
    print("| call | chip | status | workspace | launches | message |")
    print("|---|---|---:|---:|---|---|")
    call("float32, equal shapes", f32, f32, f32, f32.copy())
    call("scalar grad_output", np.ones((), np.float32), f32, f32, f32.copy())
    call("target transposed, out float16", f32, f32, big.T, np.zeros((4, 8), np.float16))
    call("out a view", f16, f16, f16, np.zeros((4, 16), np.float16)[:, ::2], soc="Ascend310P3")
    call("the older release", f32, f32, f32, f32.copy(), soc="Ascend950PR_9589", release="older")
    call("empty", *(np.ones((0, 8), np.float32) for _ in range(4)))
    call("target is null", f32, f32, None, f32.copy())
    bf16 = [aclnn.AclTensor.empty((4, 8), "bfloat16") for _ in range(4)]
    call("bfloat16", *bf16, soc="Ascend310P3")
    call("reduction 3", f32, f32, f32, f32.copy(), reduction=3)
    call("out of another shape", f32, f32, f32, big.copy())


if __name__ == "__main__":
    main()

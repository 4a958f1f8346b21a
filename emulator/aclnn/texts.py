"""The texts of messages, with ``{}`` where a value goes; the C libraries are generated with the same ones.

Facts: opbase's and ops-nn's checking macros; not verified on hardware. Texts of 361001, 561000 and 561103 are
this project's own.
"""

from __future__ import annotations

NULL_TENSOR = "Expected a proper Tensor but got null for argument t{}."
SAME_DTYPE = "Expected both tensors to have same dtype, but found {} {} and self {}."
DTYPE_LIST = "Tensor {} not implemented for {}, should be in dtype support list [{}]."
REDUCTION = "Expected reduction to be between 0 and 2, but got {}."
RANK = "The {} tensor cannot be larger than {} dimensions."
BROADCAST_GRAD_OUTPUT = "The size of tensor gradOutput {} must match the size of tensor self {}."
BROADCAST_TARGET = "The size of tensor target {} must match the size {}."
OUT_SHAPE = "Expected tensor for out to have same size as {}, but got {}."

BUILD = "the operator cannot be built: {}"
NEGATIVE_DIM = "{} has a dimension of {}"
TOO_LARGE = "{} has {} elements, more bytes than an int64 holds"
INVALID_VIEW = "{} is not a valid view: {}"
LEAVES_STORAGE = "its elements {} to {} leave a storage of {}"
TOO_MUCH_WORKSPACE = "a workspace of {} bytes is more than an int64 holds"
ND_ALONE = "the tiling of {} on {} takes format ND alone"
NO_KERNEL = "no kernel of {} for {} on {}"

EXECUTOR_NULL = "executor is nullptr."
EXECUTOR_USED = "the executor was used up: a use after free on the chip"
EXECUTOR_FREED = "the executor was freed already"
RESULT_NULL = "The workspaceSize or executor is nullptr."
WORKSPACE_NULL = "workspace is nullptr."
WORKSPACE_SMALL = "a workspace of {} bytes is too small: phase 1 asked for {}"

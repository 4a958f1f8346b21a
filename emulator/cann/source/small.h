/* Helpers of operators that need no route: one launch, no workspace. */
#ifndef ATLAS_EMU_SMALL_H
#define ATLAS_EMU_SMALL_H

#include "loops.h"
#include "nn.h"
#include "steps.h"

int atlas_type_width(int type);
/* The checks that every phase 1 begins with: result pointers, then tensors that are none. */
aclnnStatus atlas_phase_1_begin(const aclTensor *const *tensors, int count, const char *const *names,
                                uint64_t *workspaceSize, aclOpExecutor **executor);
/* Pin the memory that a view reaches: 0, or the device's error with text. */
int atlas_hold(const atlas_view *view, int width, const char *op, const char *name, const atlas_chip *chip,
               atlas_block **block, char *text);
/* Log the launch of these kernels and enqueue it; the task is released where that fails. */
int atlas_launch_small(atlas_task *task, const aclOpExecutor *executor, int tensors, const char *const *names,
                       const atlas_steps *steps, aclrtStream stream);
/* A scalar as a double and, cut, as an int64; false where it is no real number. */
bool atlas_scalar_number(const atlas_scalar *scalar, double *real, int64_t *whole);
/* 0, or the refusal of a dtype that the chip's kernels of floating numbers do not take. */
int atlas_check_type(const atlas_chip *chip, const char *name, const aclTensor *tensor);

#endif

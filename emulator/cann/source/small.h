/* Helpers of operators that need no route: one launch, no workspace. */
#ifndef ATLAS_EMU_SMALL_H
#define ATLAS_EMU_SMALL_H

#include "loops.h"
#include "nn.h"

int atlas_type_width(int type);
/* The checks that every phase 1 begins with: result pointers, then tensors that are none. */
aclnnStatus atlas_phase_1_begin(const aclTensor *const *tensors, int count, const char *const *names,
                                uint64_t *workspaceSize, aclOpExecutor **executor);
/* Pin the memory that a view reaches: 0, or the device's error with text. */
int atlas_hold(const atlas_view *view, int width, const char *op, const char *name, const atlas_chip *chip,
               atlas_block **block, char *text);
/* Log the launch of one kernel and enqueue it; the task is released where that fails. */
int atlas_launch_small(atlas_task *task, const aclOpExecutor *executor, int tensors, const char *const *names,
                       aclrtStream stream);

#endif

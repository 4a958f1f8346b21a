/* The gradient of the mean squared error: gradOutput * (self - target) * 2, divided by self's elements for
   reduction 1. C and C++. */
#ifndef ATLAS_EMU_ACLNN_MSE_LOSS_BACKWARD_H
#define ATLAS_EMU_ACLNN_MSE_LOSS_BACKWARD_H

#include "aclnn/aclnn_base.h"
#include "aclnn_util.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Phase 1: checks, the workspace in bytes, and an executor. reduction: 0 none, 1 mean, 2 sum. */
ACLNN_API aclnnStatus aclnnMseLossBackwardGetWorkspaceSize(const aclTensor *gradOutput, const aclTensor *self,
                                                           const aclTensor *target, int64_t reduction,
                                                           aclTensor *out, uint64_t *workspaceSize,
                                                           aclOpExecutor **executor);
/* Phase 2: puts the work on the stream, and frees the executor unless it is repeatable. */
ACLNN_API aclnnStatus aclnnMseLossBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                           aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif

/* What all operators share. */
#ifndef ATLAS_EMU_OPERATOR_H
#define ATLAS_EMU_OPERATOR_H

#include "loops.h"
#include "nn.h"

/* Phase 2: checks, the launch, and the end of an executor that is not repeatable. */
aclnnStatus atlas_phase_2(const char *op, void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                          aclrtStream stream);
/* 0 and the executor given out, or the reason against it; then it is freed. */
aclnnStatus atlas_phase_1_done(aclnnStatus status, aclOpExecutor *mine, uint64_t *workspaceSize,
                               aclOpExecutor **executor);
/* A tensor as an executor keeps it; its rank is at most MOST_RANK. */
void atlas_keep(atlas_view *view, const aclTensor *tensor);
/* The atlas_type of an aclDataType, -1 for any other. */
int atlas_type_of(int dtype);

#endif

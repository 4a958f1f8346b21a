/* See operator.h. */
#include "operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtypes.h"

int atlas_type_of(int dtype)
{
    return dtype == ACL_FLOAT ? TYPE_FLOAT32 : dtype == ACL_FLOAT16 ? TYPE_FLOAT16 : dtype == ACL_BF16 ? TYPE_BFLOAT16 : -1;
}

void atlas_keep(atlas_view *view, const aclTensor *t)
{
    view->rank = (int)t->rank;
    view->offset = t->offset;
    view->dtype = t->dtype;
    view->data = t->data;
    bool private = atlas_format_is_private(t->format);
    int64_t step = 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        view->view[i] = t->view[i];
        /* Of a private format the elements are read as they lie. */
        view->strides[i] = private ? step : t->strides[i];
        step *= t->view[i];
    }
}

aclnnStatus atlas_phase_1_done(aclnnStatus status, aclOpExecutor *mine, uint64_t *workspaceSize,
                               aclOpExecutor **executor)
{
    if (status == 0 && !atlas_handle_add(HANDLE_EXECUTOR, mine))
        status = atlas_nn_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "the host has no memory left for an executor.");
    if (status != 0) {
        free(mine);
        return status;
    }
    *workspaceSize = mine->workspace_bytes;
    *executor = mine;
    return 0;
}

aclnnStatus atlas_phase_2(const char *op, void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                          aclrtStream stream)
{
    if (executor == NULL)
        return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, TEXT_EXECUTOR_NULL);
    if (!atlas_handle_has(HANDLE_EXECUTOR, executor))
        return atlas_nn_fail(ACLNN_ERR_INNER, TEXT_EXECUTOR_USED);
    if (strcmp(executor->op, op) != 0)
        return atlas_nn_fail(ACLNN_ERR_INNER, "the executor is one of %s.", executor->op);
    bool ours = !executor->repeatable;
    if (ours && !atlas_handle_remove(HANDLE_EXECUTOR, executor))
        return atlas_nn_fail(ACLNN_ERR_INNER, TEXT_EXECUTOR_USED);
    int status = 0, saturates = 0;
    if (workspaceSize > 0 && workspace == NULL)
        status = atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, TEXT_WORKSPACE_NULL);
    else if ((saturates = atlas_stream_saturates(stream)) < 0)
        status = atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "stream %p cannot take the launch.", stream);
    else if (executor->uses_workspace && workspaceSize < executor->workspace_bytes) {
        char given[24], wanted[24];
        snprintf(given, sizeof given, "%llu", (unsigned long long)workspaceSize);
        snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)executor->workspace_bytes);
        status = atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, TEXT_WORKSPACE_SMALL, given, wanted);
    }
    if (status == 0 && atlas_debugging() && workspaceSize > 0) {
        atlas_block *block;
        if (atlas_pin(workspace, workspaceSize, &block) == RANGE_OK)
            atlas_unpin(block);
        else
            atlas_debug("%s: workspace %p is not %llu bytes of device memory", op, workspace,
                        (unsigned long long)workspaceSize);
    }
    if (status == 0 && !executor->empty)
        status = executor->start(executor, stream, saturates);
    if (ours)
        free(executor);
    return status;
}

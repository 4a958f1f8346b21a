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

/* The workspace has to be there until the launch runs. */
typedef struct {
    atlas_task task;
    const char *op;
    void *workspace;
    size_t bytes;
} workspace_check;

static int run_check(atlas_task *task, char *text)
{
    const workspace_check *c = (const workspace_check *)task;
    atlas_block *block;
    if (atlas_pin(c->workspace, c->bytes, &block) == RANGE_OK) {
        atlas_unpin(block);
        return 0;
    }
    snprintf(text, ATLAS_TEXT, "%s: the workspace at %p was freed before the launch ran: synchronise first", c->op,
             c->workspace);
    int arch = atlas_soc()->npu_arch;
    return arch == 2201 || arch == 3510 ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION : ACL_ERROR_RT_AICORE_EXCEPTION;
}

static void release_check(atlas_task *task)
{
    free(task);
}

static int check_workspace(const aclOpExecutor *executor, void *workspace, aclrtStream stream)
{
    size_t bytes = (size_t)executor->workspace_bytes;
    atlas_block *block;
    if (atlas_pin(workspace, bytes, &block) != RANGE_OK)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "workspace %p is not %zu bytes of device memory.", workspace,
                             bytes);
    atlas_unpin(block);
    workspace_check *c = malloc(sizeof *c);
    if (c == NULL)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the host has no memory left for a launch.");
    *c = (workspace_check){
        .task = {.run = run_check, .release = release_check}, .op = executor->op, .workspace = workspace, .bytes = bytes};
    int status = atlas_enqueue(stream, &c->task);
    if (status == 0)
        return 0;
    free(c);
    return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the launch was refused with %d.", status);
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
    if (status == 0 && atlas_debugging() && workspaceSize > 0 && !executor->uses_workspace) {
        atlas_block *block;
        if (atlas_pin(workspace, workspaceSize, &block) == RANGE_OK)
            atlas_unpin(block);
        else
            atlas_debug("%s: workspace %p is not %llu bytes of device memory", op, workspace,
                        (unsigned long long)workspaceSize);
    }
    if (status == 0 && !executor->empty && executor->uses_workspace)
        status = check_workspace(executor, workspace, stream);
    if (status == 0 && !executor->empty)
        status = executor->start(executor, stream, saturates);
    if (ours)
        free(executor);
    return status;
}

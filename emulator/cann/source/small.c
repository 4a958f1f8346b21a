/* See small.h. */
#include "small.h"

#include <inttypes.h>
#include <stdio.h>

#include "compute.h"

int atlas_type_width(int type)
{
    return type == TYPE_FLOAT32 ? 4 : 2;
}

aclnnStatus atlas_phase_1_begin(const aclTensor *const *tensors, int count, const char *const *names,
                                uint64_t *workspaceSize, aclOpExecutor **executor)
{
    if (workspaceSize == NULL || executor == NULL)
        return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, TEXT_RESULT_NULL);
    *workspaceSize = 0;
    *executor = NULL;
    if (atlas_soc() == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER, "ATLAS_EMU_SOC names no chip of this build.");
    for (int i = 0; i < count; i++)
        if (tensors[i] == NULL)
            return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "Expected a proper Tensor but got null for argument %s.",
                                 names[i]);
    for (int i = 0; i < count; i++)
        if (!atlas_tensor_alive(tensors[i]))
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "%s is no aclTensor, or was destroyed.", names[i]);
    return 0;
}

int atlas_hold(const atlas_view *view, int width, const char *op, const char *name, const atlas_chip *chip,
               atlas_block **block, char *text)
{
    const void *first;
    size_t bytes;
    atlas_extent(view, width, &first, &bytes);
    if (view->data != NULL && atlas_pin(first, bytes, block) == RANGE_OK)
        return 0;
    snprintf(text, ATLAS_TEXT, "%s: %s, %zu bytes at %p, is not all in device memory", op, name, bytes, first);
    return chip->npu_arch == 2201 || chip->npu_arch == 3510 ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION
                                                            : ACL_ERROR_RT_AICORE_EXCEPTION;
}

int atlas_launch_small(atlas_task *task, const aclOpExecutor *executor, int tensors, const char *const *names,
                       aclrtStream stream)
{
    if (atlas_logging()) {
        char line[3000];
        size_t used = (size_t)snprintf(line, sizeof line,
                                       "{\"launch\": %llu, \"stream\": %llu, \"host_us\": %.3f, \"operator\": \"%s\", \"soc\": \"%s\", "
                                       "\"steps\": [], \"tensors\": {",
                                       (unsigned long long)atlas_next_launch(),
                                       (unsigned long long)atlas_stream_number(stream), atlas_host_us(), executor->op,
                                       atlas_soc()->name);
        for (int t = 0; t < tensors; t++) {
            const atlas_view *v = &executor->views[t];
            used += (size_t)snprintf(line + used, sizeof line - used, "%s\"%s\": {\"dtype\": \"%s\", \"shape\": [",
                                     t ? ", " : "", names[t], atlas_dtype_text(v->dtype));
            for (int i = 0; i < v->rank; i++)
                used += (size_t)snprintf(line + used, sizeof line - used, "%s%" PRId64, i ? "," : "", v->view[i]);
            used += (size_t)snprintf(line + used, sizeof line - used, "]}");
        }
        snprintf(line + used, sizeof line - used, "}}\n");
        atlas_log_line(line);
    }
    task->call = executor->op;
    int status = atlas_enqueue(stream, task);
    if (status == 0)
        return 0;
    task->release(task);
    return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the launch was refused with %d.", status);
}

/* See small.h. */
#include "small.h"

#include <stdio.h>
#include <string.h>

#include "compute.h"
#include "operator.h"

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
                       const atlas_steps *steps, aclrtStream stream)
{
    task->device_us = atlas_note_launch(executor, tensors, names, steps, stream);
    task->call = executor->op;
    int status = atlas_enqueue(stream, task);
    if (status == 0)
        return 0;
    task->release(task);
    return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the launch was refused with %d.", status);
}

bool atlas_scalar_number(const atlas_scalar *scalar, double *real, int64_t *whole)
{
    float single;
    int32_t word;
    uint16_t half;
    uint32_t bits;
    switch (scalar->dtype) {
    case ACL_FLOAT:
        memcpy(&single, scalar->bytes, sizeof single);
        *real = single;
        break;
    case ACL_FLOAT16:
        memcpy(&half, scalar->bytes, sizeof half);
        *real = aclFloat16ToFloat(half);
        break;
    case ACL_BF16:
        memcpy(&half, scalar->bytes, sizeof half);
        bits = (uint32_t)half << 16;
        memcpy(&single, &bits, sizeof single);
        *real = single;
        break;
    case ACL_DOUBLE:
        memcpy(real, scalar->bytes, sizeof *real);
        break;
    case ACL_INT64:
        memcpy(whole, scalar->bytes, sizeof *whole);
        *real = (double)*whole;
        return true;
    case ACL_INT32:
        memcpy(&word, scalar->bytes, sizeof word);
        *real = (double)(*whole = word);
        return true;
    case ACL_BOOL:
        *real = (double)(*whole = scalar->bytes[0] != 0);
        return true;
    default:
        return false;
    }
    *whole = *real > -0x1p63 && *real < 0x1p63 ? (int64_t)*real : 0;
    return true;
}

int atlas_check_type(const atlas_chip *chip, const char *name, const aclTensor *tensor)
{
    int type = atlas_type_of(tensor->dtype);
    if (type >= 0 && (chip->types >> type & 1))
        return 0;
    static const int dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    char listed[128] = "";
    for (int k = 0; k < TYPES; k++)
        if (chip->types >> k & 1) {
            strcat(listed, atlas_dtype_text(dtypes[k]));
            strcat(listed, ",");
        }
    return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, TEXT_DTYPE_LIST, name, atlas_dtype_text(tensor->dtype), listed);
}

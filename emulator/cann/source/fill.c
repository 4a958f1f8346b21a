/* aclnnInplaceFillScalar, aclnnInplaceZero and aclnnInplaceOne: one value everywhere in a view. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "dtypes.h"
#include "operator.h"
#include "small.h"
#include "views.h"

#pragma GCC visibility push(default)
#include "aclnnop/aclnn_fill_scalar.h"
#pragma GCC visibility pop

static const char *const NAMES[] = {"selfRef"};

typedef struct {
    aclOpExecutor base;
    int width;
    unsigned char pattern[16];
    double value; /* rounded at the launch, by the mode of the stream */
    int type;     /* atlas_type, or -1: the pattern is ready */
    const char *kernel;
    bool view_copies;
} fill_executor;

typedef struct {
    atlas_task task;
    fill_executor call;
    bool saturates;
} fill_launch;

static int run(atlas_task *task, char *text)
{
    fill_launch *l = (fill_launch *)task;
    fill_executor *e = &l->call;
    const atlas_chip *chip = atlas_soc();
    atlas_block *block;
    atlas_view *v = &e->base.views[0];
    int status = atlas_hold(v, e->width, e->base.op, NAMES[0], chip, &block, text);
    if (status != 0)
        return status;
    if (e->type >= 0) {
        float value = (float)e->value;
        void *result = NULL, *error = NULL;
        memcpy(e->pattern, &value, sizeof value);
        if (e->type != TYPE_FLOAT32)
            status = atlas_numerics_table[chip->numerics].cast[TYPE_FLOAT32][e->type][l->saturates](
                &result, &error, 0, 1, ARGUMENTS_1D(&value, (int64_t)1, 4), ARGUMENTS_1D(e->pattern, (int64_t)1, 2));
    }
    int64_t count = atlas_elements(v->view, v->rank);
    char *memory = malloc((size_t)count * (size_t)e->width);
    if (memory == NULL) {
        snprintf(text, ATLAS_TEXT, "%s: the host has no memory left", e->base.op);
        status = ACL_ERROR_RT_MEMORY_ALLOCATION;
    } else {
        for (int64_t i = 0; i < count; i++)
            memcpy(memory + i * e->width, e->pattern, (size_t)e->width);
        atlas_copy_view(v, v->view, v->rank, e->width, memory, false);
    }
    free(memory);
    atlas_unpin(block);
    return status;
}

static void release(atlas_task *task)
{
    free(task);
}

static int start(const aclOpExecutor *executor, aclrtStream stream, bool saturates)
{
    fill_launch *l = malloc(sizeof *l);
    if (l == NULL)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the host has no memory left for a launch.");
    l->call = *(const fill_executor *)executor;
    l->saturates = saturates;
    l->task = (atlas_task){.run = run, .release = release};
    atlas_extent(&l->call.base.views[0], l->call.width, &l->task.writes, &l->task.write_bytes);
    atlas_steps steps = {.named = 0};
    atlas_view *v = &l->call.base.views[0];
    atlas_step(&steps, l->call.kernel, "fill", v->dtype, &(atlas_operand){v->dtype, v->rank, v->view, NULL}, 1);
    if (l->call.view_copies)
        atlas_step_view_copy(&steps, v);
    return atlas_launch_small(&l->task, executor, 1, NAMES, &steps, stream);
}

/* scalar NULL: all bits 0 */
static int prepare(fill_executor *e, int dtype, const atlas_scalar *scalar)
{
    int64_t whole = 0;
    e->width = (int)atlas_dtype_bytes(dtype);
    e->type = -1;
    if (scalar == NULL)
        return e->width > 0 ? 0 : -1;
    if (!atlas_scalar_number(scalar, &e->value, &whole))
        return -1;
    switch (dtype) {
    case ACL_FLOAT:
    case ACL_FLOAT16:
    case ACL_BF16:
        e->type = atlas_type_of(dtype);
        return atlas_soc()->types >> e->type & 1 ? 0 : -1;
    case ACL_DOUBLE:
        memcpy(e->pattern, &e->value, sizeof e->value);
        return 0;
    case ACL_BOOL:
        e->pattern[0] = e->value != 0;
        return 0;
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_INT16:
    case ACL_INT32:
    case ACL_INT64:
        for (int i = 0; i < e->width; i++)
            e->pattern[i] = (unsigned char)((uint64_t)whole >> (8 * i));
        return 0;
    default:
        return -1;
    }
}

static aclnnStatus phase_1(const char *op, const char *kernel, aclTensor *selfRef, const atlas_scalar *scalar,
                           uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const aclTensor *const t[] = {selfRef};
    aclnnStatus status = atlas_phase_1_begin(t, 1, NAMES, workspaceSize, executor);
    if (status != 0)
        return status;
    if (selfRef->rank > MOST_RANK)
        return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, TEXT_RANK, NAMES[0], "8");
    fill_executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "the host has no memory left for an executor.");
    e->base.op = op;
    e->base.start = start;
    e->base.inputs = e->base.outputs = 1;
    e->kernel = kernel;
    e->view_copies = atlas_needs_view_copy(atlas_soc(), selfRef);
    atlas_keep(&e->base.views[0], selfRef);
    if (prepare(e, selfRef->dtype, scalar) != 0)
        status = atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "Tensor selfRef not implemented for %s.",
                               atlas_dtype_text(selfRef->dtype));
    e->base.empty = atlas_is_empty(selfRef);
    if (status == 0 && !e->base.empty && (status = atlas_check_size(NAMES[0], selfRef)) == 0)
        status = atlas_check_strides(NAMES[0], selfRef);
    return atlas_phase_1_done(status, &e->base, workspaceSize, executor);
}

#define PHASE_2(name)                                                                                         \
    aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)    \
    {                                                                                                         \
        return atlas_phase_2(#name, workspace, workspaceSize, executor, stream);                              \
    }

aclnnStatus aclnnInplaceFillScalarGetWorkspaceSize(aclTensor *selfRef, const aclScalar *value,
                                                   uint64_t *workspaceSize, aclOpExecutor **executor)
{
    atlas_scalar scalar;
    if (!atlas_scalar_of(value, &scalar))
        return atlas_nn_fail(value == NULL ? ACLNN_ERR_PARAM_NULLPTR : ACLNN_ERR_PARAM_INVALID,
                             "value is no aclScalar, or was destroyed.");
    return phase_1("aclnnInplaceFillScalar", "Fill", selfRef, &scalar, workspaceSize, executor);
}

aclnnStatus aclnnInplaceZeroGetWorkspaceSize(aclTensor *selfRef, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    return phase_1("aclnnInplaceZero", "ZerosLike", selfRef, NULL, workspaceSize, executor);
}

aclnnStatus aclnnInplaceOneGetWorkspaceSize(aclTensor *selfRef, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    static const atlas_scalar one = {.dtype = ACL_BOOL, .bytes = {1}};
    return phase_1("aclnnInplaceOne", "OnesLike", selfRef, &one, workspaceSize, executor);
}

PHASE_2(aclnnInplaceFillScalar)
PHASE_2(aclnnInplaceZero)
PHASE_2(aclnnInplaceOne)

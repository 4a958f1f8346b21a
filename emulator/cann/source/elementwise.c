/* See elementwise.h. Every element is computed from the values before the launch, also where out shares memory
   with an input; where elements of out share memory with each other, one of the results stays. */
#include "elementwise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "dtypes.h"
#include "floats.h"

typedef struct {
    aclOpExecutor base; /* x, y, out; without y: x, out; in place the last is x again, and not told */
    atlas_call call;    /* its tensors are not looked at again */
    const atlas_chip *chip;
    int given;          /* input tensors: 1 or 2 */
    bool copies[2], view_copies;
} element_executor;

typedef struct {
    atlas_task task;
    element_executor executor;
    bool saturates;
} element_launch;

static bool overlaps(const atlas_view *a, int a_width, const atlas_view *b, int b_width)
{
    const void *first[2];
    size_t bytes[2];
    atlas_extent(a, a_width, &first[0], &bytes[0]);
    atlas_extent(b, b_width, &first[1], &bytes[1]);
    return (uintptr_t)first[0] < (uintptr_t)first[1] + bytes[1] && (uintptr_t)first[1] < (uintptr_t)first[0] + bytes[0];
}

static int compute(const element_executor *e, bool saturates)
{
    const atlas_call *c = &e->call;
    const atlas_view *views = e->base.views, *out = &views[e->given];
    atlas_floats w = {.numerics = &atlas_numerics_table[e->chip->numerics], .saturates = saturates};
    int width = (int)atlas_dtype_bytes(out->dtype), out_type = atlas_type_of(out->dtype);
    int64_t count = atlas_elements(out->view, out->rank);
    const char *operands[2] = {NULL}, *result;
    int64_t y_step = 1;
    for (int t = 0; t < e->given; t++) {
        int type = c->type < 0 ? -1 : atlas_type_of(views[t].dtype), own = (int)atlas_dtype_bytes(views[t].dtype);
        bool single = t == 1 && atlas_elements(views[t].view, views[t].rank) == 1;
        /* Element i is read before it is written where both are the same memory. */
        bool same = atlas_origin(&views[t], own) == atlas_origin(out, width) && views[t].dtype == out->dtype;
        bool apart = !overlaps(&views[t], own, out, width);
        int64_t one[MOST_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        operands[t] = atlas_gather(&w, &views[t], single ? views[t].rank : out->rank, single ? one : out->view,
                                   own, !single && (apart || (same && c->pair != MOVES)));
        if (type >= 0 && (c->pair != MOVES || type != out_type))
            operands[t] = atlas_widened(&w, operands[t], type, single ? 1 : count);
        y_step = t == 1 && single ? 0 : y_step;
    }
    char *direct = atlas_is_consecutive(out, width) ? atlas_origin(out, width) : NULL;
    if (c->pair == MOVES) {
        result = operands[0];
    } else {
        bool scalar = e->given == 1;
        const char *y = scalar ? atlas_rounded(&w, c->scalar, c->scalar_type) : operands[1];
        y_step = scalar ? 0 : y_step;
        if (c->alpha != 1) {
            int64_t elements = y_step == 0 ? 1 : count;
            y = atlas_paired(&w, PAIR_MUL, y, atlas_rounded(&w, c->alpha, c->scalar_type), 0, elements, NULL);
            y = atlas_widened(&w, atlas_narrowed(&w, y, c->type, elements), c->type, elements);
        }
        bool straight = c->type == TYPE_FLOAT32 && out_type == TYPE_FLOAT32;
        result = atlas_paired(&w, c->pair, operands[0], y, y_step, count, straight ? direct : NULL);
    }
    int moved = c->pair == MOVES && c->type >= 0 && atlas_type_of(views[0].dtype) == out_type;
    if (c->type >= 0 && !moved) {
        if (c->type != out_type)
            result = atlas_widened(&w, atlas_narrowed(&w, result, c->type, count), c->type, count);
        result = atlas_narrowed(&w, result, out_type, count);
    }
    if (result != NULL && direct != NULL && result != direct)
        memcpy(direct, result, (size_t)count * (size_t)width);
    else if (result != NULL && direct == NULL)
        atlas_copy_view(out, out->view, out->rank, width, (char *)(uintptr_t)result, false);
    atlas_give_back(&w);
    return result == NULL;
}

static int run(atlas_task *task, char *text)
{
    element_launch *l = (element_launch *)task;
    const element_executor *e = &l->executor;
    atlas_block *blocks[3] = {NULL};
    int status = 0;
    for (int t = 0; t <= e->given && status == 0; t++) {
        const atlas_view *v = &e->base.views[t];
        status = atlas_hold(v, (int)atlas_dtype_bytes(v->dtype), e->call.op, e->call.names[t], e->chip, &blocks[t], text);
    }
    if (status == 0 && compute(e, l->saturates) != 0) {
        snprintf(text, ATLAS_TEXT, "%s: the host has no memory left", e->call.op);
        status = ACL_ERROR_RT_MEMORY_ALLOCATION;
    }
    for (int t = 0; t < 3; t++)
        if (blocks[t] != NULL)
            atlas_unpin(blocks[t]);
    return status;
}

static void release(atlas_task *task)
{
    free(task);
}

static const int DTYPES[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

/* The kernels of the call, in their order. */
static void describe(const element_executor *e, atlas_steps *s)
{
    const atlas_call *c = &e->call;
    const atlas_view *views = e->base.views, *out = &views[e->given];
    int kernel_dtype = c->type >= 0 ? DTYPES[c->type] : out->dtype, count = e->given;
    /* The register-based chips read a strided tensor in the kernel itself, in a way that is not modelled. */
    bool strided = c->pair != MOVES && e->chip->npu_arch == 3510 && (e->copies[0] || e->copies[1]);
    atlas_operand inputs[2], one = {kernel_dtype, 0, NULL, NULL};
    for (int t = 0; t < e->given; t++) {
        if (e->copies[t] && !strided)
            atlas_step_contiguous(s, c->names[t], &views[t]);
        inputs[t] = (atlas_operand){views[t].dtype, views[t].rank, views[t].view, NULL};
    }
    for (int t = 0; t < e->given; t++)
        if (c->casts_first && views[t].dtype != kernel_dtype) {
            atlas_step(s, "Cast", strided ? NULL : "cast", kernel_dtype, &inputs[t], 1);
            inputs[t].dtype = kernel_dtype;
        }
    if (c->pair != MOVES && count == 1)
        inputs[count++] = one;
    if (c->alpha != 1 && !c->fused) {
        const atlas_operand scaled[] = {inputs[1], one};
        atlas_step(s, "Mul", strided ? NULL : "mul", kernel_dtype, scaled, 2);
    }
    if (c->kernel != NULL)
        atlas_step(s, c->kernel, strided ? NULL : c->recorded, kernel_dtype, inputs,
                   c->recorded != NULL && strcmp(c->recorded, "muls") == 0 ? 1 : count);
    if (kernel_dtype != out->dtype)
        atlas_step(s, "Cast", "cast", out->dtype, &(atlas_operand){kernel_dtype, out->rank, out->view, NULL}, 1);
    if (e->view_copies)
        atlas_step_view_copy(s, out);
}

static int start(const aclOpExecutor *executor, aclrtStream stream, bool saturates)
{
    element_launch *l = malloc(sizeof *l);
    if (l == NULL)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the host has no memory left for a launch.");
    l->executor = *(const element_executor *)executor;
    l->saturates = saturates;
    l->task = (atlas_task){.run = run, .release = release};
    element_executor *e = &l->executor;
    bool in_place = e->base.first_output == 0;
    atlas_view *out = &e->base.views[e->given];
    if (in_place) /* its address may have been set anew */
        out->data = e->base.views[0].data;
    atlas_extent(out, (int)atlas_dtype_bytes(out->dtype), &l->task.writes, &l->task.write_bytes);
    atlas_steps steps = {.named = 0};
    if (atlas_logging() || atlas_predicting())
        describe(e, &steps);
    return atlas_launch_small(&l->task, &e->base, in_place ? e->given : e->given + 1, e->call.names, &steps, stream);
}

/* Of a tensor that is not empty: whether there are so many elements, and where they lie. */
static int check_view(const char *name, const aclTensor *t)
{
    int status = atlas_check_size(name, t);
    return status != 0 ? status : atlas_check_strides(name, t);
}

aclnnStatus atlas_build_elementwise(const atlas_call *call, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const aclTensor *const t[] = {call->x, call->y != NULL ? call->y : call->out, call->out};
    element_executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "the host has no memory left for an executor.");
    bool in_place = call->x == call->out;
    e->call = *call;
    e->chip = atlas_soc();
    e->given = call->y != NULL ? 2 : 1;
    e->base.op = call->op;
    e->base.start = start;
    e->base.inputs = e->given;
    e->base.first_output = in_place ? 0 : e->given;
    e->base.outputs = 1;
    int status = 0;
    for (int i = 0; i <= e->given; i++)
        e->base.empty |= atlas_is_empty(t[i]);
    for (int i = 0; i <= e->given && status == 0; i++) {
        if (!e->base.empty)
            status = check_view(call->names[i], t[i]);
        atlas_keep(&e->base.views[i], t[i]);
        if (i < e->given)
            e->copies[i] = !atlas_is_contiguous(t[i]);
    }
    e->view_copies = status == 0 && atlas_needs_view_copy(e->chip, call->out);
    return atlas_phase_1_done(status, &e->base, workspaceSize, executor);
}

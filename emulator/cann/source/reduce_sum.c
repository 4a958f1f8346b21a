/* aclnnReduceSum: sums over axes. Order and precision: kernel.reduce_sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "dtypes.h"
#include "elementwise.h"
#include "floats.h"

#pragma GCC visibility push(default)
#include "aclnnop/aclnn_reduce_sum.h"
#pragma GCC visibility pop

static const char *const NAMES[] = {"self", "out"};

#define REFUSE(...) return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, __VA_ARGS__)

typedef struct {
    aclOpExecutor base;
    const atlas_chip *chip;
    unsigned gone; /* bit per axis of self that is summed over */
    bool copies, view_copies;
} sum_executor;

typedef struct {
    atlas_task task;
    sum_executor executor;
    bool saturates;
} sum_launch;

static const char *sums(atlas_floats *f, const sum_executor *e, int64_t rows)
{
    const atlas_view *x = &e->base.views[0], *out = &e->base.views[1];
    int type = atlas_type_of(x->dtype), wanted = atlas_type_of(out->dtype);
    if (atlas_elements(x->view, x->rank) == 0) {
        char *zeros = atlas_borrow(f, rows, 4);
        if (zeros != NULL)
            memset(zeros, 0, (size_t)rows * 4);
        return atlas_narrowed(f, zeros, wanted, rows);
    }
    /* The axes that stay, then those that go. */
    atlas_view sorted = *x;
    int rank = 0;
    int64_t count = 1;
    for (unsigned going = 0; going < 2; going++)
        for (int i = 0; i < x->rank; i++)
            if ((e->gone >> i & 1) == going) {
                sorted.view[rank] = x->view[i];
                sorted.strides[rank++] = x->strides[i];
                count *= going ? x->view[i] : 1;
            }
    const char *values = atlas_gather(f, &sorted, rank, sorted.view, atlas_type_width(type), true);
    if (x->rank == 0 && type == wanted)
        return values;
    values = atlas_widened(f, values, type, rows * count);
    if (type != wanted || x->rank == 0)
        values = atlas_narrowed(f, values, wanted, rows * count);
    if (x->rank == 0)
        return values;
    if (type != wanted)
        values = atlas_widened(f, values, wanted, rows * count);
    return atlas_narrowed(f, atlas_summed(f, values, rows, count), wanted, rows);
}

static int run(atlas_task *task, char *text)
{
    sum_launch *l = (sum_launch *)task;
    const sum_executor *e = &l->executor;
    const atlas_view *x = &e->base.views[0], *out = &e->base.views[1];
    int width = atlas_type_width(atlas_type_of(out->dtype)), status = 0;
    atlas_block *blocks[2] = {NULL};
    atlas_floats floats = {.numerics = &atlas_numerics_table[e->chip->numerics], .saturates = l->saturates};
    if (atlas_elements(x->view, x->rank) > 0)
        status = atlas_hold(x, atlas_type_width(atlas_type_of(x->dtype)), e->base.op, NAMES[0], e->chip, &blocks[0], text);
    if (status == 0)
        status = atlas_hold(out, width, e->base.op, NAMES[1], e->chip, &blocks[1], text);
    if (status == 0) {
        const char *result = sums(&floats, e, atlas_elements(out->view, out->rank));
        if (result != NULL) {
            atlas_copy_view(out, out->view, out->rank, width, (char *)(uintptr_t)result, false);
        } else {
            snprintf(text, ATLAS_TEXT, "%s: the host has no memory left", e->base.op);
            status = ACL_ERROR_RT_MEMORY_ALLOCATION;
        }
    }
    atlas_give_back(&floats);
    for (int t = 0; t < 2; t++)
        if (blocks[t] != NULL)
            atlas_unpin(blocks[t]);
    return status;
}

static void release(atlas_task *task)
{
    free(task);
}

static void describe(const sum_executor *e, atlas_steps *s)
{
    const atlas_view *x = &e->base.views[0], *out = &e->base.views[1];
    atlas_operand input = {x->dtype, x->rank, x->view, NULL};
    if (atlas_elements(x->view, x->rank) == 0) {
        atlas_step(s, "Fill", "fill", out->dtype, &(atlas_operand){out->dtype, out->rank, out->view, NULL}, 1);
    } else {
        if (e->copies)
            atlas_step_contiguous(s, NAMES[0], x);
        if (x->dtype != out->dtype)
            atlas_step(s, "Cast", "cast", out->dtype, &input, 1);
        input.dtype = out->dtype;
        if (x->rank > 0)
            atlas_step(s, "ReduceSum", NULL, out->dtype, &input, 1);
        else if (s->named == 0 && !e->view_copies)
            atlas_step(s, "TensorMove", "copy", out->dtype, &input, 1);
    }
    if (e->view_copies)
        atlas_step_view_copy(s, out);
}

static int start(const aclOpExecutor *executor, aclrtStream stream, bool saturates)
{
    sum_launch *l = malloc(sizeof *l);
    if (l == NULL)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the host has no memory left for a launch.");
    l->executor = *(const sum_executor *)executor;
    l->saturates = saturates;
    l->task = (atlas_task){.run = run, .release = release};
    const atlas_view *out = &l->executor.base.views[1];
    atlas_extent(out, atlas_type_width(atlas_type_of(out->dtype)), &l->task.writes, &l->task.write_bytes);
    atlas_steps steps = {.named = 0};
    if (atlas_logging() || atlas_predicting())
        describe(&l->executor, &steps);
    return atlas_launch_small(&l->task, &l->executor.base, 2, NAMES, &steps, stream);
}

/* Which axes go; the shape that is left. */
static int check_dims(const aclTensor *self, const int64_t *dims, uint64_t count, bool keepDims, unsigned *gone,
                      int64_t *left, uint64_t *rank)
{
    int64_t axes = self->rank > 0 ? (int64_t)self->rank : 1;
    *gone = count == 0 ? ~0u : 0;
    for (uint64_t i = 0; i < count; i++) {
        if (dims[i] >= axes || dims[i] < -axes)
            REFUSE("Provided dim %s must be in the range of [%s, %s].", atlas_number(dims[i]).text,
                   atlas_number(-axes).text, atlas_number(axes - 1).text);
        int64_t axis = dims[i] < 0 ? dims[i] + axes : dims[i];
        if (*gone >> axis & 1)
            REFUSE("Dim %s appears multiple times in the list of dims.", atlas_number(axis).text);
        *gone |= 1u << axis;
    }
    *rank = 0;
    for (uint64_t i = 0; i < self->rank; i++)
        if (!(*gone >> i & 1))
            left[(*rank)++] = self->view[i];
        else if (keepDims)
            left[(*rank)++] = 1;
    return 0;
}

static int check(const aclTensor *self, int dtype, const aclTensor *out)
{
    int status = atlas_check_type(atlas_soc(), NAMES[0], self);
    if (status == 0)
        status = atlas_check_type(atlas_soc(), NAMES[1], out);
    if (status != 0)
        return status;
    if (dtype != out->dtype)
        REFUSE("Expected out to be of the dtype that is asked for, %s, but got %s.", atlas_dtype_text(dtype),
               atlas_dtype_text(out->dtype));
    if (self->rank > MOST_RANK)
        REFUSE(TEXT_RANK, NAMES[0], atlas_number(MOST_RANK).text);
    return 0;
}

aclnnStatus aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keepDims,
                                           aclDataType dtype, aclTensor *out, uint64_t *workspaceSize,
                                           aclOpExecutor **executor)
{
    const aclTensor *const t[] = {self, out};
    const int64_t *values = NULL;
    uint64_t count = 0, rank = 0;
    int64_t left[MOST_RANK];
    unsigned gone = 0;
    aclnnStatus status = atlas_phase_1_begin(t, 1, NAMES, workspaceSize, executor);
    if (status == 0 && dims == NULL)
        status = atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "Expected a proper Tensor but got null for argument %s.", "dims");
    if (status == 0 && !atlas_int_array(dims, &values, &count))
        REFUSE("dims is no aclIntArray, or was destroyed.");
    if (status == 0)
        status = atlas_phase_1_begin(&t[1], 1, &NAMES[1], workspaceSize, executor);
    if (status == 0)
        status = check(self, (int)dtype, out);
    if (status == 0)
        status = check_dims(self, values, count, keepDims, &gone, left, &rank);
    if (status != 0)
        return status;
    aclTensor wanted = {.rank = rank, .view = left};
    bool one = atlas_product(left, rank) == 1 && out->rank <= MOST_RANK && atlas_product(out->view, out->rank) == 1;
    if (!atlas_same_shape(out, &wanted) && !one)
        REFUSE("Expected tensor for out to have same size as %s, but got %s.", atlas_shape(left, rank).text,
               atlas_shape(out->view, out->rank).text);
    sum_executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "the host has no memory left for an executor.");
    e->base.op = "aclnnReduceSum";
    e->base.start = start;
    e->base.inputs = e->base.first_output = e->base.outputs = 1;
    e->base.empty = atlas_is_empty(out);
    e->chip = atlas_soc();
    e->gone = gone;
    if (!e->base.empty && !atlas_is_empty(self) && (status = atlas_check_size(NAMES[0], self)) == 0)
        status = atlas_check_strides(NAMES[0], self);
    if (!e->base.empty && status == 0 && (status = atlas_check_size(NAMES[1], out)) == 0)
        status = atlas_check_strides(NAMES[1], out);
    e->copies = status == 0 && !atlas_is_contiguous(self);
    e->view_copies = status == 0 && atlas_needs_view_copy(e->chip, out);
    for (int i = 0; i < 2; i++)
        atlas_keep(&e->base.views[i], t[i]);
    return atlas_phase_1_done(status, &e->base, workspaceSize, executor);
}

ATLAS_PHASE_2(aclnnReduceSum)

/* aclnnMseLoss: the squared differences, or their sum or mean.

   Of the real operator's range this takes inputs and an output of one dtype and, for the inputs, of one shape; the
   rest is refused. Sums: see kernel.reduce_sum. Of no elements, as op_host of the vendor's operator has it: nothing
   is done without a reduction, the mean is a NaN and the sum 0, by a fill. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "floats.h"
#include "operator.h"
#include "small.h"
#include "views.h"

#pragma GCC visibility push(default)
#include "aclnnop/aclnn_mse_loss.h"
#pragma GCC visibility pop

static const char *const NAMES[] = {"self", "target", "out"};

typedef struct {
    aclOpExecutor base;
    const atlas_chip *chip;
    int type;
    int64_t reduction, count;
} loss_executor;

typedef struct {
    atlas_task task;
    const atlas_chip *chip;
    loss_executor call;
    bool saturates;
} loss_launch;

/* Of no elements. The host makes the number, so that no overflow mode changes the NaN. */
static const char *filler(const loss_executor *e)
{
    static const uint32_t single = 0x7fc00000, zero = 0;
    static const uint16_t half = 0x7e00, brain = 0x7fc0;
    if (e->reduction != 1)
        return (const char *)&zero;
    return e->type == TYPE_FLOAT32   ? (const char *)&single
           : e->type == TYPE_FLOAT16 ? (const char *)&half
                                     : (const char *)&brain;
}

static const char *compute(atlas_floats *f, const loss_executor *e)
{
    const char *given[2];
    for (int t = 0; t < 2; t++) {
        const atlas_view *v = &e->base.views[t];
        given[t] = atlas_gather(f, v, v->rank, v->view, atlas_type_width(e->type), true);
        given[t] = atlas_widened(f, given[t], e->type, e->count);
    }
    char *squares = atlas_paired(f, PAIR_SUB, given[0], given[1], 1, e->count, NULL);
    squares = atlas_paired(f, PAIR_MUL, squares, squares, 1, e->count, squares);
    if (e->reduction == 0)
        return atlas_narrowed(f, squares, e->type, e->count);
    char *sum = atlas_summed(f, squares, 1, e->count);
    if (e->reduction == 1)
        sum = atlas_paired(f, PAIR_MUL, sum, atlas_rounded(f, 1.0f / (float)e->count, TYPE_FLOAT32), 0, 1, sum);
    return atlas_narrowed(f, sum, e->type, 1);
}

static int run(atlas_task *task, char *text)
{
    loss_launch *l = (loss_launch *)task;
    const loss_executor *e = &l->call;
    int width = atlas_type_width(e->type), first = e->count == 0 ? 2 : 0, status = 0;
    atlas_block *blocks[3] = {NULL};
    atlas_floats floats = {.numerics = &atlas_numerics_table[l->chip->numerics], .saturates = l->saturates};
    for (int t = first; t < 3 && status == 0; t++)
        status = atlas_hold(&e->base.views[t], width, "aclnnMseLoss", NAMES[t], l->chip, &blocks[t], text);
    if (status == 0) {
        const atlas_view *out = &e->base.views[2];
        const char *result = e->count == 0 ? filler(e) : compute(&floats, e);
        if (result != NULL) {
            atlas_copy_view(out, out->view, out->rank, width, (char *)(uintptr_t)result, false);
        } else {
            snprintf(text, ATLAS_TEXT, "aclnnMseLoss: the host has no memory left for intermediate tensors");
            status = ACL_ERROR_RT_MEMORY_ALLOCATION;
        }
    }
    atlas_give_back(&floats);
    for (int t = 0; t < 3; t++)
        if (blocks[t] != NULL)
            atlas_unpin(blocks[t]);
    return status;
}

static void release(atlas_task *task)
{
    free(task);
}

static int start(const aclOpExecutor *executor, aclrtStream stream, bool saturates)
{
    loss_launch *l = malloc(sizeof *l);
    if (l == NULL)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the host has no memory left for a launch.");
    l->call = *(const loss_executor *)executor;
    l->chip = l->call.chip;
    l->saturates = saturates;
    l->task = (atlas_task){.run = run, .release = release};
    atlas_extent(&l->call.base.views[2], atlas_type_width(l->call.type), &l->task.writes, &l->task.write_bytes);
    atlas_steps steps = {.named = 0};
    const atlas_view *v = l->call.base.views;
    const atlas_operand inputs[] = {{v[0].dtype, v[0].rank, v[0].view, NULL}, {v[1].dtype, v[1].rank, v[1].view, NULL}};
    if (l->call.count == 0)
        atlas_step(&steps, "Fill", "fill", v[2].dtype, &(atlas_operand){v[2].dtype, v[2].rank, v[2].view, NULL}, 1);
    else
        atlas_step(&steps, "MseLoss", NULL, v[2].dtype, inputs, 2);
    return atlas_launch_small(&l->task, executor, 3, NAMES, &steps, stream);
}

static int check(const atlas_chip *chip, const aclTensor *const *t, int64_t reduction)
{
    for (int i = 0; i < 3; i++) {
        int status = atlas_check_type(chip, NAMES[i], t[i]);
        if (status != 0)
            return status;
        if (t[i]->rank > MOST_RANK)
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, TEXT_RANK, NAMES[i], "8");
    }
    if (reduction < 0 || reduction > 2) {
        char given[24];
        snprintf(given, sizeof given, "%" PRId64, reduction);
        return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, TEXT_REDUCTION, given);
    }
    bool same = t[0]->rank == t[1]->rank &&
                (t[0]->rank == 0 || memcmp(t[0]->view, t[1]->view, t[0]->rank * sizeof *t[0]->view) == 0);
    bool fits = reduction != 0 ? atlas_product(t[2]->view, t[2]->rank) == 1
                               : t[2]->rank == t[0]->rank &&
                                     (t[0]->rank == 0 ||
                                      memcmp(t[2]->view, t[0]->view, t[0]->rank * sizeof *t[0]->view) == 0);
    if (!same || !fits || t[0]->dtype != t[1]->dtype || t[0]->dtype != t[2]->dtype)
        return atlas_nn_fail(ACLNN_ERR_INNER_NULLPTR, TEXT_BUILD,
                             "of aclnnMseLoss only inputs of one shape and tensors of one dtype are emulated");
    int status = 0;
    for (int i = 0; i < 3 && status == 0; i++)
        if (!atlas_is_empty(t[i]) && (status = atlas_check_size(NAMES[i], t[i])) == 0)
            status = atlas_check_strides(NAMES[i], t[i]);
    return status;
}

aclnnStatus aclnnMseLossGetWorkspaceSize(const aclTensor *self, const aclTensor *target, int64_t reduction,
                                         aclTensor *out, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const aclTensor *const t[] = {self, target, out};
    aclnnStatus status = atlas_phase_1_begin(t, 3, NAMES, workspaceSize, executor);
    if (status == 0)
        status = check(atlas_soc(), t, reduction);
    if (status != 0)
        return status;
    loss_executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "the host has no memory left for an executor.");
    e->base.op = "aclnnMseLoss";
    e->base.start = start;
    e->base.inputs = e->base.first_output = 2;
    e->base.outputs = 1;
    e->chip = atlas_soc();
    e->type = atlas_type_of(self->dtype);
    e->reduction = reduction;
    for (int i = 0; i < 3; i++)
        atlas_keep(&e->base.views[i], t[i]);
    e->count = atlas_elements(e->base.views[0].view, e->base.views[0].rank);
    e->base.empty = e->count == 0 && reduction == 0;
    return atlas_phase_1_done(0, &e->base, workspaceSize, executor);
}

aclnnStatus aclnnMseLoss(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)
{
    return atlas_phase_2("aclnnMseLoss", workspace, workspaceSize, executor, stream);
}

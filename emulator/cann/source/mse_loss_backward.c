/* aclnnMseLossBackward: the checks of phase 1, the route, and the launch of phase 2. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "dtypes.h"
#include "loops.h"
#include "nn.h"
#include "operator.h"
#include "small.h"
#include "views.h"

#pragma GCC visibility push(default)
#include "aclnnop/aclnn_mse_loss_backward.h"
#pragma GCC visibility pop

enum { GRAD_OUTPUT, SELF, TARGET, OUT };

/* As messages of the checks name them, and as those about views do. */
static const char *const NAMES[] = {"gradOutput", "self", "target", "out"};
static const char *const VIEW_NAMES[] = {"grad_output", "self", "target", "out"};

typedef struct {
    aclOpExecutor base;
    const atlas_chip *chip;
    const atlas_kernel *kernel;
    int type, wanted; /* of the inputs, of out */
    float factor;
    int64_t reduction;
    int rank;
    int64_t shape[MOST_RANK];
    bool copies[3]; /* inputs that a Contiguous kernel would gather */
    bool casts, view_copies;
} mse_executor;

static int start(const aclOpExecutor *executor, aclrtStream stream, bool saturates);

static const char *const TYPE_NAMES[] = {"float32", "float16", "bfloat16"};
static const int WIDTHS[] = {4, 2, 2};

#define REFUSE(...) return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, __VA_ARGS__)

/* Steps 5 to 7; joined and rank: the broadcast shape. */
static int check(const atlas_chip *chip, const aclTensor *const *t, int64_t reduction, int64_t *joined, uint64_t *rank)
{
    for (int i = GRAD_OUTPUT; i <= TARGET; i += TARGET - GRAD_OUTPUT)
        if (t[i]->dtype != t[SELF]->dtype)
            REFUSE(TEXT_SAME_DTYPE, NAMES[i], atlas_dtype_text(t[i]->dtype), atlas_dtype_text(t[SELF]->dtype));
    for (int i = SELF; i <= OUT; i += OUT - SELF) {
        int status = atlas_check_type(chip, NAMES[i], t[i]);
        if (status != 0)
            return status;
    }
    if (reduction < 0 || reduction > 2)
        REFUSE(TEXT_REDUCTION, atlas_number(reduction).text);
    for (int i = GRAD_OUTPUT; i <= TARGET; i++)
        if (t[i]->rank > MOST_RANK)
            REFUSE(TEXT_RANK, NAMES[i], atlas_number(MOST_RANK).text);
    int64_t both[MOST_RANK];
    uint64_t both_rank;
    if (!atlas_broadcast(t[GRAD_OUTPUT]->view, t[GRAD_OUTPUT]->rank, t[SELF]->view, t[SELF]->rank, both, &both_rank))
        REFUSE(TEXT_BROADCAST_GRAD_OUTPUT, atlas_shape(t[GRAD_OUTPUT]->view, t[GRAD_OUTPUT]->rank).text,
               atlas_shape(t[SELF]->view, t[SELF]->rank).text);
    if (!atlas_broadcast(t[TARGET]->view, t[TARGET]->rank, both, both_rank, joined, rank))
        REFUSE(TEXT_BROADCAST_TARGET, atlas_shape(t[TARGET]->view, t[TARGET]->rank).text, atlas_shape(both, both_rank).text);
    if (t[OUT]->rank != *rank || (*rank > 0 && memcmp(t[OUT]->view, joined, *rank * sizeof *joined) != 0))
        REFUSE(TEXT_OUT_SHAPE, atlas_shape(joined, *rank).text, atlas_shape(t[OUT]->view, t[OUT]->rank).text);
    return 0;
}

/* The workspace: buckets that tensors share whose lives do not overlap. Steps are numbered as they run. */
typedef struct {
    int64_t size;
    int first, last;
    int feeds[3]; /* residents that its step reads, -1: none */
} resident;

#define MOST_RESIDENTS 8

static __int128 packed(const resident *residents, int count)
{
    int64_t sizes[MOST_RESIDENTS];
    int latest[MOST_RESIDENTS], buckets = 0;
    for (int i = 0; i < count; i++) {
        const resident *r = &residents[i];
        int64_t mask = atlas_workspace_alignment - 1;
        int64_t size = (r->size + atlas_workspace_padding + mask) & ~mask;
        int place = buckets - 1;
        for (; place >= 0; place--) {
            const resident *before = &residents[latest[place]];
            bool apart = before->last < r->first || r->last < before->first;
            bool fed = r->feeds[0] == latest[place] || r->feeds[1] == latest[place] || r->feeds[2] == latest[place];
            if (apart && !fed)
                break;
        }
        if (place < 0) {
            place = buckets++;
            sizes[place] = 0;
        }
        sizes[place] = sizes[place] > size ? sizes[place] : size;
        latest[place] = i;
    }
    __int128 total = 0;
    for (int i = 0; i < buckets; i++)
        total += sizes[i];
    return total;
}

static __int128 workspace(const mse_executor *e, int64_t elements, const int64_t *counts)
{
    resident residents[MOST_RESIDENTS];
    int count = 0, step = 0, gathered[3] = {-1, -1, -1};
    int copies = e->copies[0] + e->copies[1] + e->copies[2];
    for (int i = 0; i < 3; i++)
        if (e->copies[i]) {
            gathered[i] = count;
            residents[count++] = (resident){counts[i] * WIDTHS[e->type], step++, copies, {-1, -1, -1}};
        }
    int feeds[3] = {gathered[0], gathered[1], gathered[2]}, result = -1;
    if (e->casts || e->view_copies) {
        result = count;
        residents[count++] =
            (resident){elements * WIDTHS[e->type], step, step + 1, {feeds[0], feeds[1], feeds[2]}};
    }
    if (e->kernel->workspace_bytes >= 0)
        residents[count++] =
            (resident){e->kernel->workspace_bytes, step, step, {feeds[0], feeds[1], feeds[2]}};
    step++;
    if (e->casts && e->view_copies)
        residents[count++] = (resident){elements * WIDTHS[e->wanted], step, step + 1, {result, -1, -1}};
    return packed(residents, count);
}

/* Step 10 of phase 1. */
static int build(mse_executor *e, const aclTensor *const *t, int64_t reduction)
{
    const atlas_chip *chip = e->chip;
    int64_t counts[4] = {0};
    int status;
    for (int i = GRAD_OUTPUT; i <= TARGET; i++) {
        if ((status = atlas_check_size(VIEW_NAMES[i], t[i])) != 0)
            return status;
        counts[i] = (int64_t)atlas_product(t[i]->view, t[i]->rank);
        e->copies[i] = !atlas_is_contiguous(t[i]);
        if (e->copies[i] && (status = atlas_check_strides(VIEW_NAMES[i], t[i])) != 0)
            return status;
    }
    bool formats_agree = t[0]->format == t[1]->format && t[1]->format == t[2]->format;
    bool alike = atlas_same_shape(t[0], t[1]) && atlas_same_shape(t[1], t[2]) && formats_agree;
    const char *release = getenv("ATLAS_EMU_RELEASE");
    bool older = release != NULL && strcmp(release, "older") == 0;
    e->kernel = &atlas_kernels[chip->kernels[older][alike]];
    if (chip->kernel_nd_alone[older][alike] && !(formats_agree && t[0]->format == ACL_FORMAT_ND))
        CANNOT_BUILD(TEXT_ND_ALONE, e->kernel->op, chip->name);
    if (!(chip->kernel_types[older][alike] >> e->type & 1))
        CANNOT_BUILD(TEXT_NO_KERNEL, e->kernel->op, TYPE_NAMES[e->type], chip->short_name);
    if ((status = atlas_check_size(VIEW_NAMES[OUT], t[OUT])) != 0)
        return status;
    counts[OUT] = (int64_t)atlas_product(t[OUT]->view, t[OUT]->rank);
    e->casts = e->wanted != e->type;
    e->view_copies = atlas_needs_view_copy(chip, t[OUT]);
    if (!atlas_is_contiguous(t[OUT]) && (status = atlas_check_strides(VIEW_NAMES[OUT], t[OUT])) != 0)
        return status;
    __int128 total = workspace(e, counts[OUT], counts);
    if (total > INT64_MAX)
        CANNOT_BUILD(TEXT_TOO_MUCH_WORKSPACE, atlas_number(total).text);
    e->base.workspace_bytes = (uint64_t)total;
    e->base.uses_workspace = e->copies[0] || e->copies[1] || e->copies[2] || e->casts || e->view_copies;
    e->factor = atlas_plain_factor;
    if (reduction == 1) {
        void *error = NULL;
        if (e->kernel->mean(&e->factor, &error, ARGUMENTS_1D(t[SELF]->view, (int64_t)t[SELF]->rank, 8)) != 0)
            return atlas_nn_fail(ACLNN_ERR_INNER, "the factor of the mean cannot be computed.");
    }
    return 0;
}

aclnnStatus aclnnMseLossBackwardGetWorkspaceSize(const aclTensor *gradOutput, const aclTensor *self,
                                                 const aclTensor *target, int64_t reduction, aclTensor *out,
                                                 uint64_t *workspaceSize, aclOpExecutor **executor)
{
    if (workspaceSize == NULL || executor == NULL)
        return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, TEXT_RESULT_NULL);
    *workspaceSize = 0;
    *executor = NULL;
    const atlas_chip *chip = atlas_soc();
    if (chip == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER, "ATLAS_EMU_SOC names no chip of this build.");
    const aclTensor *const t[] = {gradOutput, self, target, out};
    for (int i = 0; i < 4; i++)
        if (t[i] == NULL)
            return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, TEXT_NULL_TENSOR, atlas_number(i).text);
    for (int i = 0; i < 4; i++)
        if (!atlas_tensor_alive(t[i]))
            REFUSE("%s is no aclTensor, or was destroyed.", NAMES[i]);
    int64_t joined[MOST_RANK];
    uint64_t rank;
    int status = check(chip, t, reduction, joined, &rank);
    if (status != 0)
        return status;
    mse_executor *e = calloc(1, sizeof *e);
    if (e == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER_CREATE_EXECUTOR, "the host has no memory left for an executor.");
    e->chip = chip;
    e->type = atlas_type_of(self->dtype);
    e->wanted = atlas_type_of(out->dtype);
    e->reduction = reduction;
    e->rank = (int)rank;
    memcpy(e->shape, joined, rank * sizeof *joined);
    e->base.op = "aclnnMseLossBackward";
    e->base.start = start;
    e->base.inputs = e->base.first_output = OUT;
    e->base.outputs = 1;
    for (int i = GRAD_OUTPUT; i <= TARGET; i++)
        e->base.empty |= atlas_is_empty(t[i]);
    if (!e->base.empty)
        status = build(e, t, reduction);
    if (status == 0)
        for (int i = 0; i < 4; i++)
            atlas_keep(&e->base.views[i], t[i]);
    return atlas_phase_1_done(status, &e->base, workspaceSize, executor);
}

typedef struct {
    atlas_task task;
    const atlas_chip *chip;
    atlas_work work;
} launch;

static int run_launch(atlas_task *task, char *text)
{
    launch *l = (launch *)task;
    int status = atlas_compute(&l->work, text);
    if (status == COMPUTE_ADDRESS)
        return l->chip->npu_arch == 2201 || l->chip->npu_arch == 3510 ? ACL_ERROR_RT_VECTOR_CORE_EXCEPTION
                                                                      : ACL_ERROR_RT_AICORE_EXCEPTION;
    return status == 0 ? 0 : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

static void release_launch(atlas_task *task)
{
    free(task);
}

/* The call as JSON, without braces: what a prediction depends on. */
static void describe(const mse_executor *e, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "\"operator\": \"aclnnMseLossBackward\", \"soc\": \"%s\", \"steps\": [",
                                   e->chip->name);
#define ADD(...) used += (size_t)snprintf(text + used, size - used, __VA_ARGS__)
    for (int i = 0; i < 3; i++)
        if (e->copies[i])
            ADD("\"Contiguous(%s)\", ", VIEW_NAMES[i]);
    ADD("\"%s\"%s%s], ", e->kernel->op, e->casts ? ", \"Cast\"" : "", e->view_copies ? ", \"ViewCopy\"" : "");
    ADD("\"kernel\": \"%s\", \"reduction\": %d, \"tensors\": {", e->kernel->kernel, (int)e->reduction);
    for (int i = 0; i < 4; i++) {
        const atlas_view *v = &e->base.views[i];
        ADD("%s\"%s\": {\"dtype\": \"%s\", \"shape\": %s, \"strides\": %s, \"offset\": %" PRId64 "}", i ? ", " : "",
            VIEW_NAMES[i], TYPE_NAMES[atlas_type_of(v->dtype)], atlas_shape(v->view, (uint64_t)v->rank).text,
            atlas_shape(v->strides, (uint64_t)v->rank).text, v->offset);
    }
    ADD("}");
#undef ADD
}

static void log_launch(const char *call, aclrtStream stream)
{
    char line[4096];
    snprintf(line, sizeof line, "{\"launch\": %llu, \"stream\": %llu, \"host_us\": %.3f, %s}\n",
             (unsigned long long)atlas_next_launch(), (unsigned long long)atlas_stream_number(stream),
             atlas_host_us(), call);
    atlas_log_line(line);
}

static int start(const aclOpExecutor *executor, aclrtStream stream, bool saturates)
{
    const mse_executor *e = (const mse_executor *)executor;
    double device_us = 0;
    if (atlas_logging() || atlas_predicting()) {
        char call[3500];
        describe(e, call, sizeof call);
        log_launch(call, stream);
        device_us = atlas_predict(call);
    }
    launch *l = calloc(1, sizeof *l);
    if (l == NULL)
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the host has no memory left for a launch.");
    l->task = (atlas_task){.run = run_launch, .release = release_launch, .device_us = device_us};
    l->chip = e->chip;
    const atlas_numerics *numerics = &atlas_numerics_table[e->chip->numerics];
    atlas_work *w = &l->work;
    w->loops = &numerics->mse[e->type][saturates];
    w->cast = e->casts ? numerics->cast[e->type][e->wanted][saturates] : NULL;
    w->width = WIDTHS[e->type];
    w->out_width = WIDTHS[e->wanted];
    w->factor = e->factor;
    w->rank = e->rank;
    memcpy(w->shape, e->shape, sizeof w->shape);
    memcpy(w->views, e->base.views, sizeof w->views);
    atlas_extent(&w->views[OUT], w->out_width, &l->task.writes, &l->task.write_bytes);
    l->task.call = e->base.op;
    int status = atlas_enqueue(stream, &l->task);
    if (status != 0) {
        free(l);
        return atlas_nn_fail(ACLNN_ERR_RUNTIME_ERROR, "the launch was refused with %d.", status);
    }
    return 0;
}

aclnnStatus aclnnMseLossBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                 aclrtStream stream)
{
    return atlas_phase_2("aclnnMseLossBackward", workspace, workspaceSize, executor, stream);
}

/* See elementwise.h. Every element is computed from the values before the launch, also where out shares memory
   with an input; where elements of out share memory with each other, one of the results stays. */
#include "elementwise.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute.h"
#include "dtypes.h"
#include "pool.h"

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

void *atlas_borrow(atlas_borrowed *b, int64_t elements, int width)
{
    void *memory = NULL;
    size_t bytes = (size_t)elements * (size_t)width;
    if (b->count == MOST_BORROWED || posix_memalign(&memory, 64, bytes > 0 ? bytes : 1) != 0)
        return NULL;
    return b->memory[b->count++] = memory;
}

void atlas_give_back(atlas_borrowed *b)
{
    while (b->count > 0)
        free(b->memory[--b->count]);
}

static bool is_consecutive(const atlas_view *view, int width)
{
    int64_t step = 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        if (view->view[i] != 1 && view->strides[i] != step)
            return false;
        step *= view->view[i];
    }
    return (uintptr_t)view->data % (uintptr_t)width == 0;
}

static char *origin(const atlas_view *view, int width)
{
    return (char *)view->data + view->offset * width;
}

const char *atlas_gather(atlas_borrowed *b, const atlas_view *view, int rank, const int64_t *shape, int width,
                         bool in_place)
{
    atlas_view spread = *view;
    int lead = rank - view->rank;
    bool whole = true;
    spread.rank = rank;
    for (int i = 0; i < rank; i++) {
        bool repeated = i < lead || view->view[i - lead] != shape[i];
        whole &= !repeated || shape[i] == 1;
        spread.view[i] = shape[i];
        spread.strides[i] = repeated ? 0 : view->strides[i - lead];
    }
    if (in_place && whole && is_consecutive(view, width))
        return origin(view, width);
    char *memory = atlas_borrow(b, atlas_elements(shape, rank), width);
    if (memory != NULL)
        atlas_copy_view(&spread, shape, rank, width, memory, true);
    return memory;
}

/* One of the two loops, cut into parts. */
typedef struct {
    atlas_cast_loop *cast;
    atlas_pair_loop *pair;
    const char *x, *y;
    char *out;
    int width, out_width;
    int64_t count, step, y_step;
    atomic_int failed;
} parts;

static void part(void *context, int i)
{
    parts *p = context;
    int64_t low = i * p->step, high = low + p->step < p->count ? low + p->step : p->count;
    void *result = NULL, *error = NULL;
    int status;
    if (p->cast != NULL)
        status = p->cast(&result, &error, low, high, ARGUMENTS_1D(p->x, p->count, p->width),
                         ARGUMENTS_1D(p->out, p->count, p->out_width));
    else
        status = p->pair(&result, &error, low, high, p->y_step, ARGUMENTS_1D(p->x, p->count, p->width),
                         ARGUMENTS_1D(p->y, p->y_step == 0 ? (int64_t)1 : p->count, p->width),
                         ARGUMENTS_1D(p->out, p->count, p->out_width));
    if (status != 0)
        atomic_store(&p->failed, 1);
}

static int run_parts(parts *p)
{
    int64_t workers = p->count / atlas_serial_below + 1;
    int width = pool_width();
    workers = workers < width ? workers : width;
    p->step = (p->count + workers - 1) / workers;
    pool_run(part, p, (int)((p->count + p->step - 1) / p->step));
    return atomic_load(&p->failed);
}

int atlas_cast_all(atlas_cast_loop *loop, const char *from, int width, char *to, int out_width, int64_t count)
{
    parts p = {.cast = loop, .x = from, .out = to, .width = width, .out_width = out_width, .count = count};
    return run_parts(&p);
}

/* What a launch works with. */
typedef struct {
    const atlas_numerics *numerics;
    bool saturates;
    atlas_borrowed borrowed;
} work;

/* The elements in float32: as they are, or widened. NULL: no memory. */
static const char *widened(work *w, const char *elements, int type, int64_t count)
{
    if (elements == NULL || type == TYPE_FLOAT32)
        return elements;
    char *wide = atlas_borrow(&w->borrowed, count, 4);
    if (wide == NULL || atlas_cast_all(w->numerics->cast[type][TYPE_FLOAT32][w->saturates], elements, 2, wide, 4, count))
        return NULL;
    return wide;
}

/* From float32, rounded to a type. */
static const char *narrowed(work *w, const char *elements, int type, int64_t count)
{
    if (elements == NULL || type == TYPE_FLOAT32)
        return elements;
    char *narrow = atlas_borrow(&w->borrowed, count, 2);
    if (narrow == NULL || atlas_cast_all(w->numerics->cast[TYPE_FLOAT32][type][w->saturates], elements, 4, narrow, 2, count))
        return NULL;
    return narrow;
}

/* A number rounded to a type, in float32. */
static const char *rounded(work *w, double value, int type)
{
    float *number = atlas_borrow(&w->borrowed, 1, 4);
    if (number == NULL)
        return NULL;
    *number = (float)value;
    return widened(w, narrowed(w, (const char *)number, type, 1), type, 1);
}

static char *paired(work *w, int pair, const char *x, const char *y, int64_t y_step, int64_t count, char *out)
{
    if (x == NULL || y == NULL || (out == NULL && (out = atlas_borrow(&w->borrowed, count, 4)) == NULL))
        return NULL;
    parts p = {.pair = w->numerics->pair[pair][w->saturates],
               .x = x,
               .y = y,
               .out = out,
               .width = 4,
               .out_width = 4,
               .count = count,
               .y_step = y_step};
    return run_parts(&p) == 0 ? out : NULL;
}

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
    work w = {.numerics = &atlas_numerics_table[e->chip->numerics], .saturates = saturates};
    int width = (int)atlas_dtype_bytes(out->dtype), out_type = atlas_type_of(out->dtype);
    int64_t count = atlas_elements(out->view, out->rank);
    const char *operands[2] = {NULL}, *result;
    int64_t y_step = 1;
    for (int t = 0; t < e->given; t++) {
        int type = c->type < 0 ? -1 : atlas_type_of(views[t].dtype), own = (int)atlas_dtype_bytes(views[t].dtype);
        bool single = t == 1 && atlas_elements(views[t].view, views[t].rank) == 1;
        /* Element i is read before it is written where both are the same memory. */
        bool same = origin(&views[t], own) == origin(out, width) && views[t].dtype == out->dtype;
        bool apart = !overlaps(&views[t], own, out, width);
        int64_t one[MOST_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        operands[t] = atlas_gather(&w.borrowed, &views[t], single ? views[t].rank : out->rank, single ? one : out->view,
                                   own, !single && (apart || (same && c->pair != MOVES)));
        if (type >= 0 && (c->pair != MOVES || type != out_type))
            operands[t] = widened(&w, operands[t], type, single ? 1 : count);
        y_step = t == 1 && single ? 0 : y_step;
    }
    char *direct = is_consecutive(out, width) ? origin(out, width) : NULL;
    if (c->pair == MOVES) {
        result = operands[0];
    } else {
        bool scalar = e->given == 1;
        const char *y = scalar ? rounded(&w, c->scalar, c->scalar_type) : operands[1];
        y_step = scalar ? 0 : y_step;
        if (c->alpha != 1) {
            int64_t elements = y_step == 0 ? 1 : count;
            y = paired(&w, PAIR_MUL, y, rounded(&w, c->alpha, c->scalar_type), 0, elements, NULL);
            y = widened(&w, narrowed(&w, y, c->type, elements), c->type, elements);
        }
        bool straight = c->type == TYPE_FLOAT32 && out_type == TYPE_FLOAT32;
        result = paired(&w, c->pair, operands[0], y, y_step, count, straight ? direct : NULL);
    }
    int moved = c->pair == MOVES && c->type >= 0 && atlas_type_of(views[0].dtype) == out_type;
    if (c->type >= 0 && !moved) {
        if (c->type != out_type)
            result = widened(&w, narrowed(&w, result, c->type, count), c->type, count);
        result = narrowed(&w, result, out_type, count);
    }
    if (result != NULL && direct != NULL && result != direct)
        memcpy(direct, result, (size_t)count * (size_t)width);
    else if (result != NULL && direct == NULL)
        atlas_copy_view(out, out->view, out->rank, width, (char *)(uintptr_t)result, false);
    atlas_give_back(&w.borrowed);
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

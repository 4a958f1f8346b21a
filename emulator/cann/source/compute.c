/* See compute.h. Every element is computed from the values before the launch, also where out shares memory with
   an input; where elements of out share memory with each other, one of the results stays. */
#include "compute.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool.h"

enum { OUT = 3, TENSORS = 4 };

static const char *const NAMES[] = {"grad_output", "self", "target", "out"};

/* The index space that a loop walks through, with as few axes as the tensors allow. */
typedef struct {
    int rank;
    int64_t dims[MOST_RANK], strides[TENSORS][MOST_RANK];
} space;

typedef struct {
    char *lowest;      /* first byte that is reached */
    int64_t elements;  /* from there to the last */
    int64_t offset;    /* of element (0, 0, ...) */
} run_of;

void atlas_extent(const atlas_view *view, int width, const void **first, size_t *bytes)
{
    int64_t below = 0, above = 0;
    for (int i = 0; i < view->rank; i++) {
        int64_t reach = view->view[i] > 1 ? (view->view[i] - 1) * view->strides[i] : 0;
        *(reach < 0 ? &below : &above) += reach;
    }
    *first = (const char *)view->data + (view->offset + below) * width;
    *bytes = (size_t)(above - below + 1) * (size_t)width;
}

/* Axes of one element go; neighbours join where every tensor walks through both in one stride. */
static void coalesce(space *s)
{
    int rank = 0;
    for (int axis = 0; axis < s->rank; axis++) {
        if (s->dims[axis] == 1)
            continue;
        bool joins = rank > 0;
        for (int t = 0; t < TENSORS && joins; t++)
            joins = s->strides[t][rank - 1] == s->strides[t][axis] * s->dims[axis];
        if (joins)
            s->dims[rank - 1] *= s->dims[axis];
        else
            s->dims[rank++] = s->dims[axis];
        for (int t = 0; t < TENSORS; t++)
            s->strides[t][rank - 1] = s->strides[t][axis];
    }
    if (rank == 0) {
        s->dims[0] = 1;
        for (int t = 0; t < TENSORS; t++)
            s->strides[t][0] = 0;
        rank = 1;
    }
    s->rank = rank;
}

static int64_t size_of(int64_t stride)
{
    return stride < 0 ? -stride : stride;
}

/* Axes in the order in which out lies in memory: elements are computed by themselves, in any order. */
static void sort_axes(space *s)
{
    for (int i = 1; i < s->rank; i++)
        for (int k = i; k > 0 && size_of(s->strides[OUT][k - 1]) < size_of(s->strides[OUT][k]); k--) {
            int64_t dim = s->dims[k];
            s->dims[k] = s->dims[k - 1];
            s->dims[k - 1] = dim;
            for (int t = 0; t < TENSORS; t++) {
                int64_t stride = s->strides[t][k];
                s->strides[t][k] = s->strides[t][k - 1];
                s->strides[t][k - 1] = stride;
            }
        }
}

/* Whether out may be written in any order: no two of its elements share memory. Strides of axes sorted by size. */
static bool is_apart(const space *s)
{
    int64_t reach = 0;
    for (int axis = s->rank - 1; axis >= 0; axis--) {
        int64_t stride = size_of(s->strides[OUT][axis]);
        if (s->dims[axis] > 1 && stride <= reach)
            return false;
        reach += stride * (s->dims[axis] - 1);
    }
    return true;
}

int64_t atlas_elements(const int64_t *dims, int rank)
{
    int64_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    return count;
}

typedef struct {
    const space *space;
    const run_of *runs;
    atlas_mse_loop *loop;
    float factor;
    int width;
    bool by_rows;
    int64_t rows, row, step; /* what one part does */
    atomic_int failed;
} job;

static void part(void *context, int i)
{
    job *j = context;
    const space *s = j->space;
    int64_t first = 0, last = j->rows, low = 0, high = j->row, begin = i * j->step;
    if (j->by_rows) {
        first = begin;
        last = begin + j->step < j->rows ? begin + j->step : j->rows;
    } else {
        low = begin;
        high = begin + j->step < j->row ? begin + j->step : j->row;
    }
    int64_t strides[TENSORS * MOST_RANK], offsets[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        memcpy(strides + t * s->rank, s->strides[t], (size_t)s->rank * sizeof *strides);
        offsets[t] = j->runs[t].offset;
    }
    void *result = NULL, *error = NULL;
#define TENSOR(t) ARGUMENTS_1D(j->runs[t].lowest, j->runs[t].elements, j->width)
    if (j->loop(&result, &error, first, last, low, high, TENSOR(0), TENSOR(1), TENSOR(2), TENSOR(3), j->factor,
                ARGUMENTS_1D(s->dims, (int64_t)s->rank, 8), ARGUMENTS_2D(strides, (int64_t)TENSORS, (int64_t)s->rank),
                ARGUMENTS_1D(offsets, (int64_t)TENSORS, 8)) != 0)
        atomic_store(&j->failed, 1);
#undef TENSOR
}

static atlas_mse_loop *loop_for(const atlas_work *w, const space *s)
{
    int64_t moved = 0;
    bool run[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        int64_t distinct = 1;
        for (int axis = 0; axis < s->rank; axis++)
            distinct *= s->strides[t][axis] != 0 || t == OUT ? s->dims[axis] : 1;
        moved += distinct * w->width;
        run[t] = s->strides[t][s->rank - 1] == 1 || s->dims[s->rank - 1] == 1;
    }
    bool streamed = moved >= atlas_stream_from_bytes && s->dims[s->rank - 1] * w->width >= atlas_stream_row_bytes;
    const atlas_mse_loops *l = w->loops;
    if (l->run == NULL)
        return l->strided;
    if (run[1] && run[2] && run[OUT]) {
        if (run[0])
            return streamed && l->run_streamed != NULL ? l->run_streamed : l->run;
        if (s->strides[0][s->rank - 1] == 0)
            return streamed && l->one_streamed != NULL ? l->one_streamed : l->one;
    }
    return l->strided;
}

static int compute(const atlas_work *w, const space *s, const run_of *runs)
{
    job j = {.space = s, .runs = runs, .loop = loop_for(w, s), .factor = w->factor, .width = w->width};
    int64_t total = atlas_elements(s->dims, s->rank);
    j.row = s->dims[s->rank - 1];
    j.rows = total / j.row;
    int64_t workers = 1;
    if (total > atlas_serial_below) {
        workers = (total + atlas_serial_below - 1) / atlas_serial_below;
        int width = pool_width();
        workers = workers < width ? workers : width;
    }
    /* Few long rows are cut along the row, many short ones by rows. */
    j.by_rows = j.rows >= 4 * workers;
    int64_t whole = j.by_rows ? j.rows : j.row;
    j.step = (whole + workers - 1) / workers;
    pool_run(part, &j, (int)((whole + j.step - 1) / j.step));
    return atomic_load(&j.failed) ? COMPUTE_MEMORY : 0;
}

typedef struct {
    atlas_cast_loop *loop;
    char *from, *to;
    int width, out_width;
    int64_t count, step;
    atomic_int failed;
} cast_job;

static void cast_part(void *context, int i)
{
    cast_job *j = context;
    int64_t low = i * j->step, high = low + j->step < j->count ? low + j->step : j->count;
    void *result = NULL, *error = NULL;
    if (j->loop(&result, &error, low, high, ARGUMENTS_1D(j->from, j->count, j->width),
                ARGUMENTS_1D(j->to, j->count, j->out_width)) != 0)
        atomic_store(&j->failed, 1);
}

static int cast(const atlas_work *w, char *from, char *to, int64_t count)
{
    cast_job j = {w->cast, from, to, w->width, w->out_width, count, count, 0};
    int64_t workers = (count + atlas_serial_below - 1) / atlas_serial_below;
    int width = pool_width();
    workers = workers < width ? workers : width;
    j.step = (count + workers - 1) / workers;
    pool_run(cast_part, &j, (int)((count + j.step - 1) / j.step));
    return atomic_load(&j.failed) ? COMPUTE_MEMORY : 0;
}

/* A row of a view, from or to consecutive memory. The width is known where this is inlined. */
static inline void copy_row(char *place, int64_t step, char *consecutive, int64_t row, size_t width, bool out_of)
{
    if (step == (int64_t)width) {
        memcpy(out_of ? consecutive : place, out_of ? place : consecutive, (size_t)row * width);
        return;
    }
    for (int64_t i = 0; i < row; i++, place += step, consecutive += width)
        memcpy(out_of ? consecutive : place, out_of ? place : consecutive, width);
}

void atlas_copy_view(const atlas_view *view, const int64_t *shape, int rank, int width, char *consecutive, bool out_of)
{
    int64_t index[MOST_RANK] = {0}, total = atlas_elements(shape, rank);
    int64_t row = rank > 0 ? shape[rank - 1] : 1, step = rank > 0 ? view->strides[rank - 1] * width : 0;
    char *base = (char *)view->data + view->offset * width;
    for (int64_t done = 0; done < total; done += row, consecutive += row * width) {
        char *place = base;
        for (int axis = 0; axis + 1 < rank; axis++)
            place += index[axis] * view->strides[axis] * width;
        if (width == 4)
            copy_row(place, step, consecutive, row, 4, out_of);
        else if (width == 2)
            copy_row(place, step, consecutive, row, 2, out_of);
        else
            copy_row(place, step, consecutive, row, (size_t)width, out_of);
        for (int axis = rank - 2; axis >= 0 && ++index[axis] == shape[axis]; axis--)
            index[axis] = 0;
    }
}

static bool aligned(const atlas_view *view, int width)
{
    return (uintptr_t)view->data % (uintptr_t)width == 0;
}

static run_of run_from(const atlas_view *view, int width)
{
    const void *first;
    size_t bytes;
    atlas_extent(view, width, &first, &bytes);
    const char *origin = (const char *)view->data + view->offset * width;
    return (run_of){(char *)(uintptr_t)first, (int64_t)(bytes / (size_t)width),
                    (origin - (const char *)first) / width};
}

/* What a launch holds while it runs. */
typedef struct {
    atlas_block *blocks[TENSORS];
    char *memory[TENSORS + 1];
} held;

static char *borrow(held *h, int place, int64_t elements, int width)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 64, (size_t)elements * (size_t)width) != 0)
        memory = NULL;
    return h->memory[place] = memory;
}

static int compute_held(const atlas_work *w, held *h, char *text)
{
    const void *first[TENSORS];
    size_t bytes[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        int width = t == OUT ? w->out_width : w->width;
        atlas_extent(&w->views[t], width, &first[t], &bytes[t]);
        switch (w->views[t].data == NULL ? RANGE_UNKNOWN : atlas_pin(first[t], bytes[t], &h->blocks[t])) {
        case RANGE_OK:
            continue;
        case RANGE_UNKNOWN:
            snprintf(text, ATLAS_TEXT, "aclnnMseLossBackward: %s at %p is no device memory (a host pointer, or freed)",
                     NAMES[t], first[t]);
            break;
        case RANGE_FREED:
            snprintf(text, ATLAS_TEXT, "aclnnMseLossBackward: %s at %p is device memory that was freed", NAMES[t],
                     first[t]);
            break;
        case RANGE_OUTSIDE:
            snprintf(text, ATLAS_TEXT, "aclnnMseLossBackward: %s, %zu bytes at %p, leaves its device memory", NAMES[t],
                     bytes[t], first[t]);
            break;
        }
        return COMPUTE_ADDRESS;
    }
    snprintf(text, ATLAS_TEXT, "aclnnMseLossBackward: the host has no memory left for intermediate tensors");
    int64_t total = atlas_elements(w->shape, w->rank);
    space s = {.rank = w->rank};
    run_of runs[TENSORS];
    memcpy(s.dims, w->shape, sizeof s.dims);
    bool overlaps = false;
    for (int t = 0; t < OUT; t++)
        overlaps |= (uintptr_t)first[t] < (uintptr_t)first[OUT] + bytes[OUT] &&
                    (uintptr_t)first[OUT] < (uintptr_t)first[t] + bytes[t];
    for (int t = 0; t < TENSORS; t++) {
        atlas_view gathered = w->views[t];
        if (t < OUT && !aligned(&gathered, w->width)) {
            int64_t count = atlas_elements(gathered.view, gathered.rank), step = 1;
            char *memory = borrow(h, t, count, w->width);
            if (memory == NULL)
                return COMPUTE_MEMORY;
            atlas_copy_view(&gathered, gathered.view, gathered.rank, w->width, memory, true);
            gathered.data = memory;
            gathered.offset = 0;
            for (int i = gathered.rank - 1; i >= 0; i--) {
                gathered.strides[i] = step;
                step *= gathered.view[i];
            }
        }
        runs[t] = run_from(&gathered, t == OUT ? w->out_width : w->width);
        int lead = w->rank - gathered.rank;
        for (int i = 0; i < gathered.rank; i++)
            if (gathered.view[i] == w->shape[lead + i] && gathered.view[i] > 1)
                s.strides[t][lead + i] = gathered.strides[i];
    }
    const space original = s;
    coalesce(&s);
    sort_axes(&s);
    coalesce(&s);
    if (w->cast == NULL && !overlaps && aligned(&w->views[OUT], w->width) && is_apart(&s))
        return compute(w, &s, runs);
    /* By way of memory of its own: the result, its cast, then the view. */
    s = original;
    char *result = borrow(h, OUT, total, w->width);
    if (result == NULL)
        return COMPUTE_MEMORY;
    int64_t step = 1;
    for (int i = w->rank - 1; i >= 0; i--) {
        s.strides[OUT][i] = w->shape[i] > 1 ? step : 0;
        step *= w->shape[i];
    }
    coalesce(&s);
    runs[OUT] = (run_of){result, total, 0};
    int status = compute(w, &s, runs);
    if (status == 0 && w->cast != NULL) {
        char *narrowed = borrow(h, TENSORS, total, w->out_width);
        if (narrowed == NULL)
            return COMPUTE_MEMORY;
        status = cast(w, result, narrowed, total);
        result = narrowed;
    }
    if (status == 0)
        atlas_copy_view(&w->views[OUT], w->shape, w->rank, w->out_width, result, false);
    return status;
}

int atlas_compute(const atlas_work *work, char *text)
{
    held h = {{NULL}, {NULL}};
    int status = compute_held(work, &h, text);
    for (int t = 0; t < TENSORS; t++)
        if (h.blocks[t] != NULL)
            atlas_unpin(h.blocks[t]);
    for (int t = 0; t <= TENSORS; t++)
        free(h.memory[t]);
    return status;
}

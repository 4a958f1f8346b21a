/* See floats.h. */
#include "floats.h"

#include <stdlib.h>

#include "compute.h"
#include "pool.h"

void *atlas_borrow(atlas_floats *f, int64_t elements, int width)
{
    void *memory = NULL;
    size_t bytes = (size_t)elements * (size_t)width;
    if (f->count == MOST_BORROWED || posix_memalign(&memory, 64, bytes > 0 ? bytes : 1) != 0)
        return NULL;
    return f->memory[f->count++] = memory;
}

void atlas_give_back(atlas_floats *f)
{
    while (f->count > 0)
        free(f->memory[--f->count]);
}

bool atlas_is_consecutive(const atlas_view *view, int width)
{
    int64_t step = 1;
    for (int i = view->rank - 1; i >= 0; i--) {
        if (view->view[i] != 1 && view->strides[i] != step)
            return false;
        step *= view->view[i];
    }
    return (uintptr_t)view->data % (uintptr_t)width == 0;
}

char *atlas_origin(const atlas_view *view, int width)
{
    return (char *)view->data + view->offset * width;
}

const char *atlas_gather(atlas_floats *f, const atlas_view *view, int rank, const int64_t *shape, int width,
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
    if (in_place && whole && atlas_is_consecutive(view, width))
        return atlas_origin(view, width);
    char *memory = atlas_borrow(f, atlas_elements(shape, rank), width);
    if (memory != NULL)
        atlas_copy_view(&spread, shape, rank, width, memory, true);
    return memory;
}

/* One of the loops, cut into parts. */
typedef struct {
    atlas_cast_loop *cast;
    atlas_pair_loop *pair;
    atlas_rows_sum *rows;
    const char *x, *y;
    char *out;
    int width, out_width;
    int64_t count, step, y_step;
    int64_t row; /* elements of a row */
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
    else if (p->rows != NULL)
        status = p->rows(&result, &error, low, high, p->row, ARGUMENTS_1D(p->x, p->count * p->row, 4),
                         ARGUMENTS_1D(p->out, p->count, 4));
    else
        status = p->pair(&result, &error, low, high, p->y_step, ARGUMENTS_1D(p->x, p->count, p->width),
                         ARGUMENTS_1D(p->y, p->y_step == 0 ? (int64_t)1 : p->count, p->width),
                         ARGUMENTS_1D(p->out, p->count, p->out_width));
    if (status != 0)
        atomic_store(&p->failed, 1);
}

static int run_parts(parts *p)
{
    int64_t workers = p->count * (p->rows != NULL ? p->row : 1) / atlas_serial_below + 1;
    int width = pool_width();
    workers = workers < width ? workers : width;
    p->step = (p->count + workers - 1) / workers;
    pool_run(part, p, (int)((p->count + p->step - 1) / p->step));
    return atomic_load(&p->failed);
}

static int cast_all(atlas_cast_loop *loop, const char *from, int width, char *to, int out_width, int64_t count)
{
    parts p = {.cast = loop, .x = from, .out = to, .width = width, .out_width = out_width, .count = count};
    return run_parts(&p);
}

const char *atlas_widened(atlas_floats *f, const char *elements, int type, int64_t count)
{
    if (elements == NULL || type == TYPE_FLOAT32)
        return elements;
    char *wide = atlas_borrow(f, count, 4);
    if (wide == NULL || cast_all(f->numerics->cast[type][TYPE_FLOAT32][f->saturates], elements, 2, wide, 4, count))
        return NULL;
    return wide;
}

const char *atlas_narrowed(atlas_floats *f, const char *elements, int type, int64_t count)
{
    if (elements == NULL || type == TYPE_FLOAT32)
        return elements;
    char *narrow = atlas_borrow(f, count, 2);
    if (narrow == NULL || cast_all(f->numerics->cast[TYPE_FLOAT32][type][f->saturates], elements, 4, narrow, 2, count))
        return NULL;
    return narrow;
}

const char *atlas_rounded(atlas_floats *f, double value, int type)
{
    float *number = atlas_borrow(f, 1, 4);
    if (number == NULL)
        return NULL;
    *number = (float)value;
    return atlas_widened(f, atlas_narrowed(f, (const char *)number, type, 1), type, 1);
}

char *atlas_paired(atlas_floats *f, int pair, const char *x, const char *y, int64_t y_step, int64_t count, char *out)
{
    if (x == NULL || y == NULL || (out == NULL && (out = atlas_borrow(f, count, 4)) == NULL))
        return NULL;
    parts p = {.pair = f->numerics->pair[pair][f->saturates],
               .x = x,
               .y = y,
               .out = out,
               .width = 4,
               .out_width = 4,
               .count = count,
               .y_step = y_step};
    return run_parts(&p) == 0 ? out : NULL;
}

char *atlas_summed(atlas_floats *f, const char *x, int64_t rows, int64_t count)
{
    char *out = x == NULL ? NULL : atlas_borrow(f, rows, 4);
    if (out == NULL)
        return NULL;
    parts p = {.rows = f->numerics->rows, .x = x, .out = out, .count = rows, .row = count};
    return run_parts(&p) == 0 ? out : NULL;
}

/* The project's own kernels, compiled ahead of time: what every element of out is, in fused loops.

   A loop handles the rows first .. last of the index space (all axes but the innermost) and of each the elements
   low .. high. Its parameters are those of Numba's native calling convention. The tables are generated. */
#ifndef ATLAS_EMU_LOOPS_H
#define ATLAS_EMU_LOOPS_H

#include "chips.h"

#define PARAMETERS_1D(name)                                                                                   \
    void *name##_owner, void *name##_parent, int64_t name##_items, int64_t name##_itemsize, void *name##_data, \
        int64_t name##_shape, int64_t name##_stride
#define PARAMETERS_2D(name)                                                                                   \
    void *name##_owner, void *name##_parent, int64_t name##_items, int64_t name##_itemsize, void *name##_data, \
        int64_t name##_rows, int64_t name##_columns, int64_t name##_row_stride, int64_t name##_stride

#define ARGUMENTS_1D(data, items, size) NULL, NULL, (items), (size), (void *)(data), (items), (size)
#define ARGUMENTS_2D(data, rows, columns)                                                                     \
    NULL, NULL, (rows) * (columns), 8, (void *)(data), (rows), (columns), (columns) * 8, 8

#define LOOP_PARAMETERS void **result, void **error, int64_t first, int64_t last, int64_t low, int64_t high

/* grad_output, self, target, out; the coefficient. */
typedef int atlas_mse_loop(LOOP_PARAMETERS, PARAMETERS_1D(t0), PARAMETERS_1D(t1), PARAMETERS_1D(t2),
                           PARAMETERS_1D(t3), float s0, PARAMETERS_1D(dims), PARAMETERS_2D(strides),
                           PARAMETERS_1D(offsets));
/* x, out. */
typedef int atlas_cast_loop(void **result, void **error, int64_t low, int64_t high, PARAMETERS_1D(t0),
                            PARAMETERS_1D(t1));
/* x, y, out, all of float32; step 0: of y there is one element. */
typedef int atlas_pair_loop(void **result, void **error, int64_t low, int64_t high, int64_t step, PARAMETERS_1D(t0),
                            PARAMETERS_1D(t1), PARAMETERS_1D(t2));
/* x, out, of float32: out[row] is the sum of the row's elements, of which there are count. */
typedef int atlas_rows_sum(void **result, void **error, int64_t low, int64_t high, int64_t count, PARAMETERS_1D(t0),
                           PARAMETERS_1D(t1));
/* The factor of reduction "mean", from self's dimensions. */
typedef int atlas_mean(float *result, void **error, PARAMETERS_1D(dims));

/* By the way the tensors are walked along the innermost axis. NULL: not built, another one does it. */
typedef struct {
    atlas_mse_loop *run, *run_streamed; /* all element by element */
    atlas_mse_loop *one, *one_streamed; /* grad_output is one element */
    atlas_mse_loop *strided;            /* steps of any size */
} atlas_mse_loops;

typedef enum {
    PAIR_MUL,
    PAIR_ADD,
    PAIR_SUB,
    PAIRS
} atlas_pair;

typedef struct {
    atlas_mse_loops mse[TYPES][2]; /* [self's type][saturation mode] */
    atlas_cast_loop *cast[TYPES][TYPES][2];
    atlas_pair_loop *pair[PAIRS][2]; /* [operator][saturation mode] */
    atlas_rows_sum *rows;
} atlas_numerics;

extern const atlas_numerics atlas_numerics_table[];

typedef struct {
    const char *op;          /* the operator type that is launched */
    const char *kernel;      /* the recorded kernel */
    atlas_mean *mean;
    int64_t workspace_bytes; /* that the kernel declares; -1: none at all */
} atlas_kernel;

extern const atlas_kernel atlas_kernels[];

/* From kernel.coefficient, kernel.compile and emulator.aclnn.workspace. */
extern const float atlas_plain_factor;
extern const int64_t atlas_serial_below, atlas_stream_from_bytes, atlas_stream_row_bytes;
extern const int64_t atlas_workspace_padding, atlas_workspace_alignment;

#endif

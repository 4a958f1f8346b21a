/* The bits of a launch, from the views of its tensors into the view of out. */
#ifndef ATLAS_EMU_COMPUTE_H
#define ATLAS_EMU_COMPUTE_H

#include "loops.h"
#include "nn.h"

typedef struct {
    const atlas_mse_loops *loops;
    atlas_cast_loop *cast; /* NULL: out has the inputs' type */
    int width, out_width;
    float factor;
    int rank;
    int64_t shape[MOST_RANK];
    atlas_view views[MOST_TENSORS];
} atlas_work;

enum { COMPUTE_ADDRESS = 1, COMPUTE_MEMORY = 2 };

/* 0, COMPUTE_ADDRESS (a tensor is not in device memory) or COMPUTE_MEMORY, with text. */
int atlas_compute(const atlas_work *work, char *text);
/* The bytes that a view reaches. */
void atlas_extent(const atlas_view *view, int width, const void **first, size_t *bytes);
int64_t atlas_elements(const int64_t *dims, int rank);
/* Elements of a view, byte by byte: between it and consecutive memory. Any strides, any alignment. */
void atlas_copy_view(const atlas_view *view, const int64_t *shape, int rank, int width, char *consecutive,
                     bool out_of);

#endif

/* Numbers of a launch: gathered from views, widened to float32, computed by the recorded operations, rounded. */
#ifndef ATLAS_EMU_FLOATS_H
#define ATLAS_EMU_FLOATS_H

#include "loops.h"
#include "nn.h"

#define MOST_BORROWED 24

/* What a launch computes with, and the memory that it borrows until its end. */
typedef struct {
    const atlas_numerics *numerics;
    bool saturates;
    void *memory[MOST_BORROWED];
    int count;
} atlas_floats;

/* All of these give NULL where there is no memory, or where they were given NULL. */
void *atlas_borrow(atlas_floats *f, int64_t elements, int width);
void atlas_give_back(atlas_floats *f);
/* Elements of a view as they are in the shape, one after another: in place if they lie so and may be read there. */
const char *atlas_gather(atlas_floats *f, const atlas_view *view, int rank, const int64_t *shape, int width,
                         bool in_place);
/* From a type to float32, and from float32 to a type: as they are where that is the same. */
const char *atlas_widened(atlas_floats *f, const char *elements, int type, int64_t count);
const char *atlas_narrowed(atlas_floats *f, const char *elements, int type, int64_t count);
/* A number rounded to a type, in float32. */
const char *atlas_rounded(atlas_floats *f, double value, int type);
/* An atlas_pair of float32; y_step 0: of y there is one. out NULL: borrowed. */
char *atlas_paired(atlas_floats *f, int pair, const char *x, const char *y, int64_t y_step, int64_t count, char *out);
/* The sums of rows of count elements. */
char *atlas_summed(atlas_floats *f, const char *x, int64_t rows, int64_t count);

/* Whether the elements of a view lie one after another, aligned; where the first is. */
bool atlas_is_consecutive(const atlas_view *view, int width);
char *atlas_origin(const atlas_view *view, int width);

#endif

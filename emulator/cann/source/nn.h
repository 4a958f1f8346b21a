/* Tensors and executors, shared by libnnopbase.so and the operators. */
#ifndef ATLAS_EMU_NN_H
#define ATLAS_EMU_NN_H

#include "emu.h"
#include "texts.h"

#define MOST_RANK 8

/* Rank 0 has no arrays. */
struct aclTensor {
    uint64_t rank, storage_rank;
    int64_t *view, *strides, *storage; /* one allocation, at view */
    int64_t offset;
    int dtype, format;
    void *data;
};

/* A tensor as an executor keeps it: of at most eight dimensions. */
typedef struct {
    int rank;
    int64_t view[MOST_RANK], strides[MOST_RANK];
    int64_t offset;
    int dtype;
    void *data;
} atlas_view;

#define MOST_TENSORS 4

struct aclOpExecutor {
    const char *op; /* the operator's function of phase 2 */
    /* Enqueue the launch; the executor may be freed right after. */
    int (*start)(const struct aclOpExecutor *executor, aclrtStream stream, bool saturates);
    bool repeatable, used;
    int inputs, first_output, outputs; /* inputs come first; what is computed in place is both */
    atlas_view views[MOST_TENSORS];
    uint64_t workspace_bytes;
    bool uses_workspace;            /* intermediate tensors lie there */
    bool empty;                     /* nothing is launched */
};

#pragma GCC visibility push(default)

/* Statuses of the aclnn layer: code and title by the leading digit. */
int atlas_nn_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
typedef struct {
    int dtype;
    unsigned char bytes[16];
} atlas_scalar;

/* What a scalar holds; false where it is none, or was destroyed. */
bool atlas_scalar_of(const aclScalar *scalar, atlas_scalar *value);
/* The numbers of an array, as long as it lives; false where it is none, or was destroyed. */
bool atlas_int_array(const aclIntArray *array, const int64_t **values, uint64_t *count);
bool atlas_tensor_alive(const aclTensor *tensor);
/* A dtype as messages have it: DT_FLOAT. */
const char *atlas_dtype_text(int dtype);

#pragma GCC visibility pop

#endif

/* Calls that compute element by element: two operands and a recorded operation, or casts and moves alone. */
#ifndef ATLAS_EMU_ELEMENTWISE_H
#define ATLAS_EMU_ELEMENTWISE_H

#include "operator.h"
#include "small.h"
#include "views.h"

#define MOVES (-1) /* in place of an atlas_pair: the one input is cast and moved */

/* What a call comes to. Where numbers are computed this is in float32, from operands that were widened, and is
   rounded to type, then to out's dtype. */
typedef struct {
    const char *op;
    int pair;
    const aclTensor *x, *y; /* y NULL: the scalar, or nothing */
    aclTensor *out;         /* may be x */
    const char *const *names; /* of x, of y if it is a tensor, of out */
    int type;               /* of the kernel's result; of moves with dtypes beyond the floating ones: -1 */
    int scalar_type;        /* to which the scalars are rounded first */
    double scalar;          /* the second operand where y is NULL */
    double alpha;           /* y is multiplied by it first, and rounded to type; 1: it is not */
    const char *kernel;     /* the vendor's operator type; NULL: none is launched */
    const char *recorded;   /* the recorded operator that times it; NULL: none does */
    bool fused;             /* alpha is the kernel's own: no Mul goes before */
    bool casts_first;       /* inputs of another type than type are cast by a kernel */
} atlas_call;

/* Checks of views, then the executor. */
aclnnStatus atlas_build_elementwise(const atlas_call *call, uint64_t *workspaceSize, aclOpExecutor **executor);

/* Phase 2 of a function that needs nothing but its name. */
#define ATLAS_PHASE_2(name)                                                                                   \
    aclnnStatus name(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor, aclrtStream stream)    \
    {                                                                                                         \
        return atlas_phase_2(#name, workspace, workspaceSize, executor, stream);                              \
    }

#endif

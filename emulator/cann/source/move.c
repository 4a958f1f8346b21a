/* aclnnInplaceCopy and aclnnCast: elements moved, repeated and cast.

   Casts are those among the floating dtypes; what keeps its dtype may have any of whole bytes. */
#include "dtypes.h"
#include "elementwise.h"

#pragma GCC visibility push(default)
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_copy.h"
#pragma GCC visibility pop

static const char *const CAST_NAMES[] = {"self", "out"};
/* Of the source, of the target. */
static const char *const COPY_NAMES[] = {"src", "selfRef"};

#define REFUSE(...) return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, __VA_ARGS__)

/* The one input cast to out's dtype; dtypes that the kernels have not are refused. */
static aclnnStatus move(atlas_call *c, uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const atlas_chip *chip = atlas_soc();
    c->pair = MOVES;
    c->alpha = 1;
    if (c->x->dtype != c->out->dtype) {
        int status = atlas_check_type(chip, c->names[0], c->x);
        if (status == 0)
            status = atlas_check_type(chip, c->names[1], c->out);
        if (status != 0)
            return status;
        c->type = atlas_type_of(c->out->dtype);
        c->casts_first = true;
    } else {
        if (atlas_dtype_bytes(c->x->dtype) == 0)
            REFUSE("Tensor %s not implemented for %s.", c->names[0], atlas_dtype_text(c->x->dtype));
        c->type = -1;
    }
    return atlas_build_elementwise(c, workspaceSize, executor);
}

static int check_ranks(const char *const *names, const aclTensor *const *t)
{
    for (int i = 0; i < 2; i++)
        if (t[i]->rank > MOST_RANK)
            REFUSE(TEXT_RANK, names[i], atlas_number(MOST_RANK).text);
    return 0;
}

aclnnStatus aclnnInplaceCopyGetWorkspaceSize(aclTensor *selfRef, const aclTensor *src, uint64_t *workspaceSize,
                                             aclOpExecutor **executor)
{
    const aclTensor *const given[] = {selfRef, src}, *const t[] = {src, selfRef};
    const char *const order[] = {"selfRef", "src"};
    aclnnStatus status = atlas_phase_1_begin(given, 2, order, workspaceSize, executor);
    if (status == 0)
        status = check_ranks(order, given);
    if (status != 0)
        return status;
    int64_t joined[MOST_RANK];
    uint64_t rank;
    if (!atlas_broadcast(selfRef->view, selfRef->rank, src->view, src->rank, joined, &rank))
        REFUSE("The size of tensor selfRef %s must match the size of tensor src %s.",
               atlas_shape(selfRef->view, selfRef->rank).text, atlas_shape(src->view, src->rank).text);
    aclTensor wanted = {.rank = rank, .view = joined};
    if (!atlas_same_shape(selfRef, &wanted))
        REFUSE("Shape of broadcast result should be %s, but self is %s.", atlas_shape(joined, rank).text,
               atlas_shape(selfRef->view, selfRef->rank).text);
    atlas_call c = {.op = "aclnnInplaceCopy", .x = t[0], .out = selfRef, .names = COPY_NAMES};
    bool before = selfRef->dtype != src->dtype || !atlas_is_contiguous(src);
    if (!atlas_same_shape(selfRef, src))
        c.kernel = "BroadcastTo";
    else if (!before && !atlas_needs_view_copy(atlas_soc(), selfRef)) {
        c.kernel = "TensorMove";
        c.recorded = "copy";
    }
    return move(&c, workspaceSize, executor);
}

aclnnStatus aclnnCastGetWorkspaceSize(const aclTensor *self, const aclDataType dtype, aclTensor *out,
                                      uint64_t *workspaceSize, aclOpExecutor **executor)
{
    const aclTensor *const t[] = {self, out};
    aclnnStatus status = atlas_phase_1_begin(t, 2, CAST_NAMES, workspaceSize, executor);
    if (status == 0)
        status = check_ranks(CAST_NAMES, t);
    if (status != 0)
        return status;
    if ((int)dtype != out->dtype)
        REFUSE("Expected out to be of the dtype that is asked for, %s, but got %s.", atlas_dtype_text((int)dtype),
               atlas_dtype_text(out->dtype));
    if (!atlas_same_shape(self, out))
        REFUSE("Expected tensor for %s to have same size as tensor for %s, but %s does not equal %s.", "out", "self",
               atlas_shape(out->view, out->rank).text, atlas_shape(self->view, self->rank).text);
    atlas_call c = {.op = "aclnnCast", .x = self, .out = out, .names = CAST_NAMES};
    if (self->dtype == out->dtype && atlas_is_contiguous(self) && !atlas_needs_view_copy(atlas_soc(), out)) {
        c.kernel = "TensorMove";
        c.recorded = "copy";
    }
    return move(&c, workspaceSize, executor);
}

ATLAS_PHASE_2(aclnnInplaceCopy)
ATLAS_PHASE_2(aclnnCast)

/* aclnnMul, aclnnAdd and aclnnSub, with a scalar (…s) and in place (aclnnInplace…).

   Which kernels a call comes to, and in which dtype they compute, follows ops-math: math/mul, math/add and
   math/sub, op_api. Of its dtypes the floating ones are emulated. */
#include <math.h>
#include <stdio.h>
#include <float.h>

#include "elementwise.h"

#pragma GCC visibility push(default)
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_sub.h"
#pragma GCC visibility pop

static const char *const WITH_TENSOR[] = {"self", "other", "out"};
static const char *const TENSOR_IN_PLACE[] = {"selfRef", "other", "selfRef"};
static const char *const WITH_SCALAR[] = {"self", "out"}, *const SCALAR_IN_PLACE[] = {"selfRef", "selfRef"};

static const char *const KERNELS[] = {"Mul", "Add", "Sub"}, *const RECORDED[] = {"mul", "add", "sub"};

#define REFUSE(...) return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, __VA_ARGS__)

/* 0, or the refusal of what is no real number. */
static int read_scalar(const char *name, const aclScalar *scalar, double *value, int *dtype)
{
    atlas_scalar found;
    int64_t whole;
    if (scalar == NULL)
        return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "Expected a proper Tensor but got null for argument %s.", name);
    if (!atlas_scalar_of(scalar, &found))
        REFUSE("%s is no aclScalar, or was destroyed.", name);
    if (!atlas_scalar_number(&found, value, &whole))
        REFUSE("%s of %s is not emulated: no real number.", name, atlas_dtype_text(found.dtype));
    *dtype = found.dtype;
    return 0;
}

static bool is_floating(int dtype)
{
    return dtype == ACL_FLOAT || dtype == ACL_DOUBLE || atlas_type_of(dtype) >= 0;
}

/* Whether a number is kept by a type as far as the vendor's check looks. */
static bool keeps(int type, double value)
{
    float given = (float)value, kept = given, back;
    void *result = NULL, *error = NULL;
    uint16_t half;
    if (type != TYPE_FLOAT32) {
        const atlas_numerics *n = &atlas_numerics_table[atlas_soc()->numerics];
        bool saturates = atlas_soc()->saturates_first;
        if (n->cast[TYPE_FLOAT32][type][saturates](&result, &error, 0, 1, ARGUMENTS_1D(&given, (int64_t)1, 4),
                                                   ARGUMENTS_1D(&half, (int64_t)1, 2)) != 0 ||
            n->cast[type][TYPE_FLOAT32][saturates](&result, &error, 0, 1, ARGUMENTS_1D(&half, (int64_t)1, 2),
                                                   ARGUMENTS_1D(&back, (int64_t)1, 4)) != 0)
            return false;
        kept = back;
    }
    return fabsf(kept - given) <= FLT_EPSILON;
}

/* Dtypes and ranks of all tensors, other and out may be NULL. */
static int check_types(const char *const *names, const aclTensor *self, const aclTensor *other, const aclTensor *out)
{
    const aclTensor *const t[] = {self, other, out};
    const char *const called[] = {names[0], other != NULL ? names[1] : "", names[other != NULL ? 2 : 1]};
    int status = 0, last = self == out ? 2 : 3;
    for (int i = 0; i < last && status == 0; i++)
        if (t[i] != NULL)
            status = atlas_check_type(atlas_soc(), called[i], t[i]);
    for (int i = 0; i < last; i++)
        if (status == 0 && t[i] != NULL && t[i]->rank > MOST_RANK)
            REFUSE(TEXT_RANK, called[i], atlas_number(MOST_RANK).text);
    return status;
}

/* What alpha makes of the call, once its type is known. */
static void scale(atlas_call *c, double alpha)
{
    float single = (float)alpha;
    if (!(single > 1 || single < 1)) /* a NaN counts as one there, too */
        return;
    c->alpha = alpha;
    c->fused = c->type != TYPE_BFLOAT16 || atlas_soc()->npu_arch == 3510;
    if (c->fused) {
        c->kernel = "Axpy";
        c->recorded = NULL;
    }
}

static aclnnStatus with_tensor(const char *op, int pair, const aclTensor *self, const aclTensor *other,
                               const aclScalar *alpha, bool takes_alpha, aclTensor *out, uint64_t *workspaceSize,
                               aclOpExecutor **executor)
{
    bool in_place = self == out;
    const char *const *names = in_place ? TENSOR_IN_PLACE : WITH_TENSOR;
    const aclTensor *const t[] = {self, other};
    double factor = 1;
    int dtype;
    aclnnStatus status = atlas_phase_1_begin(t, 2, names, workspaceSize, executor);
    if (status == 0 && takes_alpha)
        status = read_scalar("alpha", alpha, &factor, &dtype);
    if (status == 0 && !in_place)
        status = atlas_phase_1_begin((const aclTensor *const[]){out}, 1, &names[2], workspaceSize, executor);
    if (status == 0)
        status = check_types(names, self, other, out);
    if (status != 0)
        return status;
    int64_t joined[MOST_RANK];
    uint64_t rank;
    if (!atlas_broadcast(self->view, self->rank, other->view, other->rank, joined, &rank))
        REFUSE("The size of tensor %s %s must match the size of tensor %s %s.", names[0],
               atlas_shape(self->view, self->rank).text, names[1], atlas_shape(other->view, other->rank).text);
    aclTensor wanted = {.rank = rank, .view = joined};
    if (!atlas_same_shape(out, &wanted))
        REFUSE("Expected tensor for %s to have same size as %s, but got %s.", names[2],
               atlas_shape(joined, rank).text, atlas_shape(out->view, out->rank).text);
    int mine = atlas_type_of(self->dtype), others = atlas_type_of(other->dtype);
    int type = mine == others ? mine : TYPE_FLOAT32;
    bool mixed = mine != others && (mine == TYPE_FLOAT32 || others == TYPE_FLOAT32);
    atlas_call c = {.op = op,
                    .pair = pair,
                    .x = self,
                    .y = other,
                    .out = out,
                    .names = names,
                    .type = type,
                    .scalar_type = type,
                    .alpha = 1,
                    .kernel = KERNELS[pair],
                    .recorded = RECORDED[pair]};
    scale(&c, factor);
    c.casts_first = !mixed || c.alpha != 1;
    return atlas_build_elementwise(&c, workspaceSize, executor);
}

/* The dtype and the kernel of a product with a scalar. */
static void choose_product(atlas_call *c, int type, int dtype)
{
    bool registers = atlas_soc()->npu_arch == 3510;
    bool muls = type != TYPE_FLOAT32 && registers && is_floating(dtype);
    muls |= type == TYPE_BFLOAT16 && !registers && dtype == ACL_DOUBLE;
    if (muls) {
        /* Its factor is a float32 and is not rounded. */
        c->type = type;
        c->scalar_type = TYPE_FLOAT32;
        c->kernel = "Muls";
        c->recorded = "muls";
        return;
    }
    bool wide = registers ? type != TYPE_FLOAT32 && !keeps(type, c->scalar) : type == TYPE_BFLOAT16;
    c->type = c->scalar_type = wide ? TYPE_FLOAT32 : type;
}

static aclnnStatus with_scalar(const char *op, int pair, const aclTensor *self, const aclScalar *other,
                               const aclScalar *alpha, bool takes_alpha, aclTensor *out, uint64_t *workspaceSize,
                               aclOpExecutor **executor)
{
    bool in_place = self == out;
    const char *const *names = in_place ? SCALAR_IN_PLACE : WITH_SCALAR;
    atlas_call c = {.op = op,
                    .pair = pair,
                    .x = self,
                    .out = out,
                    .names = names,
                    .alpha = 1,
                    .kernel = KERNELS[pair],
                    .recorded = RECORDED[pair],
                    .casts_first = true};
    double factor = 1;
    int dtype = ACL_FLOAT, unused;
    aclnnStatus status = atlas_phase_1_begin(&self, 1, names, workspaceSize, executor);
    if (status == 0)
        status = read_scalar("other", other, &c.scalar, &dtype);
    if (status == 0 && takes_alpha)
        status = read_scalar("alpha", alpha, &factor, &unused);
    if (status == 0 && !in_place)
        status = atlas_phase_1_begin((const aclTensor *const[]){out}, 1, &names[1], workspaceSize, executor);
    if (status == 0)
        status = check_types(names, self, NULL, out);
    if (status != 0)
        return status;
    if (!atlas_same_shape(self, out))
        REFUSE("Expected tensor for %s to have same size as tensor for %s, but %s does not equal %s.", names[0], names[1],
               atlas_shape(self->view, self->rank).text, atlas_shape(out->view, out->rank).text);
    int type = atlas_type_of(self->dtype);
    if (pair == PAIR_MUL) {
        choose_product(&c, type, dtype);
    } else {
        bool kept = atlas_soc()->npu_arch != 3510 || (keeps(type, c.scalar) && keeps(type, factor));
        c.type = c.scalar_type = kept ? type : TYPE_FLOAT32;
        scale(&c, factor);
    }
    return atlas_build_elementwise(&c, workspaceSize, executor);
}

#define PHASE_1(name, ...) aclnnStatus name##GetWorkspaceSize(__VA_ARGS__, uint64_t *workspaceSize, aclOpExecutor **executor)

PHASE_1(aclnnMul, const aclTensor *self, const aclTensor *other, aclTensor *out)
{
    return with_tensor("aclnnMul", PAIR_MUL, self, other, NULL, false, out, workspaceSize, executor);
}

PHASE_1(aclnnMuls, const aclTensor *self, const aclScalar *other, aclTensor *out)
{
    return with_scalar("aclnnMuls", PAIR_MUL, self, other, NULL, false, out, workspaceSize, executor);
}

PHASE_1(aclnnInplaceMul, aclTensor *selfRef, const aclTensor *other)
{
    return with_tensor("aclnnInplaceMul", PAIR_MUL, selfRef, other, NULL, false, selfRef, workspaceSize, executor);
}

PHASE_1(aclnnInplaceMuls, aclTensor *selfRef, const aclScalar *other)
{
    return with_scalar("aclnnInplaceMuls", PAIR_MUL, selfRef, other, NULL, false, selfRef, workspaceSize, executor);
}

PHASE_1(aclnnAdd, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out)
{
    return with_tensor("aclnnAdd", PAIR_ADD, self, other, alpha, true, out, workspaceSize, executor);
}

PHASE_1(aclnnAdds, const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out)
{
    return with_scalar("aclnnAdds", PAIR_ADD, self, other, alpha, true, out, workspaceSize, executor);
}

PHASE_1(aclnnInplaceAdd, aclTensor *selfRef, const aclTensor *other, const aclScalar *alpha)
{
    return with_tensor("aclnnInplaceAdd", PAIR_ADD, selfRef, other, alpha, true, selfRef, workspaceSize, executor);
}

PHASE_1(aclnnInplaceAdds, aclTensor *selfRef, const aclScalar *other, const aclScalar *alpha)
{
    return with_scalar("aclnnInplaceAdds", PAIR_ADD, selfRef, other, alpha, true, selfRef, workspaceSize, executor);
}

PHASE_1(aclnnSub, const aclTensor *self, const aclTensor *other, const aclScalar *alpha, aclTensor *out)
{
    return with_tensor("aclnnSub", PAIR_SUB, self, other, alpha, true, out, workspaceSize, executor);
}

PHASE_1(aclnnSubs, const aclTensor *self, const aclScalar *other, const aclScalar *alpha, aclTensor *out)
{
    return with_scalar("aclnnSubs", PAIR_SUB, self, other, alpha, true, out, workspaceSize, executor);
}

PHASE_1(aclnnInplaceSub, aclTensor *selfRef, const aclTensor *other, const aclScalar *alpha)
{
    return with_tensor("aclnnInplaceSub", PAIR_SUB, selfRef, other, alpha, true, selfRef, workspaceSize, executor);
}

PHASE_1(aclnnInplaceSubs, aclTensor *selfRef, const aclScalar *other, const aclScalar *alpha)
{
    return with_scalar("aclnnInplaceSubs", PAIR_SUB, selfRef, other, alpha, true, selfRef, workspaceSize, executor);
}

ATLAS_PHASE_2(aclnnMul)
ATLAS_PHASE_2(aclnnMuls)
ATLAS_PHASE_2(aclnnInplaceMul)
ATLAS_PHASE_2(aclnnInplaceMuls)
ATLAS_PHASE_2(aclnnAdd)
ATLAS_PHASE_2(aclnnAdds)
ATLAS_PHASE_2(aclnnInplaceAdd)
ATLAS_PHASE_2(aclnnInplaceAdds)
ATLAS_PHASE_2(aclnnSub)
ATLAS_PHASE_2(aclnnSubs)
ATLAS_PHASE_2(aclnnInplaceSub)
ATLAS_PHASE_2(aclnnInplaceSubs)

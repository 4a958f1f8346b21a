/* Shapes and views of tensors as phase 1 checks them; what is said of them in messages. */
#ifndef ATLAS_EMU_VIEWS_H
#define ATLAS_EMU_VIEWS_H

#include "chips.h"
#include "nn.h"

/* Dimensions as messages have them: [17,2048]. */
typedef struct {
    char text[256];
} atlas_shape_text;

typedef struct {
    char text[48];
} atlas_number_text;

atlas_shape_text atlas_shape(const int64_t *dims, uint64_t rank);
/* __int128, for what may leave an int64. */
atlas_number_text atlas_number(__int128 value);

/* Of dimensions, held at the end of the range where it leaves it. */
__int128 atlas_product(const int64_t *dims, uint64_t rank);
/* Aligned at their last dimensions, for ranks of at most MOST_RANK; false where two disagree. */
bool atlas_broadcast(const int64_t *a, uint64_t a_rank, const int64_t *b, uint64_t b_rank, int64_t *joined,
                     uint64_t *rank);
bool atlas_same_shape(const aclTensor *a, const aclTensor *b);
bool atlas_is_empty(const aclTensor *t);
/* For tensors whose size was checked. */
bool atlas_is_contiguous(const aclTensor *t);
/* Whether a kernel cannot write its result right into out, so that a ViewCopy follows. */
bool atlas_needs_view_copy(const atlas_chip *chip, const aclTensor *out);

/* 0, or the refusal of a tensor that no executor can be built for; name as messages about views have it. */
int atlas_check_size(const char *name, const aclTensor *t);
int atlas_check_strides(const char *name, const aclTensor *t);

/* The format is one of TEXT_*, whose values are all texts. */
#define CANNOT_BUILD(format, ...)                                                                             \
    do {                                                                                                      \
        char reason[ATLAS_TEXT];                                                                              \
        snprintf(reason, sizeof reason, format, __VA_ARGS__);                                                 \
        return atlas_nn_fail(ACLNN_ERR_INNER_NULLPTR, TEXT_BUILD, reason);                                    \
    } while (0)

#endif

/* Short ways for the C clients. */
#ifndef CLIENT_H
#define CLIENT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_mse_loss_backward.h"

#define CHECK(call)                                                             \
    do {                                                                        \
        int status_ = (int)(call);                                              \
        if (status_ != 0) {                                                     \
            const char *text_ = aclGetRecentErrMsg();                           \
            printf("%s: %d\n%s", #call, status_, text_ == NULL ? "" : text_);   \
            exit(1);                                                            \
        }                                                                       \
    } while (0)

/* The status of a call, and the text of its message without the head. */
#define TELL(call)                                                              \
    do {                                                                        \
        int status_ = (int)(call);                                              \
        const char *text_ = aclGetRecentErrMsg();                               \
        const char *body_ = text_ == NULL ? NULL : strstr(text_, "): ");        \
        printf("%-44s %6d %s", #call, status_, body_ == NULL ? "-\n" : body_ + 3); \
    } while (0)

typedef struct {
    void *memory;
    aclTensor *tensor;
} array;

static inline array make_array(const float *values, int64_t count)
{
    array a = {NULL, NULL};
    size_t bytes = (size_t)count * sizeof *values;
    CHECK(aclrtMalloc(&a.memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    if (values != NULL)
        CHECK(aclrtMemcpy(a.memory, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    a.tensor = aclCreateTensor(&count, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &count, 1, a.memory);
    if (a.tensor == NULL)
        exit(1);
    return a;
}

static inline void drop_array(array a)
{
    CHECK(aclDestroyTensor(a.tensor));
    CHECK(aclrtFree(a.memory));
}

static inline void launch(array g, array x, array y, int64_t reduction, array out, void *workspace, aclrtStream stream)
{
    uint64_t size;
    aclOpExecutor *executor;
    CHECK(aclnnMseLossBackwardGetWorkspaceSize(g.tensor, x.tensor, y.tensor, reduction, out.tensor, &size, &executor));
    CHECK(aclnnMseLossBackward(workspace, size, executor, stream));
}

#endif

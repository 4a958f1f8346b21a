/* The gradient of the mean squared error over 2 x 4 float32 elements: all that a client of the two-phase API does. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_mse_loss_backward.h"

/* The text says more than the status; it belongs to the thread, and reading it clears it. */
static void check(int status, const char *call)
{
    if (status == ACL_SUCCESS)
        return;
    const char *text = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d\n%s\n", call, status, text == NULL ? "" : text);
    exit(1);
}
#define CHECK(call) check((int)(call), #call)

enum { ROWS = 2, COLUMNS = 4, COUNT = ROWS * COLUMNS };

typedef struct {
    void *memory;
    aclTensor *tensor;
} array;

static array to_device(const float *values)
{
    const int64_t dims[] = {ROWS, COLUMNS}, strides[] = {COLUMNS, 1};
    const size_t bytes = COUNT * sizeof(float);
    array a;
    CHECK(aclrtMalloc(&a.memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    if (values != NULL)
        CHECK(aclrtMemcpy(a.memory, bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    a.tensor = aclCreateTensor(dims, 2, ACL_FLOAT, strides, 0, ACL_FORMAT_ND, dims, 2, a.memory);
    if (a.tensor == NULL)
        check(ACL_ERROR_INVALID_PARAM, "aclCreateTensor");
    return a;
}

static void drop(array a)
{
    CHECK(aclDestroyTensor(a.tensor));
    CHECK(aclrtFree(a.memory));
}

int main(void)
{
    float ones[COUNT], predicted[COUNT], wanted[COUNT], found[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ones[i] = 1.0f;
        predicted[i] = (float)i;
        wanted[i] = 1.0f;
    }

    aclrtStream stream;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    array grad = to_device(ones), self = to_device(predicted), target = to_device(wanted), out = to_device(NULL);

    /* Phase 1 checks the tensors, chooses the kernels and tells how much device memory they need besides. */
    const int64_t mean = 1; /* 0: none, 2: sum */
    uint64_t size;
    aclOpExecutor *executor;
    CHECK(aclnnMseLossBackwardGetWorkspaceSize(grad.tensor, self.tensor, target.tensor, mean, out.tensor, &size,
                                               &executor));
    void *workspace = NULL;
    if (size > 0)
        CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    /* Phase 2 enqueues them and ends the executor; the result is there once the stream is synchronised. */
    CHECK(aclnnMseLossBackward(workspace, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(found, sizeof found, out.memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
    for (int i = 0; i < COUNT; i++)
        printf("%g%s", found[i], i + 1 < COUNT ? " " : "\n");

    drop(grad);
    drop(self);
    drop(target);
    drop(out);
    if (workspace != NULL)
        CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

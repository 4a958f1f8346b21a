/* Device time between two events around some launches of a bfloat16 call with a scalar gradient. */
#include "client.h"

int main(void)
{
    enum { ROWS = 512, COLUMNS = 1024 };
    int64_t dims[] = {ROWS, COLUMNS}, turned[] = {1, ROWS};
    void *memory[4], *workspace;
    aclTensor *tensors[4];
    aclrtStream stream;
    aclrtEvent begin, end;
    float ms;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateEvent(&begin));
    CHECK(aclrtCreateEvent(&end));
    for (int i = 0; i < 4; i++) {
        CHECK(aclrtMalloc(&memory[i], ROWS * COLUMNS * 4, ACL_MEM_MALLOC_HUGE_FIRST));
        tensors[i] = aclCreateTensor(dims, i == 0 ? 0 : 2, i == 3 ? ACL_FLOAT : ACL_BF16, i == 2 ? turned : NULL, 0,
                                     ACL_FORMAT_ND, dims, i == 0 ? 0 : 2, memory[i]);
    }
    CHECK(aclrtRecordEvent(begin, stream));
    for (int i = 0; i < 3; i++) {
        uint64_t size;
        aclOpExecutor *executor;
        CHECK(aclnnMseLossBackwardGetWorkspaceSize(tensors[0], tensors[1], tensors[2], 1, tensors[3], &size, &executor));
        CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK(aclnnMseLossBackward(workspace, size, executor, stream));
        CHECK(aclrtSynchronizeStream(stream));
        CHECK(aclrtFree(workspace));
    }
    CHECK(aclrtRecordEvent(end, stream));
    CHECK(aclrtSynchronizeEvent(end));
    CHECK(aclrtEventElapsedTime(&ms, begin, end));
    printf("%.9g\n", (double)ms * 1e3);
    for (int i = 0; i < 4; i++) {
        CHECK(aclDestroyTensor(tensors[i]));
        CHECK(aclrtFree(memory[i]));
    }
    CHECK(aclrtDestroyEvent(begin));
    CHECK(aclrtDestroyEvent(end));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 3;
}

/* The loss of no elements: four bytes where out lies, by overflow mode, dtype and reduction. */
#include "aclnnop/aclnn_mse_loss.h"
#include "client.h"

int main(void)
{
    static const aclDataType dtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};
    static const int64_t none[] = {0, 4}, steps[] = {4, 1};
    uint64_t size;
    aclOpExecutor *executor;
    aclrtStream stream;
    void *memory;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMalloc(&memory, 32, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int mode = 0; mode < 2; mode++) {
        CHECK(aclrtSetDeviceSatMode(mode == 0 ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION));
        CHECK(aclrtCreateStream(&stream));
        for (int k = 0; k < 3; k++)
            for (int64_t reduction = 0; reduction < 3; reduction++) {
                uint32_t bits = 0x11111111;
                CHECK(aclrtMemcpy(memory, 32, &bits, sizeof bits, ACL_MEMCPY_HOST_TO_DEVICE));
                aclTensor *x = aclCreateTensor(none, 2, dtypes[k], steps, 0, ACL_FORMAT_ND, none, 2, NULL);
                aclTensor *out = reduction == 0
                                     ? aclCreateTensor(none, 2, dtypes[k], steps, 0, ACL_FORMAT_ND, none, 2, memory)
                                     : aclCreateTensor(NULL, 0, dtypes[k], NULL, 0, ACL_FORMAT_ND, NULL, 0, memory);
                CHECK(aclnnMseLossGetWorkspaceSize(x, x, reduction, out, &size, &executor));
                CHECK(aclnnMseLoss(NULL, size, executor, stream));
                CHECK(aclrtSynchronizeStream(stream));
                CHECK(aclrtMemcpy(&bits, sizeof bits, memory, sizeof bits, ACL_MEMCPY_DEVICE_TO_HOST));
                printf("%08x\n", bits);
                CHECK(aclDestroyTensor(x));
                CHECK(aclDestroyTensor(out));
            }
        CHECK(aclrtDestroyStream(stream));
    }
    CHECK(aclrtFree(memory));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

/* Contexts, devices, queries of the chip, and functions that are not emulated. */
#include "client.h"

extern int aclopCompileAndExecute(const char *, int);
extern int aclmdlLoadFromFile(const char *, uint32_t *);

int main(void)
{
    aclrtContext first, second, found;
    aclrtStream stream, other;
    uint32_t count, model;
    int32_t device, major, minor, patch;
    int64_t number;
    size_t free_bytes, total;
    aclrtRunMode mode;
    aclCANNPackageVersion version;
    void *memory;
    CHECK(aclInit(""));
    CHECK(aclrtGetDeviceCount(&count));
    CHECK(aclrtGetRunMode(&mode));
    CHECK(aclrtGetVersion(&major, &minor, &patch));
    CHECK(aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
    printf("%s, %u devices, on the host: %d, %d.%d.%d, %s.%s\n", aclrtGetSocName(), count, (int)mode, (int)major,
           (int)minor, (int)patch, version.majorVersion, version.minorVersion);
    CHECK(aclGetDeviceCapability(0, ACL_DEVICE_INFO_VECTOR_CORE_NUM, &number));
    printf("%d vector cores\n", (int)number);
    CHECK(aclrtCreateContext(&first, 0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateContext(&second, 1));
    CHECK(aclrtGetCurrentContext(&found));
    CHECK(aclrtGetDevice(&device));
    printf("the second: %d, device %d\n", found == second, (int)device);
    TELL(aclrtSynchronizeStream(NULL));
    printf("stream of another context: %d\n", (int)aclrtSynchronizeStream(stream));
    CHECK(aclrtSetCurrentContext(first));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtCreateStream(&other));
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    printf("all free: %d\n", free_bytes == total);
    CHECK(aclrtMalloc(&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    printf("taken: %d, on 64 bytes: %d\n", (int)(total - free_bytes), (uintptr_t)memory % 64 == 0);
    printf("too much: %d\n", (int)aclrtMalloc(&memory, (size_t)1 << 60, ACL_MEM_MALLOC_HUGE_FIRST));
    aclGetRecentErrMsg();
    CHECK(aclrtFree(memory));
    CHECK(aclrtDestroyContext(first)); /* with its streams */
    printf("destroyed: %d\n", (int)aclrtSetCurrentContext(first));
    CHECK(aclrtSetCurrentContext(second));
    printf("gone with its context: %d\n", (int)aclrtSynchronizeStream(other));
    aclGetRecentErrMsg();
    TELL(aclopCompileAndExecute("MseLoss", 0));
    TELL(aclmdlLoadFromFile("model.om", &model));
    printf("last error: %d, ", (int)aclrtGetLastError(ACL_RT_THREAD_LEVEL));
    printf("then %d\n", (int)aclrtPeekAtLastError(ACL_RT_THREAD_LEVEL));
    CHECK(aclrtDestroyContext(second));
    CHECK(aclFinalize());
    return 0;
}

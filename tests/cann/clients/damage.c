/* Writes behind an allocation, uses one that was freed, leaks one, and mistakes host memory for the device's. */
#include "client.h"

int main(void)
{
    char *memory, host[16] = {0};
    void *leak;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMalloc((void **)&memory, 100, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&leak, 24, ACL_MEM_MALLOC_HUGE_FIRST));
    memory[160] = 1; /* 100 rounded up to 32 and 32 more belong to the allocation */
    aclrtFree(memory);
    aclrtMemcpy(memory, 16, host, 16, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemcpy(host, 16, host + 0, 8, ACL_MEMCPY_HOST_TO_DEVICE);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

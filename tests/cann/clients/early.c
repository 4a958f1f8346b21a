/* Reads the result before the stream is synchronised, which is a mistake. */
#include "client.h"

int main(void)
{
    float one[] = {3}, none[] = {2}, found;
    void *workspace;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    array g = make_array(one, 1), x = make_array(one, 1), y = make_array(none, 1), out = make_array(NULL, 1);
    launch(g, x, y, 0, out, workspace, NULL);
    CHECK(aclrtMemcpy(&found, sizeof found, out.memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("early: %g\n", found < 0 || found >= 0 ? found : __builtin_nanf(""));
    CHECK(aclrtSynchronizeStream(NULL));
    CHECK(aclrtMemcpy(&found, sizeof found, out.memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("afterwards: %g\n", found);
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

/* The gradient of a sum over four elements, in C. */
#include "client.h"

int main(void)
{
    aclrtStream stream;
    float values[] = {0, 1, 2, 3}, ones[] = {1, 1, 1, 1}, found[4];
    void *workspace;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMalloc(&workspace, 1 << 12, ACL_MEM_MALLOC_HUGE_FIRST));
    array g = make_array(values, 4), x = make_array(values, 4), y = make_array(ones, 4), out = make_array(NULL, 4);
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        launch(g, x, y, reduction, out, workspace, stream);
        CHECK(aclrtSynchronizeStream(stream));
        CHECK(aclrtMemcpy(found, sizeof found, out.memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
        printf("%d: %g %g %g %g\n", (int)reduction, found[0], found[1], found[2], found[3]);
    }
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

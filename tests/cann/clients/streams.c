/* Two streams, of which the second waits for an event of the first: its device time in microseconds. */
#include "client.h"

int main(void)
{
    float values[4096] = {0}, ms;
    aclrtStream first, second;
    aclrtEvent begin, between, end;
    void *workspace;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&first));
    CHECK(aclrtCreateStream(&second));
    CHECK(aclrtCreateEvent(&begin));
    CHECK(aclrtCreateEvent(&between));
    CHECK(aclrtCreateEvent(&end));
    CHECK(aclrtMalloc(&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    array g = make_array(values, 4096), x = make_array(values, 4096), y = make_array(values, 4096);
    array out = make_array(NULL, 4096), other = make_array(NULL, 4096);
    CHECK(aclrtRecordEvent(begin, first));
    for (int i = 0; i < 3; i++)
        launch(g, x, y, 0, out, workspace, first);
    CHECK(aclrtRecordEvent(between, first));
    launch(g, x, y, 0, other, workspace, second);
    CHECK(aclrtStreamWaitEvent(second, between));
    launch(g, x, y, 1, other, workspace, second);
    CHECK(aclrtRecordEvent(end, second));
    CHECK(aclrtSynchronizeEvent(end));
    CHECK(aclrtEventElapsedTime(&ms, begin, end));
    printf("%.9g\n", (double)ms * 1e3);
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    drop_array(other);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyEvent(begin));
    CHECK(aclrtDestroyEvent(between));
    CHECK(aclrtDestroyEvent(end));
    CHECK(aclrtDestroyStream(first));
    CHECK(aclrtDestroyStream(second));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

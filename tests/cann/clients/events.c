/* Two streams, ordered by an event; queries, elapsed time, asynchronous copies. */
#include "client.h"

enum { ELEMENTS = 1 << 16 };

int main(void)
{
    aclrtStream first, second;
    aclrtEvent ready, begin, end, fresh;
    aclrtEventRecordedStatus status;
    aclrtStreamStatus done;
    float *host, ms;
    CHECK(aclInit(""));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStreamWithConfig(&first, 0, ACL_STREAM_FAST_LAUNCH));
    CHECK(aclrtCreateStream(&second));
    CHECK(aclrtCreateEvent(&ready));
    CHECK(aclrtCreateEventWithFlag(&begin, ACL_EVENT_TIME_LINE));
    CHECK(aclrtCreateEventWithFlag(&end, ACL_EVENT_TIME_LINE));
    CHECK(aclrtCreateEventExWithFlag(&fresh, ACL_EVENT_SYNC));
    CHECK(aclrtQueryEventStatus(fresh, &status));
    printf("never recorded: %d\n", (int)status);
    CHECK(aclrtMallocHost((void **)&host, ELEMENTS * sizeof *host));
    for (int i = 0; i < ELEMENTS; i++)
        host[i] = (float)(i % 7);
    void *workspace;
    CHECK(aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    array g = make_array(host, ELEMENTS), x = make_array(host, ELEMENTS), y = make_array(NULL, ELEMENTS);
    array out = make_array(NULL, ELEMENTS);
    CHECK(aclrtRecordEvent(begin, first));
    CHECK(aclrtMemsetAsync(y.memory, ELEMENTS * sizeof *host, 0, ELEMENTS * sizeof *host, first));
    launch(g, x, y, 0, out, workspace, first);
    CHECK(aclrtRecordEvent(ready, first));
    CHECK(aclrtStreamWaitEvent(second, ready));
    CHECK(aclrtMemcpyAsync(host, ELEMENTS * sizeof *host, out.memory, ELEMENTS * sizeof *host,
                           ACL_MEMCPY_DEVICE_TO_HOST, second));
    CHECK(aclrtSynchronizeStream(second));
    CHECK(aclrtRecordEvent(end, first));
    CHECK(aclrtSynchronizeEvent(end));
    CHECK(aclrtQueryEventStatus(end, &status));
    CHECK(aclrtEventElapsedTime(&ms, begin, end));
    printf("reached: %d, in order: %d\n", (int)status, ms >= 0);
    printf("reversed: %d\n", (int)aclrtEventElapsedTime(&ms, end, begin));
    printf("never: %d\n", (int)aclrtEventElapsedTime(&ms, fresh, end));
    for (int i = 0; i < ELEMENTS; i++)
        if (host[i] != (float)(i % 7) * 2 * (float)(i % 7))
            return printf("element %d is %g\n", i, host[i]);
    CHECK(aclrtStreamQuery(first, &done));
    printf("complete: %d\n", (int)done);
    CHECK(aclrtSynchronizeDevice());
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtFreeHost(host));
    CHECK(aclrtDestroyEvent(ready));
    CHECK(aclrtDestroyEvent(begin));
    CHECK(aclrtDestroyEvent(end));
    CHECK(aclrtDestroyEvent(fresh));
    CHECK(aclrtDestroyStream(first));
    CHECK(aclrtDestroyStreamForce(second));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

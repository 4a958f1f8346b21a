/* Work that comes to a stream, and its end, while another thread waits for it and runs its tasks. */
#include <pthread.h>
#include <time.h>

#include "client.h"

enum { ELEMENTS = 1 << 20 };

static aclrtContext context;
static aclrtStream stream;
static aclrtEvent event;
static int ends;

static void nap(long microseconds)
{
    struct timespec time = {0, microseconds * 1000};
    nanosleep(&time, NULL);
}

static void *late(void *unused)
{
    (void)unused;
    CHECK(aclrtSetCurrentContext(context));
    nap(300);
    CHECK(aclrtRecordEvent(event, stream));
    if (ends)
        CHECK(aclrtDestroyStream(stream));
    return NULL;
}

int main(int count, char **arguments)
{
    int rounds = count > 1 ? atoi(arguments[1]) : 50;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtGetCurrentContext(&context));
    CHECK(aclrtCreateEvent(&event));
    float *zeros = calloc(ELEMENTS, sizeof *zeros);
    array g = make_array(zeros, ELEMENTS), x = make_array(zeros, ELEMENTS), y = make_array(zeros, ELEMENTS);
    array out = make_array(NULL, ELEMENTS);
    void *workspace;
    CHECK(aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int round = 0; round < 2 * rounds; round++) {
        ends = round % 2;
        if (!ends)
            CHECK(aclrtCreateStream(&stream));
        for (int k = 0; k < 4; k++)
            launch(g, x, y, 0, out, workspace, stream);
        pthread_t thread;
        pthread_create(&thread, NULL, late, NULL);
        int status = (int)aclrtSynchronizeStream(stream);
        pthread_join(thread, NULL);
        /* The other thread may have ended the stream before this one came. */
        if (status != 0 && !(ends && status == ACL_ERROR_RT_INVALID_HANDLE)) {
            printf("round %d: %d\n", round, status);
            return 1;
        }
        /* Nothing waits for the event: the stream's own thread has to come to it. */
        aclrtEventRecordedStatus reached = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        for (int tries = 0; tries < 20000 && reached != ACL_EVENT_RECORDED_STATUS_COMPLETE; tries++) {
            CHECK(aclrtQueryEventStatus(event, &reached));
            nap(500);
        }
        if (reached != ACL_EVENT_RECORDED_STATUS_COMPLETE) {
            printf("round %d: the event is not reached\n", round);
            return 1;
        }
    }
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    free(zeros);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyEvent(event));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    printf("%d rounds\n", rounds);
    return 0;
}

/* Threads that do at random, on streams and events which they share, all that can be ordered or waited for.

   A wait is always for what was recorded before, so that everything has to end. */
#include <pthread.h>

#include "client.h"

enum { ELEMENTS = 1024, STREAMS = 3, EVENTS = 4, MOST_THREADS = 16 };

static aclrtContext context;
static aclrtStream streams[STREAMS];
static aclrtEvent events[EVENTS];
static array g, x, y, outs[STREAMS];
static void *workspace;
static int rounds = 100;

static unsigned next(unsigned *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 16;
}

static void *work(void *argument)
{
    unsigned state = 12345u + 977u * (unsigned)(uintptr_t)argument;
    aclrtStream own;
    CHECK(aclrtSetCurrentContext(context));
    CHECK(aclrtCreateStream(&own));
    for (int k = 0; k < rounds; k++) {
        unsigned which = next(&state) % (STREAMS + 1);
        aclrtStream stream = which == STREAMS ? own : streams[which];
        aclrtEvent event = events[next(&state) % EVENTS];
        aclrtEventRecordedStatus recorded;
        aclrtStreamStatus status;
        switch (next(&state) % 9) {
        case 0:
            if (which < STREAMS)
                launch(g, x, y, 0, outs[which], workspace, stream);
            break;
        case 1:
        case 2:
            CHECK(aclrtRecordEvent(event, stream));
            break;
        case 3:
        case 4:
            CHECK(aclrtStreamWaitEvent(stream, event));
            break;
        case 5:
            CHECK(aclrtSynchronizeStream(stream));
            break;
        case 6:
            CHECK(aclrtSynchronizeEvent(event));
            break;
        case 7:
            CHECK(aclrtQueryEventStatus(event, &recorded));
            CHECK(aclrtStreamQuery(stream, &status));
            break;
        default:
            CHECK(aclrtDestroyStream(own));
            CHECK(aclrtCreateStream(&own));
        }
    }
    CHECK(aclrtDestroyStream(own));
    return NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    rounds = count > 2 ? atoi(arguments[2]) : rounds;
    pthread_t ids[MOST_THREADS];
    float values[ELEMENTS], found[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)i;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtGetCurrentContext(&context));
    CHECK(aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    g = make_array(values, ELEMENTS);
    x = make_array(values, ELEMENTS);
    y = make_array(values, ELEMENTS);
    CHECK(aclrtMemset(y.memory, sizeof values, 0, sizeof values));
    for (int i = 0; i < STREAMS; i++) {
        CHECK(aclrtCreateStream(&streams[i]));
        outs[i] = make_array(NULL, ELEMENTS);
        launch(g, x, y, 0, outs[i], workspace, streams[i]);
    }
    for (int i = 0; i < EVENTS; i++)
        CHECK(aclrtCreateEvent(&events[i]));
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, (void *)(uintptr_t)i);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    CHECK(aclrtSynchronizeDevice());
    for (int i = 0; i < STREAMS; i++) {
        CHECK(aclrtMemcpy(found, sizeof found, outs[i].memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int k = 0; k < ELEMENTS; k++)
            if (found[k] != (float)k * 2.0f * (float)k)
                return printf("stream %d, element %d: %g\n", i, k, found[k]);
        drop_array(outs[i]);
        CHECK(aclrtDestroyStream(streams[i]));
    }
    for (int i = 0; i < EVENTS; i++)
        CHECK(aclrtDestroyEvent(events[i]));
    CHECK(aclrtFree(workspace));
    drop_array(g);
    drop_array(x);
    drop_array(y);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    printf("%d threads x %d calls\n", threads, rounds);
    return 0;
}

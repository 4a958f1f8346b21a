/* Threads with streams of their own, each launching many times; every result is checked. */
#include <pthread.h>

#include "client.h"

enum { ELEMENTS = 16 };
static int launches = 100;

static void *work(void *argument)
{
    int number = (int)(intptr_t)argument;
    aclrtStream stream;
    float gs[ELEMENTS], xs[ELEMENTS], ys[ELEMENTS], found[ELEMENTS];
    void *workspace;
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMalloc(&workspace, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    for (int i = 0; i < ELEMENTS; i++) {
        gs[i] = (float)(i + 1);
        xs[i] = (float)(number * i);
        ys[i] = (float)i;
    }
    array g = make_array(gs, ELEMENTS), x = make_array(xs, ELEMENTS), y = make_array(ys, ELEMENTS);
    array out = make_array(NULL, ELEMENTS);
    for (int k = 0; k < launches; k++) {
        ys[0] = (float)k;
        CHECK(aclrtMemcpy(y.memory, sizeof ys, ys, sizeof ys, ACL_MEMCPY_HOST_TO_DEVICE));
        launch(g, x, y, 0, out, workspace, stream);
        CHECK(aclrtSynchronizeStream(stream));
        CHECK(aclrtMemcpy(found, sizeof found, out.memory, sizeof found, ACL_MEMCPY_DEVICE_TO_HOST));
        for (int i = 0; i < ELEMENTS; i++)
            if (found[i] != (xs[i] - ys[i]) * 2.0f * gs[i]) {
                printf("thread %d, launch %d, element %d: %g\n", number, k, i, found[i]);
                exit(1);
            }
    }
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    return NULL;
}

int main(int count, char **arguments)
{
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    launches = count > 2 ? atoi(arguments[2]) : 100;
    pthread_t ids[64];
    CHECK(aclInit(NULL));
    for (int i = 0; i < threads; i++)
        pthread_create(&ids[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    CHECK(aclFinalize());
    printf("%d threads x %d launches: right\n", threads, launches);
    return 0;
}

/* Microseconds per call (both phases and the synchronisation) on so many float32 elements. */
#include <time.h>

#include "client.h"

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int count, char **arguments)
{
    int64_t elements = count > 1 ? atoll(arguments[1]) : 16;
    int calls = count > 2 ? atoi(arguments[2]) : 1000;
    float *values = malloc((size_t)elements * sizeof *values);
    double *times = malloc((size_t)calls * sizeof *times);
    void *workspace;
    aclrtStream stream;
    for (int64_t i = 0; i < elements; i++)
        values[i] = (float)(i % 1000);
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMalloc(&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    array g = make_array(values, elements), x = make_array(values, elements), y = make_array(values, elements);
    array out = make_array(NULL, elements);
    for (int i = 0; i < calls; i++) {
        double begin = now_us();
        launch(g, x, y, 1, out, workspace, stream);
        CHECK(aclrtSynchronizeStream(stream));
        times[i] = now_us() - begin;
    }
    qsort(times, (size_t)calls, sizeof *times, by_size);
    printf("%lld elements: median %.2f us, best %.2f us\n", (long long)elements, times[calls / 2], times[0]);
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    free(values);
    free(times);
    return 0;
}

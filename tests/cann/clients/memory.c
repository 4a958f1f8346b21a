/* Threads that take and give back device memory of all sizes: aligned, filled with NaN, and each its own. */
#include <pthread.h>

#include "client.h"

enum { THREADS = 4, LIVE = 24 };
static int rounds = 1000;

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void *work(void *argument)
{
    uint32_t state = (uint32_t)(uintptr_t)argument * 7919u + 1;
    unsigned char *memory[LIVE] = {NULL}, fill[LIVE] = {0};
    size_t size[LIVE] = {0};
    CHECK(aclrtSetDevice(0));
    for (int round = 0; round < rounds + LIVE; round++) {
        int i = round < rounds ? (int)(next_random(&state) % LIVE) : round - rounds;
        if (memory[i] != NULL) {
            for (size_t k = 0; k < size[i]; k += 1 + size[i] / 64)
                if (memory[i][k] != fill[i] || memory[i][size[i] - 1 - k] != fill[i]) {
                    printf("%zu bytes are not their owner's alone\n", size[i]);
                    exit(1);
                }
            CHECK(aclrtFree(memory[i]));
            memory[i] = NULL;
        }
        if (round >= rounds)
            continue;
        /* Every order of magnitude alike, up to 4 MiB. */
        size[i] = 1 + next_random(&state) % ((size_t)2 << next_random(&state) % 22);
        CHECK(aclrtMalloc((void **)&memory[i], size[i], ACL_MEM_MALLOC_HUGE_FIRST));
        if ((uintptr_t)memory[i] % 64 != 0 || memory[i][0] != 0xFF || memory[i][size[i] - 1] != 0xFF) {
            printf("%zu bytes at %p: not on 64 bytes, or not fresh\n", size[i], (void *)memory[i]);
            exit(1);
        }
        fill[i] = (unsigned char)(next_random(&state) % 255);
        CHECK(aclrtMemset(memory[i], size[i], fill[i], size[i]));
    }
    CHECK(aclrtResetDevice(0));
    return NULL;
}

int main(int count, char **arguments)
{
    rounds = count > 1 ? atoi(arguments[1]) : 1000;
    pthread_t ids[THREADS];
    CHECK(aclInit(NULL));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&ids[i], NULL, work, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    CHECK(aclFinalize());
    printf("%d threads x %d rounds: right\n", (int)THREADS, rounds);
    return 0;
}

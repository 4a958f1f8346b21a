/* See pool.h. */
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <unistd.h>

#include "pool.h"

#define MOST_THREADS 64

static pthread_mutex_t job_lock = PTHREAD_MUTEX_INITIALIZER; /* held by the one whose job it is */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static pthread_t threads[MOST_THREADS];
static int thread_count;
static pid_t owner; /* a child of fork has none of the threads */
static bool ending;
static struct {
    void (*part)(void *, int);
    void *context;
    int next, count, left;
} job;

int pool_width(void)
{
    cpu_set_t set;
    int width = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return width > MOST_THREADS ? MOST_THREADS : width;
}

/* With the lock held before and after. */
static void work_on_job(void)
{
    while (job.next < job.count) {
        int i = job.next++;
        void (*part)(void *, int) = job.part;
        void *context = job.context;
        pthread_mutex_unlock(&lock);
        part(context, i);
        pthread_mutex_lock(&lock);
        if (--job.left == 0)
            pthread_cond_signal(&done);
    }
}

static void *work(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&lock);
    while (!ending) {
        work_on_job();
        if (!ending)
            pthread_cond_wait(&begun, &lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void pool_run(void (*part)(void *context, int i), void *context, int count)
{
    if (count <= 1 || pthread_mutex_trylock(&job_lock) != 0) {
        for (int i = 0; i < count; i++)
            part(context, i);
        return;
    }
    pthread_mutex_lock(&lock);
    if (owner != getpid()) {
        owner = getpid();
        thread_count = 0;
    }
    while (thread_count < count - 1 && thread_count < MOST_THREADS &&
           pthread_create(&threads[thread_count], NULL, work, NULL) == 0)
        thread_count++;
    job.part = part;
    job.context = context;
    job.next = 0;
    job.count = job.left = count;
    pthread_cond_broadcast(&begun);
    work_on_job();
    while (job.left > 0)
        pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&job_lock);
}

__attribute__((destructor)) static void end(void)
{
    pthread_mutex_lock(&lock);
    int count = owner == getpid() ? thread_count : 0;
    thread_count = 0;
    ending = true;
    pthread_cond_broadcast(&begun);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* Streams: queues of tasks, each run in order by a thread of its own.

   The thread starts with the first task. Whoever waits for a stream runs its tasks in the meantime, which saves
   two changes of thread for small work. While debugging, work is deferred until something waits for it, so that a
   read before the synchronisation shows every time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime.h"

#define MOST_STREAMS 1984 /* of a device (A2, A3) */

struct emu_stream {
    pthread_mutex_t lock;
    pthread_cond_t work, progress;
    int users; /* under registry_lock: the handle, and every call that holds the stream */
    emu_context *context;
    bool standard; /* the default one of its context */
    bool saturates;
    uint64_t id;
    atlas_task *first, *last;
    uint64_t enqueued, completed, released;
    bool running, closing, forced, has_thread;
    pthread_t thread;
    int error;
    char text[ATLAS_TEXT];
    double clock_us; /* predicted device time; whoever runs a task owns it */
    emu_stream *before, *after; /* of all streams */
};

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static emu_stream *streams;
static int stream_count;
static uint64_t next_id;
static atomic_int waiting; /* calls that wait for something, while debugging */
static atomic_size_t abandoned; /* streams that ended with their context */

emu_stream *emu_stream_new(emu_context *context, bool saturates)
{
    emu_stream *s = calloc(1, sizeof *s);
    if (s == NULL)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->progress, &attributes);
    pthread_condattr_destroy(&attributes);
    s->context = context;
    s->standard = context->stream == NULL; /* a context's first */
    s->saturates = saturates;
    s->users = 1;
    pthread_mutex_lock(&registry_lock);
    bool room = stream_count < MOST_STREAMS;
    if (room) {
        s->id = next_id++;
        s->after = streams;
        if (streams != NULL)
            streams->before = s;
        streams = s;
        stream_count++;
    }
    pthread_mutex_unlock(&registry_lock);
    if (!room || !atlas_handle_add(HANDLE_STREAM, s)) {
        if (room)
            emu_stream_close(s, true);
        else
            free(s);
        return NULL;
    }
    return s;
}

void emu_stream_put(emu_stream *s)
{
    pthread_mutex_lock(&registry_lock);
    bool gone = --s->users == 0;
    pthread_mutex_unlock(&registry_lock);
    if (!gone)
        return;
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->progress);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

emu_stream *emu_stream_get(aclrtStream handle, int *status)
{
    emu_context *context = emu_current();
    if (context == NULL) {
        *status = ACL_ERROR_RT_CONTEXT_NULL;
        return NULL;
    }
    emu_stream *s = handle == NULL ? context->stream : handle;
    pthread_mutex_lock(&registry_lock);
    bool alive = atlas_handle_has(HANDLE_STREAM, s);
    bool ours = alive && s->context == context;
    if (ours)
        s->users++;
    pthread_mutex_unlock(&registry_lock);
    if (ours)
        return s;
    if (alive)
        *status = rt_fail(ACL_ERROR_RT_STREAM_CONTEXT, "EE1011", "stream %p is of another context.", handle);
    else
        *status = rt_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1011", "stream %p is none, or was destroyed.", handle);
    return NULL;
}

/* Run the first task, with the lock held before and after. */
static void step(emu_stream *s)
{
    atlas_task *task = s->first;
    s->first = task->next;
    if (s->first == NULL)
        s->last = NULL;
    s->running = true;
    bool skip = s->forced;
    pthread_mutex_unlock(&s->lock);
    char text[ATLAS_TEXT] = "";
    task->clock = &s->clock_us;
    int error = skip ? 0 : task->run(task, text);
    s->clock_us += task->device_us;
    pthread_mutex_lock(&s->lock);
    if (error != 0 && s->error == 0) {
        s->error = error;
        memcpy(s->text, text, sizeof s->text);
    }
    /* At once for the stream and for an event, whichever is asked. */
    if (task->done != NULL)
        task->done(task);
    s->running = false;
    s->completed++;
    pthread_cond_broadcast(&s->progress);
    /* The thread may have been called while another one ran this task. */
    if (s->first != NULL || s->closing)
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    task->release(task);
    pthread_mutex_lock(&s->lock);
}

static bool may_run(const emu_stream *s)
{
    return s->first != NULL && !s->running && (s->first->number <= s->released || s->closing);
}

static void *work(void *argument)
{
    emu_stream *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        if (may_run(s))
            step(s);
        else if (s->closing && s->first == NULL && !s->running)
            break;
        else
            pthread_cond_wait(&s->work, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

uint64_t emu_push(emu_stream *s, atlas_task *task)
{
    pthread_mutex_lock(&s->lock);
    uint64_t number = task->number = ++s->enqueued;
    task->next = NULL;
    if (s->last != NULL)
        s->last->next = task;
    else
        s->first = task;
    s->last = task;
    if (!atlas_debugging() || atomic_load(&waiting) > 0)
        s->released = number;
    if (!s->has_thread)
        s->has_thread = pthread_create(&s->thread, NULL, work, s) == 0;
    /* Where no thread can be had, whoever waits does the work. */
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    return number;
}

/* All streams, not only one: what runs on one may wait for an event of another. */
void emu_release_all(void)
{
    if (!atlas_debugging())
        return;
    pthread_mutex_lock(&registry_lock);
    for (emu_stream *s = streams; s != NULL; s = s->after) {
        pthread_mutex_lock(&s->lock);
        s->released = s->enqueued;
        pthread_cond_signal(&s->work);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&registry_lock);
}

void emu_wait_begins(void)
{
    if (!atlas_debugging())
        return;
    atomic_fetch_add(&waiting, 1);
    emu_release_all();
}

void emu_wait_ends(void)
{
    if (atlas_debugging())
        atomic_fetch_sub(&waiting, 1);
}

static void deadline(struct timespec *when, int32_t ms)
{
    clock_gettime(CLOCK_MONOTONIC, when);
    when->tv_sec += ms / 1000;
    when->tv_nsec += (long)(ms % 1000) * 1000000;
    if (when->tv_nsec >= 1000000000) {
        when->tv_sec++;
        when->tv_nsec -= 1000000000;
    }
}

/* With the lock held: until task number is done. False after the time is up (ms < 0: never). */
static bool wait_for(emu_stream *s, uint64_t number, int32_t ms)
{
    struct timespec until;
    if (ms >= 0)
        deadline(&until, ms);
    while (s->completed < number) {
        /* With a limit on the time nothing may be begun here that could take longer. */
        if (ms < 0 && may_run(s))
            step(s);
        else if (ms < 0)
            pthread_cond_wait(&s->progress, &s->lock);
        else if (pthread_cond_timedwait(&s->progress, &s->lock, &until) == ETIMEDOUT)
            return s->completed >= number;
    }
    return true;
}

int emu_stream_wait_until(emu_stream *s, uint64_t number)
{
    emu_wait_begins();
    pthread_mutex_lock(&s->lock);
    wait_for(s, number, -1);
    pthread_mutex_unlock(&s->lock);
    emu_wait_ends();
    return 0;
}

int emu_stream_wait(emu_stream *s, int32_t timeout_ms)
{
    emu_wait_begins();
    pthread_mutex_lock(&s->lock);
    bool done = wait_for(s, s->enqueued, timeout_ms);
    int error = done ? s->error : 0;
    char text[ATLAS_TEXT] = "";
    if (error != 0) {
        memcpy(text, s->text, sizeof text);
        s->error = 0;
    }
    pthread_mutex_unlock(&s->lock);
    emu_wait_ends();
    if (!done)
        return rt_fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "EE1002", "the stream was not done within %d ms.",
                       (int)timeout_ms);
    return error == 0 ? ACL_SUCCESS : rt_fail(error, "EZ9999", "%s", text);
}

void emu_stream_close(emu_stream *s, bool force)
{
    atlas_handle_remove(HANDLE_STREAM, s);
    emu_wait_begins();
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    s->forced = force;
    bool has_thread = s->has_thread;
    pthread_cond_broadcast(&s->work);
    while (!has_thread && (s->first != NULL || s->running))
        if (may_run(s))
            step(s);
        else
            pthread_cond_wait(&s->progress, &s->lock);
    pthread_mutex_unlock(&s->lock);
    if (has_thread)
        pthread_join(s->thread, NULL);
    emu_wait_ends();
    pthread_mutex_lock(&registry_lock);
    if (s->before != NULL)
        s->before->after = s->after;
    else
        streams = s->after;
    if (s->after != NULL)
        s->after->before = s->before;
    stream_count--;
    pthread_mutex_unlock(&registry_lock);
    if (s->error != 0)
        atlas_debug("aclrtDestroyStream: an error was never asked for: %s", s->text);
    emu_stream_put(s);
}

/* A stream of the context that is not behind the given one; pinned. */
static emu_stream *next_stream(const emu_context *context, uint64_t below)
{
    emu_stream *found = NULL;
    pthread_mutex_lock(&registry_lock);
    for (emu_stream *s = streams; s != NULL; s = s->after)
        if (s->context == context && s->id < below && (found == NULL || s->id > found->id))
            found = s;
    if (found != NULL)
        found->users++;
    pthread_mutex_unlock(&registry_lock);
    return found;
}

int emu_streams_wait(emu_context *context, int32_t timeout_ms)
{
    int status = 0;
    uint64_t below = UINT64_MAX;
    emu_stream *s;
    while ((s = next_stream(context, below)) != NULL) {
        below = s->id;
        int found = emu_stream_wait(s, timeout_ms);
        emu_stream_put(s);
        if (status == 0)
            status = found;
    }
    return status;
}

void emu_streams_close(emu_context *context, bool force)
{
    emu_stream *s;
    while ((s = next_stream(context, UINT64_MAX)) != NULL) {
        bool mine = atlas_handle_remove(HANDLE_STREAM, s);
        if (mine && !s->standard)
            atomic_fetch_add(&abandoned, 1);
        if (mine)
            emu_stream_close(s, force);
        emu_stream_put(s);
        if (!mine)
            break; /* another thread is at it */
    }
}

size_t emu_streams_live(void)
{
    size_t count = atomic_load(&abandoned);
    pthread_mutex_lock(&registry_lock);
    for (const emu_stream *s = streams; s != NULL; s = s->after)
        count += !s->standard;
    pthread_mutex_unlock(&registry_lock);
    return count;
}

void emu_streams_forget(void)
{
    atomic_store(&abandoned, 0);
}

void emu_check_unsynchronised(const char *call, const void *first, size_t bytes)
{
    if (!atlas_debugging())
        return;
    pthread_mutex_lock(&registry_lock);
    for (emu_stream *s = streams; s != NULL; s = s->after) {
        pthread_mutex_lock(&s->lock);
        for (const atlas_task *task = s->first; task != NULL; task = task->next)
            if (task->writes != NULL && (uintptr_t)task->writes < (uintptr_t)first + bytes &&
                (uintptr_t)first < (uintptr_t)task->writes + task->write_bytes)
                atlas_debug("%s: reads %p, which %s, task %llu of stream %llu, is still to write: synchronise first",
                            call, first, task->call == NULL ? "a launch" : task->call,
                            (unsigned long long)task->number, (unsigned long long)s->id);
        pthread_mutex_unlock(&s->lock);
    }
    pthread_mutex_unlock(&registry_lock);
}

int atlas_enqueue(aclrtStream handle, atlas_task *task)
{
    int status;
    emu_stream *s = emu_stream_get(handle, &status);
    if (s == NULL)
        return status;
    emu_push(s, task);
    emu_stream_put(s);
    return 0;
}

int atlas_stream_saturates(aclrtStream handle)
{
    int status;
    emu_stream *s = emu_stream_get(handle, &status);
    if (s == NULL)
        return -1;
    int saturates = s->saturates;
    emu_stream_put(s);
    return saturates;
}

uint64_t atlas_stream_number(aclrtStream handle)
{
    int status;
    emu_stream *s = emu_stream_get(handle, &status);
    if (s == NULL)
        return UINT64_MAX;
    uint64_t id = s->id;
    emu_stream_put(s);
    return id;
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority, uint32_t flag)
{
    NOT_NULL(stream);
    (void)priority; /* streams run side by side as the host's threads do */
    if ((flag & ~(ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC)) != 0)
        return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006", "stream flag %#x is not emulated.", flag);
    emu_context *context = emu_current();
    if (context == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    emu_stream *s = emu_stream_new(context, emu_default_overflow() == ACL_RT_OVERFLOW_MODE_SATURATION);
    if (s == NULL)
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE1007", "no stream left: a device has %d.", MOST_STREAMS);
    *stream = s;
    return ACL_SUCCESS;
}

aclError aclrtCreateStream(aclrtStream *stream)
{
    return aclrtCreateStreamWithConfig(stream, 0, 0);
}

static aclError destroy(aclrtStream handle, bool force)
{
    if (handle == NULL)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0002", "Argument stream must not be null.");
    int status;
    emu_stream *s = emu_stream_get(handle, &status);
    if (s == NULL)
        return status;
    bool standard = s == s->context->stream;
    bool mine = !standard && atlas_handle_remove(HANDLE_STREAM, s);
    if (mine)
        emu_stream_close(s, force);
    emu_stream_put(s);
    if (standard)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1011", "the default stream cannot be destroyed.");
    return mine ? ACL_SUCCESS
                : rt_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1011", "stream %p was destroyed before.", handle);
}

aclError aclrtDestroyStream(aclrtStream stream)
{
    return destroy(stream, false);
}

aclError aclrtDestroyStreamForce(aclrtStream stream)
{
    return destroy(stream, true);
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout)
{
    if (timeout < -1)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclrtSynchronizeStreamWithTimeout failed because value %d for parameter timeout is invalid. "
                        "Expected value: >= -1.",
                        (int)timeout);
    int status;
    emu_stream *s = emu_stream_get(stream, &status);
    if (s == NULL)
        return status;
    status = emu_stream_wait(s, timeout);
    emu_stream_put(s);
    return status;
}

aclError aclrtSynchronizeStream(aclrtStream stream)
{
    return aclrtSynchronizeStreamWithTimeout(stream, -1);
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status)
{
    NOT_NULL(status);
    int error;
    emu_stream *s = emu_stream_get(stream, &error);
    if (s == NULL)
        return error;
    emu_release_all();
    pthread_mutex_lock(&s->lock);
    *status = s->completed == s->enqueued ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    pthread_mutex_unlock(&s->lock);
    emu_stream_put(s);
    return ACL_SUCCESS;
}

/* Events: marks in streams. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime.h"

#define MOST_EVENTS 65536

typedef struct {
    pthread_mutex_t order; /* held around the count of a record and its place in a stream; never under another lock */
    pthread_mutex_t lock;
    pthread_cond_t reached;
    int users; /* under the lock: the handle, and every task that still has to come by */
    uint64_t id;
    bool complete_at_first; /* made by aclrtCreateEventExWithFlag */
    uint64_t recorded, completed; /* how often */
    double host_us, device_us; /* of the latest record */
} emu_event;

typedef struct {
    atlas_task task;
    emu_event *event;
    uint64_t number;
} mark;

static atomic_int event_count;
static atomic_uint_fast64_t next_id;
/* A handle is looked up and pinned under this, so that no event is destroyed in between. */
static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;

static emu_event *get(aclrtEvent handle, int *status)
{
    pthread_mutex_lock(&registry_lock);
    emu_event *e = atlas_handle_has(HANDLE_EVENT, handle) ? handle : NULL;
    if (e != NULL) {
        pthread_mutex_lock(&e->lock);
        e->users++;
        pthread_mutex_unlock(&e->lock);
    }
    pthread_mutex_unlock(&registry_lock);
    if (e == NULL && handle == NULL)
        *status = acl_fail(ACL_ERROR_INVALID_PARAM, "EH0002", "Argument event must not be null.");
    else if (e == NULL)
        *status = rt_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1011", "event %p is none, or was destroyed.", handle);
    return e;
}

static void put(emu_event *e)
{
    pthread_mutex_lock(&e->lock);
    bool gone = --e->users == 0;
    pthread_mutex_unlock(&e->lock);
    if (!gone)
        return;
    pthread_cond_destroy(&e->reached);
    pthread_mutex_destroy(&e->lock);
    pthread_mutex_destroy(&e->order);
    free(e);
    atomic_fetch_sub(&event_count, 1);
}

static aclError create(aclrtEvent *event, uint32_t flag, bool complete_at_first)
{
    NOT_NULL(event);
    uint32_t known = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE;
    if (flag == 0 || (flag & ~known) != 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "the creation of an event failed because value %#x for parameter flag is invalid. "
                        "Expected value: a combination of 1, 2 and 8.",
                        flag);
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    emu_event *e = atomic_fetch_add(&event_count, 1) < MOST_EVENTS ? calloc(1, sizeof *e) : NULL;
    if (e == NULL || !atlas_handle_add(HANDLE_EVENT, e)) {
        free(e);
        atomic_fetch_sub(&event_count, 1);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EE1007", "no event left: a device has %d.", MOST_EVENTS);
    }
    pthread_mutex_init(&e->order, NULL);
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->reached, NULL);
    e->users = 1;
    e->id = atomic_fetch_add(&next_id, 1);
    e->complete_at_first = complete_at_first;
    *event = e;
    return ACL_SUCCESS;
}

aclError aclrtCreateEvent(aclrtEvent *event)
{
    return create(event, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE, false);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag)
{
    return create(event, flag, false);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t flag)
{
    return create(event, flag, true);
}

aclError aclrtDestroyEvent(aclrtEvent event)
{
    int status;
    emu_event *e = get(event, &status);
    if (e == NULL)
        return status;
    pthread_mutex_lock(&registry_lock);
    bool mine = atlas_handle_remove(HANDLE_EVENT, e);
    pthread_mutex_unlock(&registry_lock);
    if (mine)
        put(e);
    put(e);
    return mine ? ACL_SUCCESS
                : rt_fail(ACL_ERROR_RT_INVALID_HANDLE, "EE1011", "event %p was destroyed before.", event);
}

static int run_mark(atlas_task *task, char *text)
{
    (void)text;
    emu_event *e = ((mark *)task)->event;
    pthread_mutex_lock(&e->lock);
    e->host_us = atlas_host_us();
    e->device_us = *task->clock;
    pthread_mutex_unlock(&e->lock);
    return 0;
}

/* Also of a task that a forced destruction drops: nobody may wait for it for ever. */
static void reach(atlas_task *task)
{
    mark *m = (mark *)task;
    pthread_mutex_lock(&m->event->lock);
    if (m->number > m->event->completed)
        m->event->completed = m->number;
    pthread_cond_broadcast(&m->event->reached);
    pthread_mutex_unlock(&m->event->lock);
}

static int run_wait(atlas_task *task, char *text)
{
    (void)text;
    mark *m = (mark *)task;
    emu_event *e = m->event;
    pthread_mutex_lock(&e->lock);
    while (e->completed < m->number)
        pthread_cond_wait(&e->reached, &e->lock);
    if (e->device_us > *task->clock)
        *task->clock = e->device_us;
    pthread_mutex_unlock(&e->lock);
    return 0;
}

static void release_mark(atlas_task *task)
{
    put(((mark *)task)->event);
    free(task);
}

/* What the device times of streams depend on besides their launches. */
static void log_mark(const emu_event *e, aclrtStream stream, const char *what, uint64_t number)
{
    char line[160];
    snprintf(line, sizeof line, "{\"event\": %" PRIu64 ", \"%s\": %" PRIu64 ", \"stream\": %" PRIu64 ", \"host_us\": %.3f}\n",
             e->id, what, number, atlas_stream_number(stream), atlas_host_us());
    atlas_log_line(line);
}

/* A task for the event, which it pins; e is released in any case. */
static aclError enqueue(emu_event *e, aclrtStream stream, int (*run)(atlas_task *, char *))
{
    mark *m = malloc(sizeof *m);
    if (m == NULL) {
        put(e);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004", "the host has no memory left.");
    }
    *m = (mark){.task = {.run = run, .done = run == run_mark ? reach : NULL, .release = release_mark}, .event = e};
    /* A wait that came between the two would stand before the record that it waits for, maybe in its stream. */
    pthread_mutex_lock(&e->order);
    pthread_mutex_lock(&e->lock);
    e->users++;
    uint64_t number = m->number = run == run_mark ? ++e->recorded : e->recorded;
    pthread_mutex_unlock(&e->lock);
    int status = atlas_enqueue(stream, &m->task);
    if (status != 0) {
        pthread_mutex_lock(&e->lock);
        e->recorded -= run == run_mark;
        pthread_mutex_unlock(&e->lock);
        put(e);
        free(m);
    } else if (atlas_logging() && number > 0) {
        log_mark(e, stream, run == run_mark ? "record" : "wait_for", number);
    }
    pthread_mutex_unlock(&e->order);
    put(e);
    return status;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    int status;
    emu_event *e = get(event, &status);
    return e == NULL ? status : enqueue(e, stream, run_mark);
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    int status;
    emu_event *e = get(event, &status);
    return e == NULL ? status : enqueue(e, stream, run_wait);
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream)
{
    /* A wait takes the latest record before it, so that there is nothing to take back. */
    int status;
    emu_event *e = get(event, &status);
    if (e == NULL)
        return status;
    put(e);
    return atlas_stream_saturates(stream) < 0 ? ACL_ERROR_RT_STREAM_CONTEXT : ACL_SUCCESS;
}

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    int status;
    emu_event *e = get(event, &status);
    if (e == NULL)
        return status;
    emu_wait_begins();
    pthread_mutex_lock(&e->lock);
    uint64_t wanted = e->recorded;
    while (e->completed < wanted)
        pthread_cond_wait(&e->reached, &e->lock);
    pthread_mutex_unlock(&e->lock);
    emu_wait_ends();
    put(e);
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status)
{
    NOT_NULL(status);
    int error;
    emu_event *e = get(event, &error);
    if (e == NULL)
        return error;
    emu_release_all();
    pthread_mutex_lock(&e->lock);
    bool complete = e->recorded == 0 ? e->complete_at_first : e->completed >= e->recorded;
    pthread_mutex_unlock(&e->lock);
    *status = complete ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    put(e);
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent)
{
    NOT_NULL(ms);
    double times[2];
    aclrtEvent events[2] = {startEvent, endEvent};
    for (int i = 0; i < 2; i++) {
        int status;
        emu_event *e = get(events[i], &status);
        if (e == NULL)
            return status;
        pthread_mutex_lock(&e->lock);
        bool there = e->recorded > 0 && e->completed >= e->recorded;
        times[i] = atlas_predicting() ? e->device_us : e->host_us;
        pthread_mutex_unlock(&e->lock);
        put(e);
        if (!there)
            return rt_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "EE1010",
                           "aclrtEventElapsedTime: the %s event was not recorded, or not reached yet.",
                           i == 0 ? "start" : "end");
    }
    if (times[1] < times[0])
        return rt_fail(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "EE1010",
                       "aclrtEventElapsedTime: the end event lies before the start event.");
    *ms = (float)((times[1] - times[0]) * 1e-3);
    return ACL_SUCCESS;
}

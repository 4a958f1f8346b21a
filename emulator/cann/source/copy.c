/* aclrtMemcpy, aclrtMemset and their asynchronous forms. */
#include <stdlib.h>
#include <string.h>

#include "runtime.h"

/* Whether [pointer, pointer + bytes) may be touched by a copy: device memory must be all there, and is pinned
   as *block. Anything that is no device memory is the host's. */
static int hold(const char *call, const char *what, const void *pointer, size_t bytes, atlas_block **block)
{
    switch (atlas_pin(pointer, bytes, block)) {
    case RANGE_OK:
    case RANGE_UNKNOWN:
        return 0;
    case RANGE_FREED:
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%s: %s %p is device memory that was freed, or never allocated.",
                       call, what, pointer);
    default:
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%s: %zu bytes at %s %p leave its device memory.", call,
                       bytes, what, pointer);
    }
}

/* The device memory of a copy; NULL: the host's. */
typedef struct {
    atlas_block *dst, *src;
} ends;

static void let_go(ends held)
{
    if (held.dst != NULL)
        atlas_unpin(held.dst);
    if (held.src != NULL)
        atlas_unpin(held.src);
}

/* The checks of both copies; *moves: whether there is anything left to do, and then both ends are held. */
static int check_copy(const char *call, void *dst, size_t destMax, const void *src, size_t count,
                      aclrtMemcpyKind kind, bool *moves, ends *held)
{
    *moves = false;
    *held = (ends){NULL, NULL};
    if (dst == NULL || src == NULL)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0002", "Argument %s must not be null.",
                        dst == NULL ? "dst" : "src");
    if ((int)kind < ACL_MEMCPY_HOST_TO_HOST || (int)kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "%s failed because value %d for parameter kind is invalid. Expected value: 0 to 4.", call,
                        (int)kind);
    if (kind == ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE)
        return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006", "%s: kind 5 is not emulated.", call);
    if (count == 0)
        return 0;
    if (count > destMax)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%s: count %zu is more than destMax %zu.", call, count,
                       destMax);
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    int status = hold(call, "dst", dst, count, &held->dst);
    if (status == 0)
        status = hold(call, "src", src, count, &held->src);
    if (status == 0 && atlas_debugging()) {
        bool to = kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        bool from = kind == ACL_MEMCPY_DEVICE_TO_HOST || kind == ACL_MEMCPY_DEVICE_TO_DEVICE;
        if (kind != ACL_MEMCPY_DEFAULT && to != (held->dst != NULL))
            atlas_debug("%s: kind %d, but dst %p is %s memory", call, (int)kind, dst, to ? "host" : "device");
        if (kind != ACL_MEMCPY_DEFAULT && from != (held->src != NULL))
            atlas_debug("%s: kind %d, but src %p is %s memory", call, (int)kind, src, from ? "host" : "device");
    }
    *moves = status == 0 && dst != src;
    if (!*moves)
        let_go(*held);
    return status;
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind)
{
    bool moves;
    ends held;
    int status = check_copy("aclrtMemcpy", dst, destMax, src, count, kind, &moves, &held);
    if (moves) {
        emu_check_unsynchronised("aclrtMemcpy", src, count);
        memmove(dst, src, count);
        let_go(held);
    }
    return status;
}

typedef struct {
    atlas_task task;
    void *dst;
    const void *src; /* NULL: fill with value */
    int value;
    size_t count;
} copy_task;

static int run_copy(atlas_task *task, char *text)
{
    copy_task *copy = (copy_task *)task;
    ends held = {NULL, NULL};
    atlas_range dst = atlas_pin(copy->dst, copy->count, &held.dst);
    atlas_range src = copy->src == NULL ? RANGE_UNKNOWN : atlas_pin(copy->src, copy->count, &held.src);
    bool fine = dst <= RANGE_UNKNOWN && src <= RANGE_UNKNOWN;
    if (fine && copy->src != NULL)
        memmove(copy->dst, copy->src, copy->count);
    else if (fine)
        memset(copy->dst, copy->value, copy->count);
    else
        strcpy(text, "device memory of an asynchronous copy was freed before it ran");
    let_go(held);
    return fine ? 0 : ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

static void release_copy(atlas_task *task)
{
    free(task);
}

static int enqueue_copy(aclrtStream handle, copy_task values, bool wait)
{
    int status;
    emu_stream *stream = emu_stream_get(handle, &status);
    if (stream == NULL)
        return status;
    copy_task *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        emu_stream_put(stream);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004", "the host has no memory left.");
    }
    *copy = values;
    copy->task = (atlas_task){
        .run = run_copy,
        .release = release_copy,
        .writes = copy->dst,
        .write_bytes = copy->count,
        .call = copy->src == NULL ? "aclrtMemsetAsync" : "aclrtMemcpyAsync"};
    uint64_t number = emu_push(stream, &copy->task);
    if (wait)
        emu_stream_wait_until(stream, number);
    emu_stream_put(stream);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream)
{
    bool moves;
    ends held;
    int status = check_copy("aclrtMemcpyAsync", dst, destMax, src, count, kind, &moves, &held);
    if (!moves)
        return status;
    bool to = held.dst != NULL, from = held.src != NULL;
    let_go(held);
    if (!to && !from)
        return rt_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "EE1006",
                       "aclrtMemcpyAsync: both pointers are host memory, which is not supported.");
    bool pageable = (!to && !emu_is_pinned_host(dst)) || (!from && !emu_is_pinned_host(src));
    return enqueue_copy(stream, (copy_task){.dst = dst, .src = src, .count = count}, pageable);
}

static int check_set(const char *call, void *devPtr, size_t maxCount, size_t count, ends *held)
{
    *held = (ends){NULL, NULL};
    NOT_NULL(devPtr);
    if (count > maxCount)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "%s: count %zu is more than maxCount %zu.", call, count,
                       maxCount);
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    return hold(call, "devPtr", devPtr, count, &held->dst);
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    ends held;
    int status = check_set("aclrtMemset", devPtr, maxCount, count, &held);
    if (status == 0)
        memset(devPtr, value, count);
    let_go(held);
    return status;
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream)
{
    ends held;
    int status = check_set("aclrtMemsetAsync", devPtr, maxCount, count, &held);
    let_go(held);
    if (status != 0)
        return status;
    return enqueue_copy(stream, (copy_task){.dst = devPtr, .value = value, .count = count}, false);
}

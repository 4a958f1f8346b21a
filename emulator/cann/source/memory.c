/* Device and pinned host memory: a table of allocations with canaries around each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "arena.h"
#include "runtime.h"

#define GUARD 64 /* canary bytes before and behind; keeps the start on 64 bytes */
#define CANARY 0xC5
#define POISON 0xFF /* fresh memory: a NaN in every float format */
#define QUARANTINE_BYTES ((size_t)256 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define CHECKED_FROM ((size_t)1 << 30) /* bytes from which the host's free memory is asked first */

struct atlas_block {
    unsigned char *base;
    size_t size;  /* asked for */
    size_t room;  /* given: canaries start behind it */
    uint64_t number; /* the how many-th allocation */
    int32_t device;
    int users;    /* launches that run on it */
    bool freed;   /* by the client */
    bool apart;   /* among addresses of the device alone */
};

typedef struct {
    atlas_block **items; /* by address */
    size_t count, capacity;
} table;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static table device_memory, host_memory;
static size_t device_bytes, quarantined;
static atomic_uint_fast64_t allocations;

static size_t place_of(const table *t, const void *pointer)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)t->items[middle]->base <= (uintptr_t)pointer)
            low = middle + 1;
        else
            high = middle;
    }
    return low; /* the block that may hold pointer is the one before */
}

static atlas_block *block_at(const table *t, const void *pointer)
{
    size_t place = place_of(t, pointer);
    if (place == 0)
        return NULL;
    atlas_block *b = t->items[place - 1];
    return (uintptr_t)pointer < (uintptr_t)b->base + b->room ? b : NULL;
}

static bool insert(table *t, atlas_block *b)
{
    if (t->count == t->capacity) {
        size_t capacity = t->capacity ? 2 * t->capacity : 64;
        atlas_block **items = realloc(t->items, capacity * sizeof *items);
        if (items == NULL)
            return false;
        t->items = items;
        t->capacity = capacity;
    }
    size_t place = place_of(t, b->base);
    memmove(t->items + place + 1, t->items + place, (t->count - place) * sizeof *t->items);
    t->items[place] = b;
    t->count++;
    return true;
}

static void take_out(table *t, const atlas_block *b)
{
    size_t place = place_of(t, b->base) - 1;
    memmove(t->items + place, t->items + place + 1, (t->count - place - 1) * sizeof *t->items);
    t->count--;
}

static size_t whole_of(size_t room)
{
    return GUARD + room + GUARD;
}

static void release(atlas_block *b)
{
    if (b->apart)
        arena_give(b->base - GUARD, whole_of(b->room));
    else
        free(b->base - GUARD);
    free(b);
}

/* Which side was written over: -1 before, 1 behind, 0 none. */
static int damage(const atlas_block *b)
{
    for (int i = 0; i < GUARD; i++) {
        if (b->base[i - GUARD] != CANARY)
            return -1;
        if (b->base[b->room + (size_t)i] != CANARY)
            return 1;
    }
    return 0;
}

static void report_damage(const atlas_block *b, const char *when)
{
    int side = damage(b);
    if (side != 0)
        atlas_debug("%s: the bytes %s the %zu bytes at %p (allocation %llu) were overwritten", when,
                    side < 0 ? "before" : "behind", b->size, (void *)b->base, (unsigned long long)b->number);
}

static bool host_has(size_t bytes)
{
    if (bytes < CHECKED_FROM)
        return true;
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL)
        return true;
    char line[128];
    unsigned long long kilobytes = 0;
    bool enough = true;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
            enough = bytes >> 10 < kilobytes;
    fclose(file);
    return enough;
}

static atlas_block *allocate(size_t size, size_t room, int32_t device)
{
    atlas_block *b = malloc(sizeof *b);
    size_t whole = whole_of(room);
    if (b == NULL || !host_has(whole)) {
        free(b);
        return NULL;
    }
    void *raw = device >= 0 ? arena_take(whole) : NULL;
    bool apart = raw != NULL;
    if (!apart && posix_memalign(&raw, GUARD, whole) != 0) {
        free(b);
        return NULL;
    }
    *b = (atlas_block){
        .base = (unsigned char *)raw + GUARD,
        .size = size,
        .room = room,
        .number = atomic_fetch_add(&allocations, 1) + 1,
        .device = device,
        .apart = apart};
#ifdef MADV_HUGEPAGE
    /* As the device's allocator does where it can: fewer misses of the host's TLB. */
    if (whole >= 2 * HUGE_PAGE) {
        uintptr_t begin = ((uintptr_t)raw + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
        madvise((void *)begin, ((uintptr_t)raw + whole - begin) & ~(HUGE_PAGE - 1), MADV_HUGEPAGE);
    }
#endif
    memset(raw, CANARY, GUARD);
    memset(b->base, POISON, room);
    memset(b->base + room, CANARY, GUARD);
    return b;
}

static aclError device_malloc(void **devPtr, size_t size, size_t padding)
{
    NOT_NULL(devPtr);
    if (size == 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclrtMalloc failed because value 0 for parameter size is invalid. Expected value: > 0.");
    emu_context *context = emu_current();
    if (context == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    const atlas_chip *chip = atlas_soc();
    size_t total = chip->memory_bytes ? (size_t)chip->memory_bytes : SIZE_MAX / 4;
    if (size > SIZE_MAX / 4)
        return rt_fail(ACL_ERROR_RT_DEVICE_OOM, "EL0004", "%zu bytes are more than %s has.", size, chip->name);
    size_t room = ((size + 31) & ~(size_t)31) + padding;
    pthread_mutex_lock(&lock);
    bool fits = room <= total - (device_bytes < total ? device_bytes : total);
    if (fits)
        device_bytes += room;
    pthread_mutex_unlock(&lock);
    if (!fits)
        return rt_fail(ACL_ERROR_RT_DEVICE_OOM, "EL0004", "%zu bytes do not fit: %s has %zu, %zu are in use.", size,
                       chip->name, total, device_bytes);
    atlas_block *b = allocate(size, room, context->device);
    pthread_mutex_lock(&lock);
    bool kept = b != NULL && insert(&device_memory, b);
    if (!kept)
        device_bytes -= room;
    pthread_mutex_unlock(&lock);
    if (!kept) {
        if (b != NULL)
            release(b);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004",
                       "the host, whose memory stands for the device's, has no %zu bytes left.", size);
    }
    *devPtr = b->base;
    return ACL_SUCCESS;
}

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    const atlas_chip *chip = atlas_soc();
    (void)policy; /* pages of the host are what they are */
    return device_malloc(devPtr, size, chip != NULL && chip->npu_arch == 3510 ? 0 : 32);
}

aclError aclrtMallocAlign32(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    (void)policy;
    return device_malloc(devPtr, size, 0);
}

/* Under the lock: drop quarantined blocks, in the order of their addresses, until the rest fits. */
static void shrink_quarantine(void)
{
    for (size_t i = 0; i < device_memory.count && quarantined > QUARANTINE_BYTES;) {
        atlas_block *b = device_memory.items[i];
        if (b->freed && b->users == 0) {
            quarantined -= b->room;
            take_out(&device_memory, b);
            release(b);
        } else {
            i++;
        }
    }
}

aclError aclrtFree(void *devPtr)
{
    NOT_NULL(devPtr);
    pthread_mutex_lock(&lock);
    atlas_block *b = block_at(&device_memory, devPtr);
    if (b == NULL || b->base != devPtr || b->freed) {
        bool freed = b != NULL ? b->freed : arena_holds(devPtr);
        pthread_mutex_unlock(&lock);
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "aclrtFree: %p %s.", devPtr,
                       freed         ? "was freed before"
                       : b != NULL   ? "lies within device memory, but is not its start"
                                     : "is no device memory");
    }
    report_damage(b, "aclrtFree");
    b->freed = true;
    device_bytes -= b->room;
    if (atlas_debugging()) {
        if (b->users == 0)
            memset(b->base, POISON, b->room);
        quarantined += b->room;
        shrink_quarantine();
    } else if (b->users == 0) {
        take_out(&device_memory, b);
        release(b);
    }
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

atlas_range atlas_pin(const void *first, size_t bytes, atlas_block **block)
{
    pthread_mutex_lock(&lock);
    atlas_block *b = block_at(&device_memory, first);
    atlas_range found = RANGE_OK;
    if (b == NULL)
        found = arena_holds(first) ? RANGE_FREED : RANGE_UNKNOWN;
    else if (b->freed)
        found = RANGE_FREED;
    else if (bytes > (size_t)(b->base + b->room - (const unsigned char *)first))
        found = RANGE_OUTSIDE;
    else {
        b->users++;
        *block = b;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void atlas_unpin(atlas_block *b)
{
    pthread_mutex_lock(&lock);
    if (--b->users == 0 && b->freed && !atlas_debugging()) {
        take_out(&device_memory, b);
        release(b);
    }
    pthread_mutex_unlock(&lock);
}

aclError aclrtMallocHost(void **hostPtr, size_t size)
{
    NOT_NULL(hostPtr);
    if (size == 0)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclrtMallocHost failed because value 0 for parameter size is invalid. Expected value: > 0.");
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    atlas_block *b = allocate(size, size, -1);
    pthread_mutex_lock(&lock);
    bool kept = b != NULL && insert(&host_memory, b);
    pthread_mutex_unlock(&lock);
    if (!kept) {
        if (b != NULL)
            release(b);
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004", "the host has no %zu bytes left.", size);
    }
    *hostPtr = b->base;
    return ACL_SUCCESS;
}

aclError aclrtFreeHost(void *hostPtr)
{
    NOT_NULL(hostPtr);
    pthread_mutex_lock(&lock);
    atlas_block *b = block_at(&host_memory, hostPtr);
    bool found = b != NULL && b->base == hostPtr;
    if (found) {
        report_damage(b, "aclrtFreeHost");
        take_out(&host_memory, b);
    }
    pthread_mutex_unlock(&lock);
    if (!found)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003",
                       "aclrtFreeHost: %p is no memory of aclrtMallocHost, or was freed before.", hostPtr);
    release(b);
    return ACL_SUCCESS;
}

bool emu_is_pinned_host(const void *pointer)
{
    pthread_mutex_lock(&lock);
    bool found = block_at(&host_memory, pointer) != NULL;
    pthread_mutex_unlock(&lock);
    return found;
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t *free, size_t *total)
{
    NOT_NULL(free);
    NOT_NULL(total);
    if ((int)attr < ACL_DDR_MEM || attr > 16)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclrtGetMemInfo failed because value %d for parameter attr is invalid. Expected value: 0 to 16.",
                        (int)attr);
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    const atlas_chip *chip = atlas_soc();
    if (chip->memory_bytes == 0)
        return rt_fail(ACL_ERROR_API_NOT_SUPPORT, "EE9999", "the memory of %s is not known.", chip->name);
    pthread_mutex_lock(&lock);
    size_t used = device_bytes;
    pthread_mutex_unlock(&lock);
    *total = (size_t)chip->memory_bytes;
    *free = used < *total ? *total - used : 0;
    return ACL_SUCCESS;
}

void emu_memory_live(bool host, size_t *count, size_t *bytes)
{
    *count = *bytes = 0;
    pthread_mutex_lock(&lock);
    const table *t = host ? &host_memory : &device_memory;
    for (size_t i = 0; i < t->count; i++)
        if (!t->items[i]->freed) {
            ++*count;
            *bytes += t->items[i]->size;
        }
    pthread_mutex_unlock(&lock);
}

void emu_memory_report(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < device_memory.count; i++) {
        const atlas_block *b = device_memory.items[i];
        if (b->freed)
            continue;
        report_damage(b, "aclFinalize");
        atlas_debug("aclFinalize: %zu bytes of device memory at %p (allocation %llu) were not freed", b->size,
                    (void *)b->base, (unsigned long long)b->number);
    }
    for (size_t i = 0; i < host_memory.count; i++)
        atlas_debug("aclFinalize: %zu bytes of aclrtMallocHost at %p were not freed", host_memory.items[i]->size,
                    (void *)host_memory.items[i]->base);
    pthread_mutex_unlock(&lock);
}

/* Tables without a live allocation go at unload, so that leak checkers see the client's leaks alone. */
__attribute__((destructor)) static void free_tables(void)
{
    pthread_mutex_lock(&lock);
    for (size_t i = device_memory.count; i-- > 0;) {
        atlas_block *b = device_memory.items[i];
        if (b->freed && b->users == 0) {
            take_out(&device_memory, b);
            release(b);
        }
    }
    for (int i = 0; i < 2; i++) {
        table *t = i == 0 ? &device_memory : &host_memory;
        if (t->count == 0) {
            free(t->items);
            *t = (table){NULL, 0, 0};
        }
    }
    arena_end();
    pthread_mutex_unlock(&lock);
}

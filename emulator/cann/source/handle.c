/* Which handles are alive: sets of addresses, so that a stale handle is refused instead of followed. */
#include <stdlib.h>

#include "runtime.h"

#define SHARDS 64

/* Open addressing; a slot is EMPTY, REMOVED or an address, with its kind beside it. */
typedef struct {
    pthread_mutex_t lock;
    uintptr_t *slots;
    unsigned char *kinds;
    size_t capacity, used, live;
} shard;

static shard shards[SHARDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

enum { EMPTY = 0, REMOVED = 1 };

static void make(void)
{
    for (int i = 0; i < SHARDS; i++)
        pthread_mutex_init(&shards[i].lock, NULL);
}

static size_t hash(uintptr_t address)
{
    return (size_t)(((uint64_t)address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20);
}

static shard *lock_shard(uintptr_t address)
{
    pthread_once(&once, make);
    shard *s = &shards[hash(address) % SHARDS];
    pthread_mutex_lock(&s->lock);
    return s;
}

static size_t find(const shard *s, atlas_handle_kind kind, uintptr_t address)
{
    if (s->capacity == 0)
        return SIZE_MAX;
    size_t at = hash(address) / SHARDS % s->capacity;
    while (s->slots[at] != EMPTY) {
        if (s->slots[at] == address && s->kinds[at] == kind)
            return at;
        at = (at + 1) % s->capacity;
    }
    return SIZE_MAX;
}

static void put(shard *s, unsigned char kind, uintptr_t address)
{
    size_t at = hash(address) / SHARDS % s->capacity;
    while (s->slots[at] > REMOVED)
        at = (at + 1) % s->capacity;
    s->used += s->slots[at] == EMPTY;
    s->slots[at] = address;
    s->kinds[at] = kind;
    s->live++;
}

static bool room(shard *s)
{
    if (2 * (s->used + 1) < s->capacity)
        return true;
    size_t capacity = 4 * s->live < 16 ? 16 : 4 * s->live;
    shard bigger = {.slots = calloc(capacity, sizeof *s->slots), .kinds = calloc(capacity, 1), .capacity = capacity};
    if (bigger.slots == NULL || bigger.kinds == NULL) {
        free(bigger.slots);
        free(bigger.kinds);
        return false;
    }
    for (size_t i = 0; i < s->capacity; i++)
        if (s->slots[i] > REMOVED)
            put(&bigger, s->kinds[i], s->slots[i]);
    free(s->slots);
    free(s->kinds);
    s->slots = bigger.slots;
    s->kinds = bigger.kinds;
    s->capacity = bigger.capacity;
    s->used = bigger.used;
    s->live = bigger.live;
    return true;
}

bool atlas_handle_add(atlas_handle_kind kind, const void *handle)
{
    shard *s = lock_shard((uintptr_t)handle);
    bool done = room(s);
    if (done)
        put(s, (unsigned char)kind, (uintptr_t)handle);
    pthread_mutex_unlock(&s->lock);
    return done;
}

bool atlas_handle_has(atlas_handle_kind kind, const void *handle)
{
    shard *s = lock_shard((uintptr_t)handle);
    bool found = find(s, kind, (uintptr_t)handle) != SIZE_MAX;
    pthread_mutex_unlock(&s->lock);
    return found;
}

bool atlas_handle_remove(atlas_handle_kind kind, const void *handle)
{
    shard *s = lock_shard((uintptr_t)handle);
    size_t at = find(s, kind, (uintptr_t)handle);
    if (at != SIZE_MAX) {
        s->slots[at] = REMOVED;
        s->live--;
    }
    pthread_mutex_unlock(&s->lock);
    return at != SIZE_MAX;
}

size_t atlas_handle_count(atlas_handle_kind kind)
{
    size_t count = 0;
    pthread_once(&once, make);
    for (int i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&shards[i].lock);
        for (size_t at = 0; at < shards[i].capacity; at++)
            count += shards[i].slots[at] > REMOVED && shards[i].kinds[at] == kind;
        pthread_mutex_unlock(&shards[i].lock);
    }
    return count;
}

/* The tables themselves are freed at unload, so that leak checkers see only the client's leaks. */
__attribute__((destructor)) static void free_tables(void)
{
    for (int i = 0; i < SHARDS; i++) {
        free(shards[i].slots);
        free(shards[i].kinds);
        shards[i].slots = NULL;
        shards[i].kinds = NULL;
        shards[i].capacity = shards[i].used = shards[i].live = 0;
    }
}

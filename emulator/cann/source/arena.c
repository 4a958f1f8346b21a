/* See arena.h.

   Slots of a few sizes between powers of two, cut from a reserved range of addresses and used again in the order
   in which they were given back, so that an address stays stale for as long as possible. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arena.h"

#define RESERVED ((size_t)256 << 30) /* addresses alone: memory comes with the first touch */
#define LEAST ((size_t)1 << 30)
#define STEP ((size_t)2 << 20) /* of what is made accessible; large slots start on it, for huge pages */
#define SMALLEST ((size_t)256)
#define CLASSES 160
#define KEPT_BYTES ((size_t)64 << 20) /* of slots given back whose memory the host does not get back at once */

typedef struct slot {
    char *place;
    bool kept;
    struct slot *next;
} slot;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char *start;
static size_t reserved, accessible, used, kept_bytes;
static slot *first[CLASSES], *last[CLASSES];

static void reserve(void)
{
    struct rlimit limit;
    /* Where addresses are scarce, the client needs them. */
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY)
        return;
    for (size_t size = RESERVED; size >= LEAST; size /= 2) {
        void *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (place == MAP_FAILED)
            continue;
        size_t skip = -(uintptr_t)place % STEP;
        start = (char *)place + skip;
        reserved = size - STEP;
        return;
    }
}

/* The class of a size, and the bytes of its slots: four to each power of two. */
static int class_of(size_t bytes, size_t *size)
{
    int order = 0;
    while (SMALLEST << (order + 1) <= bytes)
        order++;
    size_t quarter = (SMALLEST << order) / 4;
    size_t parts = (bytes + quarter - 1) / quarter; /* 4 to 8, fewer below the smallest */
    parts = parts < 4 ? 4 : parts;
    *size = parts * quarter;
    return 4 * order + (int)parts - 4;
}

/* Under the lock: more room behind all slots, NULL if there is none. */
static char *cut(size_t size)
{
    size_t begin = size >= STEP ? (used + STEP - 1) & ~(STEP - 1) : used;
    if (size > reserved || begin > reserved - size)
        return NULL;
    size_t end = begin + size;
    if (end > accessible) {
        size_t more = (end - accessible + STEP - 1) & ~(STEP - 1);
        more = more > reserved - accessible ? reserved - accessible : more;
        if (mprotect(start + accessible, more, PROT_READ | PROT_WRITE) != 0)
            return NULL;
        accessible += more;
    }
    used = end;
    return start + begin;
}

void *arena_take(size_t bytes)
{
    pthread_once(&once, reserve);
    size_t size;
    int class = class_of(bytes, &size);
    if (class >= CLASSES)
        return NULL;
    pthread_mutex_lock(&lock);
    slot *s = first[class];
    char *place;
    if (s != NULL) {
        first[class] = s->next;
        kept_bytes -= s->kept ? size : 0;
        place = s->place;
    } else {
        place = cut(size);
    }
    pthread_mutex_unlock(&lock);
    free(s);
    return place;
}

void arena_give(void *place, size_t bytes)
{
    size_t size;
    int class = class_of(bytes, &size);
    slot *s = malloc(sizeof *s);
    pthread_mutex_lock(&lock);
    bool kept = kept_bytes + size <= KEPT_BYTES;
    kept_bytes += kept && s != NULL ? size : 0;
    pthread_mutex_unlock(&lock);
    if (!kept) {
        uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        uintptr_t begin = ((uintptr_t)place + page - 1) & ~(page - 1);
        uintptr_t end = ((uintptr_t)place + size) & ~(page - 1);
        if (end > begin)
            madvise((void *)begin, end - begin, MADV_DONTNEED);
    }
    if (s == NULL)
        return; /* its addresses are lost, no more */
    *s = (slot){.place = place, .kept = kept};
    pthread_mutex_lock(&lock);
    if (first[class] == NULL)
        first[class] = s;
    else
        last[class]->next = s;
    last[class] = s;
    pthread_mutex_unlock(&lock);
}

bool arena_holds(const void *pointer)
{
    pthread_once(&once, reserve);
    return start != NULL && (uintptr_t)pointer - (uintptr_t)start < reserved;
}

void arena_end(void)
{
    for (int class = 0; class < CLASSES; class++)
        while (first[class] != NULL) {
            slot *s = first[class];
            first[class] = s->next;
            free(s);
        }
}

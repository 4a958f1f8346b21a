/* Addresses that are the device's alone: no host pointer lies among them, so that a pointer to device memory that
   was freed is known for what it is. */
#ifndef ATLAS_EMU_ARENA_H
#define ATLAS_EMU_ARENA_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many bytes on 64, NULL where there are no such addresses left. */
void *arena_take(size_t bytes);
/* Back; bytes as asked for. */
void arena_give(void *place, size_t bytes);
bool arena_holds(const void *pointer);
/* At unload: what it keeps account with. */
void arena_end(void);

#endif

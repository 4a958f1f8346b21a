/* The two functions of Numba's run time that the compiled loops call: scratch memory for a row.

   The layout of the block is what compiled code reads: the count of references first, the data fourth. */
#include <stdlib.h>

#include "nrt.h"

typedef struct {
    size_t references;
    void *destructor, *destructor_argument;
    void *data;
    size_t size;
    void *allocator;
} memory_info;

void *NRT_MemInfo_alloc_aligned(size_t size, unsigned align)
{
    if (align < 64)
        align = 64;
    size_t head = (sizeof(memory_info) + align - 1) / align * align;
    memory_info *info = NULL;
    if (posix_memalign((void **)&info, align, head + size) != 0)
        return NULL;
    *info = (memory_info){.references = 1, .data = (char *)info + head, .size = size};
    return info;
}

void NRT_MemInfo_call_dtor(void *info)
{
    free(info);
}

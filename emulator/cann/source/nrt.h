#ifndef ATLAS_EMU_NRT_H
#define ATLAS_EMU_NRT_H

#include <stddef.h>

void *NRT_MemInfo_alloc_aligned(size_t size, unsigned align);
void NRT_MemInfo_call_dtor(void *info);

#endif

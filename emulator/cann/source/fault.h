/* Faults on demand, in builds of cann-root --faults alone: generated wrappers ask before they do anything. */
#ifndef ATLAS_EMU_FAULT_H
#define ATLAS_EMU_FAULT_H

#include <stdlib.h>

#include "nn.h"

#pragma GCC visibility push(default)

/* 0, or what this call of the function of that number has to fail with; its message is told. */
int atlas_fault(int function);

/* For tests in one process. A text as ATLAS_EMU_FAULT has it; NULL or "" for none. Counts begin anew.
   0, or 100000 with a message. */
int atlas_emu_fault(const char *text);
/* The functions that can fail, from 0 on; NULL behind the last. */
const char *atlas_emu_fault_name(int function);
/* What the client has not given back, as text; NULL if nothing. Valid until the thread's next call. */
const char *atlas_emu_leaks(void);

#pragma GCC visibility pop

/* As a phase 2 that fails: an executor that is not repeatable is gone. */
static inline void atlas_executor_spent(aclOpExecutor *executor)
{
    if (executor != NULL && atlas_handle_has(HANDLE_EXECUTOR, executor) && !executor->repeatable &&
        atlas_handle_remove(HANDLE_EXECUTOR, executor))
        free(executor);
}

#endif

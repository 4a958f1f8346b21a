/* Inside libascendcl.so. */
#ifndef ATLAS_EMU_RUNTIME_H
#define ATLAS_EMU_RUNTIME_H

#include "emu.h"
#include "chips.h"

#define NOT_NULL(pointer)                                                                                     \
    do {                                                                                                      \
        if ((pointer) == NULL)                                                                                \
            return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0002", "Argument %s must not be null.", #pointer);    \
    } while (0)

#define acl_fail(status, code, ...) atlas_fail(status, code, "Acl_Parameter_Error", __VA_ARGS__)
#define rt_fail(status, code, ...) atlas_fail(status, code, "Runtime_Error", __VA_ARGS__)

typedef struct emu_stream emu_stream;

typedef struct emu_context {
    int32_t device;
    bool implicit; /* made by aclrtSetDevice */
    emu_stream *stream; /* the default one */
} emu_context;

bool emu_initialised(void);
int emu_device_count(void);
/* The calling thread's context, or NULL with a message told. */
emu_context *emu_current(void);

emu_stream *emu_stream_new(emu_context *context, bool saturates);
/* The live stream behind a handle, pinned; NULL with *status and a message. */
emu_stream *emu_stream_get(aclrtStream handle, int *status);
void emu_stream_put(emu_stream *stream);
int emu_stream_wait(emu_stream *stream, int32_t timeout_ms);
void emu_stream_close(emu_stream *stream, bool force);
int emu_streams_wait(emu_context *context, int32_t timeout_ms);
void emu_streams_close(emu_context *context, bool force);
/* Let deferred work run (ATLAS_EMU_DEBUG defers it until something waits). */
void emu_release_all(void);
/* Around a wait: in it nothing is deferred, neither what is enqueued nor what another thread enqueues meanwhile. */
void emu_wait_begins(void);
void emu_wait_ends(void);
uint64_t emu_push(emu_stream *stream, atlas_task *task);
int emu_stream_wait_until(emu_stream *stream, uint64_t number);

/* While debugging: tell of work on any stream that is still to write what is read here. */
void emu_check_unsynchronised(const char *call, const void *first, size_t bytes);

/* While debugging: allocations that were not freed, and damage. */
void emu_memory_report(void);
/* Allocations of device memory, or of aclrtMallocHost, that the client has not freed. */
void emu_memory_live(bool host, size_t *count, size_t *bytes);
/* Streams that the client has not destroyed, also those that ended with their context. */
size_t emu_streams_live(void);
void emu_streams_forget(void);
/* Contexts of aclrtCreateContext. */
size_t emu_contexts_live(void);
/* All of these, and tensors, executors, events: false if there is nothing. */
bool emu_leaks(char *text, size_t size);
/* Whether [pointer, pointer + bytes) is memory of aclrtMallocHost. */
bool emu_is_pinned_host(const void *pointer);
int emu_default_overflow(void);

#endif

/* What the libraries share: the runtime in libascendcl.so, used by libnnopbase.so and the operators. */
#ifndef ATLAS_EMU_H
#define ATLAS_EMU_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)
#include "acl/acl.h"
#include "aclnn/aclnn_base.h"

/* Interface between the libraries; not for clients. */

/* Messages. The code and title stand before the text; returns status. */
int atlas_fail(int status, const char *code, const char *title, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool atlas_debugging(void);
void atlas_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Handles that are alive. */
typedef enum {
    HANDLE_CONTEXT,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_TENSOR,
    HANDLE_SCALAR,
    HANDLE_ARRAY,
    HANDLE_LIST,
    HANDLE_EXECUTOR
} atlas_handle_kind;

bool atlas_handle_add(atlas_handle_kind kind, const void *handle);
bool atlas_handle_has(atlas_handle_kind kind, const void *handle);
bool atlas_handle_remove(atlas_handle_kind kind, const void *handle);
size_t atlas_handle_count(atlas_handle_kind kind);

/* Device memory. */
typedef struct atlas_block atlas_block;

typedef enum {
    RANGE_OK,
    RANGE_UNKNOWN, /* no device memory: a host pointer */
    RANGE_FREED,   /* an address of the device's that is not allocated, or not any more */
    RANGE_OUTSIDE  /* begins in an allocation and leaves it */
} atlas_range;

/* On RANGE_OK the block stays valid until it is unpinned. */
atlas_range atlas_pin(const void *first, size_t bytes, atlas_block **block);
void atlas_unpin(atlas_block *block);

/* Work for a stream. run does it and gives 0 or the error that the next synchronisation tells, with text in
   the buffer; release frees it, run or not. */
#define ATLAS_TEXT 512

typedef struct atlas_task {
    int (*run)(struct atlas_task *task, char *text);
    /* Called in the moment in which the task counts as done, run or not; may be NULL. */
    void (*done)(struct atlas_task *task);
    void (*release)(struct atlas_task *task);
    /* What it writes, for reports of reads that came too early; may be NULL. */
    const void *writes;
    size_t write_bytes;
    const char *call; /* the function that enqueued it; may be NULL */
    /* Predicted device time of it, and the device time of its stream while it runs. */
    double device_us, *clock;
    struct atlas_task *next;
    uint64_t number;
} atlas_task;

/* Enqueue on a stream handle (NULL: the default stream). Not 0: refused, the task is still the caller's. */
int atlas_enqueue(aclrtStream stream, atlas_task *task);
/* Whether the stream saturates overflow; -1 where there is no such stream in this context. */
int atlas_stream_saturates(aclrtStream stream);

/* The launch log of ATLAS_EMU_LOG, a line each. */
bool atlas_logging(void);
void atlas_log_line(const char *line); /* a JSON object and a line feed; the process's number is put before */
uint64_t atlas_next_launch(void); /* lines are numbered from 0 */
uint64_t atlas_stream_number(aclrtStream stream);
double atlas_host_us(void);

/* Where ATLAS_EMU_PREDICTOR names a socket, device times are predicted: of a call, described as JSON. */
bool atlas_predicting(void);
double atlas_predict(const char *call);

/* The chip that is emulated, NULL if ATLAS_EMU_SOC names none. */
struct atlas_chip;
const struct atlas_chip *atlas_soc(void);

#pragma GCC visibility pop

#endif

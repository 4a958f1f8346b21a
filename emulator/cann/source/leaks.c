/* What the client has not given back. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime.h"

static const struct {
    atlas_handle_kind kind;
    const char *name;
} KINDS[] = {
    {HANDLE_EVENT, "events"},   {HANDLE_TENSOR, "tensors"}, {HANDLE_SCALAR, "scalars"},
    {HANDLE_ARRAY, "arrays"},   {HANDLE_LIST, "lists"},     {HANDLE_EXECUTOR, "executors"},
};

typedef struct {
    char *text;
    size_t size, used;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *format, ...)
{
    size_t left = l->size - l->used;
    int length = snprintf(l->text + l->used, left, "%s", l->used > 0 ? ", " : "");
    va_list arguments;
    va_start(arguments, format);
    if (length >= 0 && (size_t)length < left)
        length += vsnprintf(l->text + l->used + length, left - (size_t)length, format, arguments);
    va_end(arguments);
    l->used += length >= 0 && (size_t)length < left ? (size_t)length : 0;
}

bool emu_leaks(char *text, size_t size)
{
    line l = {text, size, 0};
    text[0] = '\0';
    size_t count, bytes;
    emu_memory_live(false, &count, &bytes);
    if (count > 0)
        add(&l, "%zu bytes in %zu allocations of device memory", bytes, count);
    emu_memory_live(true, &count, &bytes);
    if (count > 0)
        add(&l, "%zu bytes in %zu allocations of aclrtMallocHost", bytes, count);
    if ((count = emu_streams_live()) > 0)
        add(&l, "%zu streams", count);
    if ((count = emu_contexts_live()) > 0)
        add(&l, "%zu contexts", count);
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if ((count = atlas_handle_count(KINDS[i].kind)) > 0)
            add(&l, "%zu %s", count, KINDS[i].name);
    return l.used > 0;
}

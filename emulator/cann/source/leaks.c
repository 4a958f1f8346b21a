/* What the client has not given back. */
#include <stdarg.h>
#include <stdio.h>

#include "runtime.h"

static const struct {
    atlas_handle_kind kind;
    const char *name;
} KINDS[] = {
    {HANDLE_EVENT, "event"}, {HANDLE_TENSOR, "tensor"}, {HANDLE_SCALAR, "scalar"},
    {HANDLE_ARRAY, "array"}, {HANDLE_LIST, "list"},     {HANDLE_EXECUTOR, "executor"},
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

static void add_count(line *l, size_t count, const char *noun)
{
    if (count > 0)
        add(l, "%zu %s%s", count, noun, count == 1 ? "" : "s");
}

static void add_memory(line *l, bool pinned, const char *whose)
{
    size_t count, bytes;
    emu_memory_live(pinned, &count, &bytes);
    if (count > 0)
        add(l, "%zu byte%s in %zu allocation%s of %s", bytes, bytes == 1 ? "" : "s", count, count == 1 ? "" : "s", whose);
}

bool emu_leaks(char *text, size_t size)
{
    line l = {text, size, 0};
    text[0] = '\0';
    add_memory(&l, false, "device memory");
    add_memory(&l, true, "aclrtMallocHost");
    add_count(&l, emu_streams_live(), "stream");
    add_count(&l, emu_contexts_live(), "context");
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        add_count(&l, atlas_handle_count(KINDS[i].kind), KINDS[i].name);
    return l.used > 0;
}

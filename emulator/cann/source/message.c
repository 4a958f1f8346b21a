/* Error texts per thread, newest first; debug output; the launch log. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "runtime.h"

#define KEPT 64 /* messages of a thread; older ones are dropped */

typedef struct {
    char *messages[KEPT]; /* a ring; newest at newest */
    int count, newest;
    char *given;
    int last_error;
} recent;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local recent *mine;

static void drop(void *pointer)
{
    recent *r = pointer;
    for (int i = 0; i < KEPT; i++)
        free(r->messages[i]);
    free(r->given);
    free(r);
    mine = NULL;
}

static void at_exit_of_main(void)
{
    if (mine != NULL) {
        pthread_setspecific(key, NULL);
        drop(mine);
    }
}

static void make_key(void)
{
    pthread_key_create(&key, drop);
    atexit(at_exit_of_main);
}

static recent *own(void)
{
    if (mine == NULL) {
        pthread_once(&once, make_key);
        mine = calloc(1, sizeof *mine);
        if (mine != NULL)
            pthread_setspecific(key, mine);
    }
    return mine;
}

static bool is_on(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

static pthread_once_t debug_once = PTHREAD_ONCE_INIT;
static bool debugging;

static void read_debug(void)
{
    debugging = is_on("ATLAS_EMU_DEBUG");
}

bool atlas_debugging(void)
{
    pthread_once(&debug_once, read_debug);
    return debugging;
}

void atlas_debug(const char *format, ...)
{
    if (!atlas_debugging())
        return;
    char text[2 * ATLAS_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "atlas-emu: %s\n", text);
}

int atlas_fail(int status, const char *code, const char *title, const char *format, ...)
{
    recent *r = own();
    if (r == NULL)
        return status;
    char text[2 * ATLAS_TEXT], head[128];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    struct timeval now;
    struct tm parts;
    gettimeofday(&now, NULL);
    localtime_r(&now.tv_sec, &parts);
    size_t used = strftime(head, sizeof head, "%Y-%m-%d-%H:%M:%S", &parts);
    snprintf(head + used, sizeof head - used, ".%03d.%03d", (int)(now.tv_usec / 1000), (int)(now.tv_usec % 1000));
    char *line = NULL;
    if (asprintf(&line, "[PID: %d] %s %s(%s): %s", (int)getpid(), head, title, code, text) < 0)
        return status;
    r->newest = (r->newest + KEPT - 1) % KEPT;
    free(r->messages[r->newest]);
    r->messages[r->newest] = line;
    if (r->count < KEPT)
        r->count++;
    r->last_error = status;
    atlas_debug("%d: %s", status, text);
    return status;
}

const char *aclGetRecentErrMsg(void)
{
    recent *r = own();
    if (r == NULL || r->count == 0)
        return NULL;
    static const char between[] = "TraceBack (most recent call last):\n", indent[] = "        ";
    size_t size = sizeof between;
    for (int i = 0; i < r->count; i++)
        size += strlen(r->messages[(r->newest + i) % KEPT]) + sizeof indent + 1;
    char *text = malloc(size), *end = text;
    if (text == NULL)
        return NULL;
    for (int i = 0; i < r->count; i++) {
        char **line = &r->messages[(r->newest + i) % KEPT];
        end += sprintf(end, "%s%s%s\n", i == 1 ? between : "", i > 0 ? indent : "", *line);
        free(*line);
        *line = NULL;
    }
    r->count = 0;
    free(r->given);
    return r->given = text;
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    if (level != ACL_RT_THREAD_LEVEL)
        return ACL_ERROR_INVALID_PARAM;
    recent *r = own();
    return r == NULL ? 0 : r->last_error;
}

aclError aclrtGetLastError(aclrtLastErrLevel level)
{
    aclError found = aclrtPeekAtLastError(level);
    if (level == ACL_RT_THREAD_LEVEL && mine != NULL)
        mine->last_error = 0;
    return found;
}

static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static int log_file = -1;

static void open_log(void)
{
    const char *path = getenv("ATLAS_EMU_LOG");
    if (path == NULL || *path == '\0')
        return;
    log_file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_file < 0)
        fprintf(stderr, "atlas-emu: ATLAS_EMU_LOG=%s cannot be written\n", path);
}

bool atlas_logging(void)
{
    pthread_once(&log_once, open_log);
    return log_file >= 0;
}

uint64_t atlas_next_launch(void)
{
    static atomic_uint_fast64_t count;
    return atomic_fetch_add(&count, 1);
}

void atlas_log_line(const char *line)
{
    /* One write with O_APPEND, so that lines of several threads and processes stay whole. */
    char process[40];
    int head = snprintf(process, sizeof process, "{\"pid\": %d, ", (int)getpid());
    size_t rest = strlen(line + 1);
    struct iovec parts[] = {{process, (size_t)head}, {(void *)(uintptr_t)(line + 1), rest}};
    if (atlas_logging() && writev(log_file, parts, 2) != (ssize_t)((size_t)head + rest))
        atlas_debug("a line of the launch log is lost");
}

double atlas_host_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

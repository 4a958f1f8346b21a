/* Device times, asked of the process behind ATLAS_EMU_PREDICTOR: a line with the call, a line with microseconds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "runtime.h"

#define KNOWN 1024 /* calls whose time is remembered */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
static pid_t owner; /* a child of fork connects anew */
static struct {
    uint64_t key;
    double us;
} known[KNOWN];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool predicting;

static void read_variable(void)
{
    const char *path = getenv("ATLAS_EMU_PREDICTOR");
    predicting = path != NULL && *path != '\0';
}

bool atlas_predicting(void)
{
    pthread_once(&once, read_variable);
    return predicting;
}

static uint64_t key_of(const char *text)
{
    uint64_t key = UINT64_C(0xCBF29CE484222325);
    for (; *text != '\0'; text++)
        key = (key ^ (unsigned char)*text) * UINT64_C(0x100000001B3);
    return key == 0 ? 1 : key;
}

static bool connected(void)
{
    if (connection >= 0 && owner == getpid())
        return true;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = getenv("ATLAS_EMU_PREDICTOR");
    if (path == NULL || strlen(path) >= sizeof address.sun_path)
        return false;
    strcpy(address.sun_path, path);
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    owner = getpid();
    if (connection >= 0 && connect(connection, (struct sockaddr *)&address, sizeof address) != 0) {
        close(connection);
        connection = -1;
    }
    return connection >= 0;
}

static bool ask(const char *call, double *us)
{
    char line[8192];
    int length = snprintf(line, sizeof line, "{%s}\n", call);
    if (length >= (int)sizeof line || !connected() || send(connection, line, (size_t)length, MSG_NOSIGNAL) != length)
        return false;
    size_t used = 0;
    while (used + 1 < sizeof line && (used == 0 || line[used - 1] != '\n')) {
        ssize_t got = recv(connection, line + used, sizeof line - 1 - used, 0);
        if (got <= 0)
            return false;
        used += (size_t)got;
    }
    line[used] = '\0';
    *us = strtod(line, NULL);
    return true;
}

double atlas_predict(const char *call)
{
    if (!atlas_predicting())
        return 0;
    uint64_t key = key_of(call);
    double us = 0;
    pthread_mutex_lock(&lock);
    size_t place = key % KNOWN;
    if (known[place].key == key) {
        us = known[place].us;
    } else if (ask(call, &us)) {
        known[place].key = key;
        known[place].us = us;
    } else {
        atlas_debug("no device time from ATLAS_EMU_PREDICTOR");
    }
    pthread_mutex_unlock(&lock);
    return us;
}

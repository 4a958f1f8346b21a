/* ATLAS_EMU_FAULT=<function>:<code>[:<call>][,...]: which call fails with what. See fault.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "fault_names.h"
#include "runtime.h"

#define COUNT ((int)(sizeof NAMES / sizeof *NAMES))

static struct {
    atomic_int code;  /* 0: none */
    atomic_long call; /* the one that fails, from 1 on; 0: each */
    atomic_long calls;
} faults[sizeof NAMES / sizeof *NAMES];

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char wrong[256]; /* what is wrong with the environment's text: then every call fails */

const char *atlas_emu_fault_name(int function)
{
    return function >= 0 && function < COUNT ? NAMES[function] : NULL;
}

static bool number(const char *text, long least, long most, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *value >= least && *value <= most;
}

/* One <function>:<code>[:<call>], which it takes apart; false with the reason. */
static bool set_one(char *text, char *reason, size_t size)
{
    char *code = strchr(text, ':'), *call = NULL;
    if (code != NULL) {
        *code++ = '\0';
        call = strchr(code, ':');
        if (call != NULL)
            *call++ = '\0';
    }
    int function = 0;
    while (function < COUNT && strcmp(NAMES[function], text) != 0)
        function++;
    long value, nth = 0;
    if (function == COUNT)
        snprintf(reason, size, "%.64s is no function that can fail; faults.txt of the root lists them", text);
    else if (code == NULL || !number(code, INT32_MIN, INT32_MAX, &value) || value == 0)
        snprintf(reason, size, "%s:%.32s: the code must be a number other than 0", text, code == NULL ? "" : code);
    else if (call != NULL && !number(call, 1, INT32_MAX, &nth))
        snprintf(reason, size, "%s:%s:%.32s: the call must be a number from 1 on", text, code, call);
    else {
        atomic_store(&faults[function].call, nth);
        atomic_store(&faults[function].code, (int)value);
        return true;
    }
    return false;
}

static bool set(const char *text, char *reason, size_t size)
{
    for (int i = 0; i < COUNT; i++) {
        atomic_store(&faults[i].code, 0);
        atomic_store(&faults[i].calls, 0);
    }
    char *copy = strdup(text), *rest = copy, *one;
    bool fine = copy != NULL;
    while (fine && (one = strsep(&rest, ",")) != NULL)
        fine = *one == '\0' || set_one(one, reason, size);
    free(copy);
    return fine;
}

static void read_variable(void)
{
    const char *text = getenv("ATLAS_EMU_FAULT");
    if (text != NULL && !set(text, wrong, sizeof wrong))
        fprintf(stderr, "atlas-emu: ATLAS_EMU_FAULT: %s\n", wrong);
}

int atlas_emu_fault(const char *text)
{
    pthread_once(&once, read_variable);
    char reason[sizeof wrong] = "";
    wrong[0] = '\0';
    if (set(text == NULL ? "" : text, reason, sizeof reason))
        return ACL_SUCCESS;
    return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007", "atlas_emu_fault: %s.", reason);
}

int atlas_fault(int function)
{
    pthread_once(&once, read_variable);
    const char *name = NAMES[function];
    if (wrong[0] != '\0')
        return acl_fail(ACL_ERROR_FAILURE, "EH9999", "ATLAS_EMU_FAULT: %s.", wrong);
    long number = atomic_fetch_add(&faults[function].calls, 1) + 1;
    int code = atomic_load(&faults[function].code);
    long call = atomic_load(&faults[function].call);
    if (code == 0 || (call != 0 && call != number))
        return 0;
    const char *head = "EZ9999", *title = "AclNN_Inner_Error";
    if (function < RUNTIME) {
        bool inner = strncmp(name, "aclrt", 5) == 0;
        head = inner ? "EE9999" : "EH9999";
        title = inner ? "Runtime_Error" : "Acl_Parameter_Error";
    } else {
        switch (code / 100000) {
#define KIND(digit, its_head, its_title)                                                                      \
    case digit:                                                                                               \
        head = its_head;                                                                                      \
        title = its_title;                                                                                    \
        break;
            ATLAS_KINDS
#undef KIND
        }
    }
    return atlas_fail(code, head, title, "%s failed with %d: call %ld, by ATLAS_EMU_FAULT.", name, code, number);
}

const char *atlas_emu_leaks(void)
{
    static _Thread_local char text[ATLAS_TEXT];
    return emu_leaks(text, sizeof text) ? text : NULL;
}

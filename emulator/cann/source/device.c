/* Initialisation, devices, contexts, and what the chip says of itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "runtime.h"

#define MOST_DEVICES 16

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* aclInit */
static int initialised;
static bool finalised;
static char *config; /* of the first aclInit with one, kept for the process */

/* Devices */
static struct {
    int users; /* calls of aclrtSetDevice less those of aclrtResetDevice */
    emu_context *context;
} devices[MOST_DEVICES];

static _Thread_local emu_context *current;

static atomic_int overflow_mode = -1; /* set by aclrtSetDeviceSatMode; -1: the chip's */
static atomic_int deterministic;

static pthread_once_t soc_once = PTHREAD_ONCE_INIT;
static const atlas_chip *soc;

static void choose_soc(void)
{
    const char *name = getenv("ATLAS_EMU_SOC");
    if (name == NULL || *name == '\0')
        name = atlas_default_soc;
    for (int i = 0; i < atlas_chip_count; i++)
        if (strcasecmp(atlas_chips[i].name, name) == 0)
            soc = &atlas_chips[i];
    if (soc == NULL)
        fprintf(stderr, "atlas-emu: ATLAS_EMU_SOC=%s is no chip of this build; `atlas-emu socs` lists them\n", name);
}

const atlas_chip *atlas_soc(void)
{
    pthread_once(&soc_once, choose_soc);
    return soc;
}

static bool cpu_suffices(void)
{
#if defined(__x86_64__) && defined(ATLAS_NEEDS_AVX2)
    /* CPUID itself: not every compiler's run time answers __builtin_cpu_supports in a shared library. */
    unsigned a, b, c, d;
    bool half = __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
    return half && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 5 & 1);
#else
    return true;
#endif
}

int emu_device_count(void)
{
    const char *text = getenv("ATLAS_EMU_DEVICES");
    int count = text == NULL ? 1 : atoi(text);
    return count < 1 ? 1 : count > MOST_DEVICES ? MOST_DEVICES : count;
}

bool emu_initialised(void)
{
    pthread_mutex_lock(&lock);
    bool is = initialised > 0;
    pthread_mutex_unlock(&lock);
    return is;
}

/* The text of a configuration, "" for none, NULL where it cannot be read or is no JSON object. */
static char *read_config(const char *path)
{
    if (path == NULL || *path == '\0')
        return strdup("");
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return NULL;
    char *text = malloc(65537);
    size_t size = text == NULL ? 0 : fread(text, 1, 65536, file);
    fclose(file);
    if (text == NULL)
        return NULL;
    while (size > 0 && strchr(" \t\r\n", text[size - 1]) != NULL)
        size--;
    text[size] = '\0';
    const char *start = text + strspn(text, " \t\r\n");
    memmove(text, start, strlen(start) + 1);
    size = strlen(text);
    bool object = size >= 2 && text[0] == '{' && text[size - 1] == '}';
    if (size > 0 && !object) {
        free(text);
        return NULL;
    }
    if (strspn(text, "{} \t\r\n") == size)
        text[0] = '\0';
    return text;
}

aclError aclInit(const char *configPath)
{
    if (atlas_soc() == NULL)
        return acl_fail(ACL_ERROR_FAILURE, "EH9999", "ATLAS_EMU_SOC names no chip of this build.");
    if (!cpu_suffices())
        return acl_fail(ACL_ERROR_FAILURE, "EH9999",
                        "these libraries were built for a CPU with AVX2, which this one has not: build them here.");
    char *text = read_config(configPath);
    if (text == NULL)
        return acl_fail(ACL_ERROR_INVALID_FILE, "EH0001", "%s cannot be read, or is no JSON object.", configPath);
    int status = ACL_SUCCESS;
    pthread_mutex_lock(&lock);
    if (config != NULL && *config != '\0' && *text != '\0' && strcmp(config, text) != 0) {
        status = ACL_ERROR_INVALID_PARAM;
    } else {
        status = initialised > 0 ? ACL_ERROR_REPEAT_INITIALIZE : ACL_SUCCESS;
        if (config == NULL || *config == '\0') {
            free(config);
            config = text;
            text = NULL;
        }
        initialised++;
        finalised = false;
    }
    pthread_mutex_unlock(&lock);
    free(text);
    if (status == ACL_ERROR_INVALID_PARAM)
        return acl_fail(status, "EH0007", "%s says something else than the configuration of the first aclInit.",
                        configPath);
    if (status != 0)
        return acl_fail(status, "EH0009", "aclInit was called before.");
    return ACL_SUCCESS;
}

static void tell_leaks(void)
{
#ifdef ATLAS_FAULTS
    const bool always = true;
#else
    const bool always = false;
#endif
    char text[ATLAS_TEXT];
    if ((always || atlas_debugging()) && emu_leaks(text, sizeof text))
        fprintf(stderr, "atlas-emu: aclFinalize: not given back: %s\n", text);
}

aclError aclFinalize(void)
{
    pthread_mutex_lock(&lock);
    bool again = finalised;
    initialised = 0;
    finalised = true;
    pthread_mutex_unlock(&lock);
    if (again)
        return acl_fail(ACL_ERROR_REPEAT_FINALIZE, "EH0009", "aclFinalize was called before.");
    if (atlas_debugging())
        emu_memory_report();
    tell_leaks();
    emu_streams_forget();
    return ACL_SUCCESS;
}

emu_context *emu_current(void)
{
    if (current != NULL && atlas_handle_has(HANDLE_CONTEXT, current))
        return current;
    rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001",
            "the thread has no context: aclrtSetDevice or aclrtSetCurrentContext comes first.");
    return NULL;
}

static emu_context *make_context(int32_t device, bool implicit)
{
    const atlas_chip *chip = atlas_soc();
    emu_context *c = calloc(1, sizeof *c);
    if (c == NULL)
        return NULL;
    *c = (emu_context){.device = device, .implicit = implicit};
    /* The default stream is as old as the device: it keeps the chip's own overflow mode. */
    c->stream = emu_stream_new(c, chip->saturates_first);
    if (c->stream == NULL || !atlas_handle_add(HANDLE_CONTEXT, c)) {
        if (c->stream != NULL)
            emu_stream_close(c->stream, true);
        free(c);
        return NULL;
    }
    return c;
}

static void end_context(emu_context *c, bool force)
{
    if (!atlas_handle_remove(HANDLE_CONTEXT, c))
        return;
    emu_streams_close(c, force);
    if (current == c)
        current = NULL;
    free(c);
}

size_t emu_contexts_live(void)
{
    size_t implicit = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_DEVICES; i++)
        implicit += devices[i].context != NULL;
    pthread_mutex_unlock(&lock);
    size_t all = atlas_handle_count(HANDLE_CONTEXT);
    return all > implicit ? all - implicit : 0;
}

static int check_device(int32_t deviceId)
{
    if (!emu_initialised())
        return acl_fail(ACL_ERROR_UNINITIALIZE, "EH0009", "aclInit comes first.");
    if (deviceId < 0 || deviceId >= emu_device_count())
        return rt_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1001", "device %d: there are %d, from 0 on.", (int)deviceId,
                       emu_device_count());
    return 0;
}

aclError aclrtSetDevice(int32_t deviceId)
{
    int status = check_device(deviceId);
    if (status != 0)
        return status;
    pthread_mutex_lock(&lock);
    if (devices[deviceId].context == NULL)
        devices[deviceId].context = make_context(deviceId, true);
    emu_context *c = devices[deviceId].context;
    if (c != NULL)
        devices[deviceId].users++;
    pthread_mutex_unlock(&lock);
    if (c == NULL)
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004", "no context can be made for device %d.",
                       (int)deviceId);
    current = c;
    return ACL_SUCCESS;
}

static aclError reset(int32_t deviceId, bool force)
{
    if (deviceId < 0 || deviceId >= emu_device_count())
        return rt_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1001", "device %d: there are %d, from 0 on.", (int)deviceId,
                       emu_device_count());
    pthread_mutex_lock(&lock);
    bool set = devices[deviceId].users > 0;
    emu_context *ended = NULL;
    if (set && (force || --devices[deviceId].users == 0)) {
        devices[deviceId].users = 0;
        ended = devices[deviceId].context;
        devices[deviceId].context = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (!set)
        return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "device %d is not set, or was reset before.",
                       (int)deviceId);
    if (ended != NULL)
        end_context(ended, force);
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t deviceId)
{
    return reset(deviceId, false);
}

aclError aclrtResetDeviceForce(int32_t deviceId)
{
    return reset(deviceId, true);
}

aclError aclrtGetDevice(int32_t *deviceId)
{
    NOT_NULL(deviceId);
    emu_context *c = emu_current();
    if (c == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *deviceId = c->device;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t *count)
{
    NOT_NULL(count);
    if (atlas_soc() == NULL)
        return rt_fail(ACL_ERROR_RT_NO_DEVICE, "EE1001", "ATLAS_EMU_SOC names no chip of this build.");
    *count = (uint32_t)emu_device_count();
    return ACL_SUCCESS;
}

aclError aclrtGetRunMode(aclrtRunMode *runMode)
{
    NOT_NULL(runMode);
    *runMode = ACL_HOST;
    return ACL_SUCCESS;
}

const char *aclrtGetSocName(void)
{
    const atlas_chip *chip = atlas_soc();
    return chip == NULL ? NULL : chip->name;
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t timeout)
{
    if (timeout < -1)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclrtSynchronizeDeviceWithTimeout failed because value %d for parameter timeout is invalid. "
                        "Expected value: >= -1.",
                        (int)timeout);
    emu_context *c = emu_current();
    return c == NULL ? ACL_ERROR_RT_CONTEXT_NULL : emu_streams_wait(c, timeout);
}

aclError aclrtSynchronizeDevice(void)
{
    return aclrtSynchronizeDeviceWithTimeout(-1);
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    NOT_NULL(context);
    int status = check_device(deviceId);
    if (status != 0)
        return status;
    emu_context *c = make_context(deviceId, false);
    if (c == NULL)
        return rt_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "EL0004", "no context can be made for device %d.",
                       (int)deviceId);
    current = c;
    *context = c;
    return ACL_SUCCESS;
}

aclError aclrtDestroyContext(aclrtContext context)
{
    NOT_NULL(context);
    if (!atlas_handle_has(HANDLE_CONTEXT, context))
        return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "context %p is none, or was destroyed.", context);
    emu_context *c = context;
    if (c->implicit)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1001",
                       "the context of aclrtSetDevice is ended by aclrtResetDevice.");
    end_context(c, false);
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    NOT_NULL(context);
    if (!atlas_handle_has(HANDLE_CONTEXT, context))
        return rt_fail(ACL_ERROR_RT_CONTEXT_NULL, "EE1001", "context %p is none, or was destroyed.", context);
    current = context;
    return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext *context)
{
    NOT_NULL(context);
    emu_context *c = emu_current();
    if (c == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *context = c;
    return ACL_SUCCESS;
}

int emu_default_overflow(void)
{
    const atlas_chip *chip = atlas_soc();
    int mode = atomic_load(&overflow_mode);
    if (mode == ACL_RT_OVERFLOW_MODE_SATURATION && chip->has_saturation)
        return mode;
    if (mode == ACL_RT_OVERFLOW_MODE_INFNAN && chip->has_inf_nan)
        return mode;
    return chip->saturates_first ? ACL_RT_OVERFLOW_MODE_SATURATION : ACL_RT_OVERFLOW_MODE_INFNAN;
}

aclError aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    if ((int)mode != ACL_RT_OVERFLOW_MODE_SATURATION && (int)mode != ACL_RT_OVERFLOW_MODE_INFNAN)
        return rt_fail(ACL_ERROR_RT_PARAM_INVALID, "EE1003", "overflow mode %d: must be 0 or 1.", (int)mode);
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    atomic_store(&overflow_mode, (int)mode);
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    NOT_NULL(mode);
    if (emu_current() == NULL)
        return ACL_ERROR_RT_CONTEXT_NULL;
    *mode = (aclrtFloatOverflowMode)emu_default_overflow();
    return ACL_SUCCESS;
}

aclError aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    (void)timeout; /* nothing that is emulated runs into one */
    return ACL_SUCCESS;
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout)
{
    (void)timeout;
    return ACL_SUCCESS;
}

static int check_option(aclSysParamOpt opt)
{
    if ((int)opt != ACL_OPT_DETERMINISTIC)
        return rt_fail(ACL_ERROR_API_NOT_SUPPORT, "EE1006", "system parameter %d is not emulated.", (int)opt);
    return 0;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    NOT_NULL(value);
    int status = check_option(opt);
    if (status == 0)
        *value = atomic_load(&deterministic);
    return status;
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    int status = check_option(opt);
    if (status == 0 && value != 0 && value != 1)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclrtSetSysParamOpt failed because value %lld for parameter value is invalid. "
                        "Expected value: 0 or 1.",
                        (long long)value);
    if (status == 0)
        atomic_store(&deterministic, (int)value);
    return status;
}

aclError aclGetCannAttribute(aclCannAttr attribute, int32_t *value)
{
    NOT_NULL(value);
    const atlas_chip *chip = atlas_soc();
    if (chip == NULL)
        return acl_fail(ACL_ERROR_FAILURE, "EH9999", "ATLAS_EMU_SOC names no chip of this build.");
    switch ((int)attribute) {
    case ACL_CANN_ATTR_INF_NAN:
        *value = chip->has_inf_nan;
        return ACL_SUCCESS;
    case ACL_CANN_ATTR_BF16:
        *value = (chip->types >> TYPE_BFLOAT16) & 1;
        return ACL_SUCCESS;
    case ACL_CANN_ATTR_JIT_COMPILE:
        *value = 0; /* kernels are compiled before */
        return ACL_SUCCESS;
    default:
        return acl_fail(ACL_ERROR_API_NOT_SUPPORT, "EH9999", "attribute %d is not emulated.", (int)attribute);
    }
}

aclError aclGetDeviceCapability(uint32_t deviceId, aclDeviceInfo info, int64_t *value)
{
    NOT_NULL(value);
    const atlas_chip *chip = atlas_soc();
    if (chip == NULL || deviceId >= (uint32_t)emu_device_count())
        return rt_fail(ACL_ERROR_RT_INVALID_DEVICEID, "EE1001", "there is no device %u.", deviceId);
    switch ((int)info) {
    case ACL_DEVICE_INFO_AI_CORE_NUM:
        *value = chip->ai_cores;
        return ACL_SUCCESS;
    case ACL_DEVICE_INFO_VECTOR_CORE_NUM:
        *value = chip->vector_cores;
        return ACL_SUCCESS;
    case ACL_DEVICE_INFO_L2_SIZE:
        *value = chip->l2_bytes;
        return ACL_SUCCESS;
    default:
        return acl_fail(ACL_ERROR_API_NOT_SUPPORT, "EH9999", "device information %d is not emulated.", (int)info);
    }
}

/* The version of the interface that the headers have; the emulator's own is in version.cfg. */
#define ACL_MAJOR 1
#define ACL_MINOR 13
#define ACL_PATCH 0
#define CANN_VERSION "8.1.RC1"

aclError aclrtGetVersion(int32_t *majorVersion, int32_t *minorVersion, int32_t *patchVersion)
{
    NOT_NULL(majorVersion);
    NOT_NULL(minorVersion);
    NOT_NULL(patchVersion);
    *majorVersion = ACL_MAJOR;
    *minorVersion = ACL_MINOR;
    *patchVersion = ACL_PATCH;
    return ACL_SUCCESS;
}

aclError aclsysGetCANNVersion(aclCANNPackageName name, aclCANNPackageVersion *version)
{
    NOT_NULL(version);
    if ((int)name != ACL_PKG_NAME_CANN)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclsysGetCANNVersion failed because value %d for parameter name is invalid. "
                        "Expected value: 0.",
                        (int)name);
    memset(version, 0, sizeof *version);
    strcpy(version->version, CANN_VERSION);
    strcpy(version->majorVersion, "8");
    strcpy(version->minorVersion, "1");
    strcpy(version->releaseVersion, "RC1");
    return ACL_SUCCESS;
}

aclError aclsysGetVersionStr(char *pkgName, char *versionStr)
{
    NOT_NULL(pkgName);
    NOT_NULL(versionStr);
    strcpy(versionStr, CANN_VERSION);
    return ACL_SUCCESS;
}

aclError aclsysGetVersionNum(char *pkgName, int32_t *versionNum)
{
    NOT_NULL(pkgName);
    NOT_NULL(versionNum);
    *versionNum = 80100000;
    return ACL_SUCCESS;
}

__attribute__((destructor)) static void free_config(void)
{
    free(config);
    config = NULL;
}

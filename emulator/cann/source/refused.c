/* Functions that loaders want to find, and that are not emulated: each says so, none pretends to have worked.

   Clients see them through their own headers; whatever they pass is not looked at. */

#include <string.h>

#include "runtime.h"

#define EXPORT __attribute__((visibility("default")))

static int refuse(const char *name)
{
    return acl_fail(ACL_ERROR_API_NOT_SUPPORT, "EH9999", "%s is not emulated.", name);
}

#define STATUS(name)                                                                                          \
    EXPORT int name(void);                                                                                    \
    int name(void)                                                                                            \
    {                                                                                                         \
        return refuse(#name);                                                                                 \
    }
#define POINTER(name)                                                                                         \
    EXPORT void *name(void);                                                                                  \
    void *name(void)                                                                                          \
    {                                                                                                         \
        refuse(#name);                                                                                        \
        return NULL;                                                                                          \
    }
#define NUMBER(name, value)                                                                                   \
    EXPORT int64_t name(void);                                                                                \
    int64_t name(void)                                                                                        \
    {                                                                                                         \
        refuse(#name);                                                                                        \
        return value;                                                                                         \
    }
#define NOTHING(name)                                                                                         \
    EXPORT void name(void);                                                                                   \
    void name(void)                                                                                           \
    {                                                                                                         \
    }

/* Single operators by name. */
STATUS(aclopCompileAndExecute)
STATUS(aclopCompileAndExecuteV2)
STATUS(aclopExecuteV2)
STATUS(aclopCompile)
STATUS(aclopCreateHandle)
STATUS(aclopLoad)
STATUS(aclopSetModelDir)
POINTER(aclopCreateAttr)
NOTHING(aclopDestroyAttr)
STATUS(aclopSetAttrBool)
STATUS(aclopSetAttrDataType)
STATUS(aclopSetAttrFloat)
STATUS(aclopSetAttrInt)
STATUS(aclopSetAttrListBool)
STATUS(aclopSetAttrListFloat)
STATUS(aclopSetAttrListInt)
STATUS(aclopSetAttrListListInt)
STATUS(aclopSetAttrString)
POINTER(aclCreateDataBuffer)
POINTER(aclCreateTensorDesc)
NOTHING(aclDestroyTensorDesc)
NUMBER(aclGetTensorDescType, -1)
NUMBER(aclGetTensorDescFormat, -1)
NUMBER(aclGetTensorDescNumDims, 0)
STATUS(aclGetTensorDescDimV2)
NOTHING(aclSetTensorDescName)
STATUS(aclSetTensorFormat)
STATUS(aclSetTensorPlaceMent)
STATUS(aclSetTensorShape)

/* Models, dumps, profiling. */
STATUS(aclmdlInitDump)
STATUS(aclmdlSetDump)
STATUS(aclmdlFinalizeDump)
STATUS(aclmdlLoadFromFile)
STATUS(aclmdlLoadFromMem)
STATUS(aclmdlExecute)
STATUS(aclmdlExecuteAsync)
STATUS(aclprofInit)
STATUS(aclprofStart)
STATUS(aclprofStop)
STATUS(aclprofFinalize)
STATUS(MsprofRegisterCallback)
STATUS(MsprofReportApi)
STATUS(MsprofReportCompactInfo)
STATUS(MsprofReportAdditionalInfo)
NUMBER(MsprofGetHashId, 0)
NUMBER(MsprofSysCycleTime, 0)

/* Kernels of the client's own, and memory that is mapped by hand or shared between devices and processes. */
STATUS(aclrtBinaryGetFunction)
STATUS(aclrtBinaryLoadFromData)
STATUS(aclrtGetFunctionAddr)
STATUS(aclrtLaunchKernel)
STATUS(aclrtDeviceCanAccessPeer)
STATUS(aclrtDeviceEnablePeerAccess)
STATUS(aclrtDeviceDisablePeerAccess)
STATUS(aclrtDeviceGetBareTgid)
STATUS(aclrtMallocPhysical)
STATUS(aclrtFreePhysical)
STATUS(aclrtReserveMemAddress)
STATUS(aclrtReleaseMemAddress)
STATUS(aclrtMapMem)
STATUS(aclrtUnmapMem)
STATUS(aclrtMemExportToShareableHandle)
STATUS(aclrtMemImportFromShareableHandle)
STATUS(aclrtMemSetPidToShareableHandle)
STATUS(aclrtMallocCached)
STATUS(aclrtMemcpy2d)
STATUS(aclrtMemcpy2dAsync)
STATUS(aclrtLaunchCallback)
STATUS(aclrtSubscribeReport)
STATUS(aclrtUnSubscribeReport)
STATUS(aclrtProcessReport)
STATUS(rtDevBinaryRegister)
STATUS(rtFunctionRegister)
STATUS(rtGetC2cCtrlAddr)
STATUS(rtKernelLaunch)

/* Nothing of the kind can be made, so that NULL is all there is to destroy. */
EXPORT int aclDestroyDataBuffer(const void *buffer);

int aclDestroyDataBuffer(const void *buffer)
{
    return buffer == NULL ? ACL_SUCCESS : refuse("aclDestroyDataBuffer");
}

/* Options of the compilation of single operators. They are kept, since loaders set them at start; what they would
   apply to is refused above. */

EXPORT int aclSetCompileopt(int option, const char *value);
EXPORT size_t aclGetCompileoptSize(int option);
EXPORT int aclGetCompileopt(int option, char *value, size_t length);

#define OPTIONS 32
#define OPTION_BYTES 256

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char options[OPTIONS][OPTION_BYTES];

int aclSetCompileopt(int option, const char *value)
{
    NOT_NULL(value);
    if (option < 0 || option >= OPTIONS || strlen(value) >= OPTION_BYTES)
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclSetCompileopt failed because value %d for parameter option is invalid. "
                        "Expected value: 0 to %d, with a short text.",
                        option, OPTIONS - 1);
    pthread_mutex_lock(&lock);
    strcpy(options[option], value);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

size_t aclGetCompileoptSize(int option)
{
    if (option < 0 || option >= OPTIONS)
        return 0;
    pthread_mutex_lock(&lock);
    size_t size = strlen(options[option]) + 1;
    pthread_mutex_unlock(&lock);
    return size;
}

int aclGetCompileopt(int option, char *value, size_t length)
{
    NOT_NULL(value);
    if (option < 0 || option >= OPTIONS || length < aclGetCompileoptSize(option))
        return acl_fail(ACL_ERROR_INVALID_PARAM, "EH0007",
                        "aclGetCompileopt failed because value %zu for parameter length is invalid. "
                        "Expected value: that of aclGetCompileoptSize.",
                        length);
    pthread_mutex_lock(&lock);
    strcpy(value, options[option]);
    pthread_mutex_unlock(&lock);
    return ACL_SUCCESS;
}

/* The client's own lines for the vendor's log; there is none. */
NOTHING(aclAppLog)

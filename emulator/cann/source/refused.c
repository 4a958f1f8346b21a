/* Functions that loaders want to find, and that are not emulated: each says so, none pretends to have worked.

   Clients see them through their own headers; whatever they pass is not looked at. */

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
STATUS(aclDestroyDataBuffer)
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
STATUS(aclSetCompileopt)
STATUS(aclGetCompileopt)
NUMBER(aclGetCompileoptSize, 0)

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

/* The client's own lines for the vendor's log; there is none. */
NOTHING(aclAppLog)

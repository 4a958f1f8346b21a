/* A careful client: it stops at the first call that fails, and gives everything back. What fails there is tried
   once more. */
#include <stdbool.h>

#include "aclnnop/aclnn_fill_scalar.h"
#include "client.h"

static int failed;

static int told(const char *function, int status)
{
    if (status == 0)
        return 0;
    const char *text = aclGetRecentErrMsg();
    const char *body = text == NULL ? NULL : strstr(text, "): ");
    printf("%s %d %s", function, status, body == NULL ? "-\n" : body + 3);
    return failed = 1;
}

#define DO(function, ...)                                        \
    do {                                                         \
        if (!failed)                                             \
            told(#function, (int)function(__VA_ARGS__));         \
    } while (0)
#define MAKE(place, function, ...)                               \
    do {                                                         \
        if (!failed && ((place) = function(__VA_ARGS__)) == NULL) \
            told(#function, -1);                                 \
    } while (0)
/* Only what was made is given back. */
#define BACK(made, function, ...)                                \
    do {                                                         \
        if ((made) && told(#function, (int)function(__VA_ARGS__))) \
            told(#function, (int)function(__VA_ARGS__));         \
    } while (0)

enum { COUNT = 4 };

int main(void)
{
    const int64_t dims[] = {COUNT};
    const size_t bytes = COUNT * sizeof(float);
    float values[COUNT] = {0, 1, 2, 3}, ms = 0, found[COUNT] = {0}, two = 2;
    void *memory[4] = {NULL}, *workspace = NULL, *pinned = NULL;
    aclTensor *tensors[4] = {NULL};
    aclScalar *scalar = NULL;
    aclrtStream stream = NULL, other = NULL;
    aclrtEvent events[2] = {NULL};
    aclOpExecutor *executor = NULL;
    aclrtContext context = NULL;
    aclrtEventRecordedStatus recorded;
    aclrtStreamStatus done;
    aclrtRunMode mode;
    uint64_t size = 0;
    size_t free_bytes, total;
    uint32_t devices;
    int32_t device;
    const char *name;
    bool initialised = false, set = false;

    DO(aclInit, NULL);
    initialised = !failed;
    DO(aclrtGetDeviceCount, &devices);
    DO(aclrtSetDevice, 0);
    set = !failed;
    DO(aclrtGetDevice, &device);
    DO(aclrtGetRunMode, &mode);
    MAKE(name, aclrtGetSocName);
    DO(aclrtGetCurrentContext, &context);
    DO(aclrtSetCurrentContext, context);
    DO(aclrtGetMemInfo, ACL_HBM_MEM, &free_bytes, &total);
    DO(aclrtCreateStream, &stream);
    DO(aclrtCreateStreamWithConfig, &other, 0, ACL_STREAM_FAST_LAUNCH);
    DO(aclrtCreateEvent, &events[0]);
    DO(aclrtCreateEventWithFlag, &events[1], ACL_EVENT_TIME_LINE);
    DO(aclrtMallocHost, &pinned, bytes);
    for (int i = 0; i < 4; i++) {
        DO(aclrtMalloc, &memory[i], bytes, ACL_MEM_MALLOC_HUGE_FIRST);
        DO(aclrtMemcpy, memory[i], bytes, values, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
        MAKE(tensors[i], aclCreateTensor, dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, memory[i]);
    }
    DO(aclrtMemset, memory[3], bytes, 0, bytes);
    DO(aclrtMemsetAsync, memory[2], bytes, 0, bytes, stream);
    MAKE(scalar, aclCreateScalar, &two, ACL_FLOAT);
    DO(aclnnInplaceFillScalarGetWorkspaceSize, tensors[0], scalar, &size, &executor);
    if (!failed) {
        aclOpExecutor *spent = executor;
        executor = NULL;
        DO(aclnnInplaceFillScalar, NULL, size, spent, stream);
    }
    DO(aclnnMseLossBackwardGetWorkspaceSize, tensors[0], tensors[1], tensors[2], 0, tensors[3], &size, &executor);
    DO(aclSetAclOpExecutorRepeatable, executor);
    if (size > 0)
        DO(aclrtMalloc, &workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    DO(aclrtRecordEvent, events[0], stream);
    DO(aclnnMseLossBackward, workspace, size, executor, stream);
    DO(aclnnMseLossBackward, workspace, size, executor, stream);
    DO(aclrtRecordEvent, events[1], stream);
    DO(aclrtStreamWaitEvent, other, events[1]);
    DO(aclrtMemcpyAsync, pinned, bytes, memory[3], bytes, ACL_MEMCPY_DEVICE_TO_HOST, stream);
    DO(aclrtSynchronizeStream, stream);
    DO(aclrtSynchronizeStreamWithTimeout, other, 1000);
    DO(aclrtStreamQuery, stream, &done);
    DO(aclrtSynchronizeEvent, events[1]);
    DO(aclrtQueryEventStatus, events[1], &recorded);
    DO(aclrtEventElapsedTime, &ms, events[0], events[1]);
    DO(aclrtSynchronizeDevice);
    if (!failed) {
        memcpy(found, pinned, sizeof found);
        printf("%g %g %g %g\n", found[0], found[1], found[2], found[3]);
    }

    /* An executor that phase 2 has not used up. */
    BACK(executor != NULL, aclDestroyAclOpExecutor, executor);
    BACK(scalar != NULL, aclDestroyScalar, scalar);
    BACK(stream != NULL, aclrtDestroyStream, stream);
    BACK(other != NULL, aclrtDestroyStream, other);
    for (int i = 0; i < 4; i++) {
        BACK(tensors[i] != NULL, aclDestroyTensor, tensors[i]);
        BACK(memory[i] != NULL, aclrtFree, memory[i]);
    }
    BACK(workspace != NULL, aclrtFree, workspace);
    BACK(pinned != NULL, aclrtFreeHost, pinned);
    for (int i = 0; i < 2; i++)
        BACK(events[i] != NULL, aclrtDestroyEvent, events[i]);
    BACK(set, aclrtResetDevice, 0);
    BACK(initialised, aclFinalize);
    return failed;
}

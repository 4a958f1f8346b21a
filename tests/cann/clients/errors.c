/* What a client can do wrong, with the status and the text that it gets. */
#include "client.h"

int main(void)
{
    uint64_t size;
    aclOpExecutor *executor, *again;
    aclrtStream stream, stale;
    aclrtEvent event;
    void *memory, *none = NULL;
    float host[4] = {0};
    size_t free_bytes, total;
    int32_t device;

    TELL(aclrtSetDevice(0)); /* aclInit was forgotten */
    TELL(aclInit("/no/such/file.json"));
    TELL(aclInit(NULL));
    TELL(aclInit(NULL));
    TELL(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    TELL(aclrtGetDevice(&device));
    TELL(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    TELL(aclrtSetDevice(7));
    TELL(aclrtSetDevice(-1));
    TELL(aclrtSetDevice(0));
    TELL(aclrtMalloc(NULL, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    TELL(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    TELL(aclrtMalloc(&memory, 16, ACL_MEM_MALLOC_HUGE_FIRST));
    TELL(aclrtMemcpy(NULL, 16, host, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    TELL(aclrtMemcpy(memory, 16, host, 0, ACL_MEMCPY_HOST_TO_DEVICE));
    TELL(aclrtMemcpy(memory, 8, host, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    TELL(aclrtMemcpy(memory, 0, host, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    TELL(aclrtMemcpy(memory, 16, host, 16, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE));
    TELL(aclrtMemcpy(memory, 16, memory, 16, ACL_MEMCPY_DEVICE_TO_DEVICE));
    TELL(aclrtMemcpyAsync(host, 8, host + 2, 8, ACL_MEMCPY_HOST_TO_HOST, NULL));
    TELL(aclrtMemset(memory, 8, 0, 16));
    TELL(aclrtSynchronizeStream(NULL));
    TELL(aclrtDestroyStream(NULL));
    TELL(aclrtCreateStream(&stream));
    stale = stream;
    TELL(aclrtDestroyStream(stream));
    printf("stale stream: %d\n", (int)aclrtSynchronizeStream(stale));
    printf("destroyed twice: %d\n", (int)aclrtDestroyStream(stale));
    aclGetRecentErrMsg();
    TELL(aclrtCreateEventWithFlag(&event, 0));
    TELL(aclrtDestroyEvent(NULL));

    array g = make_array(host, 4), x = make_array(host, 4), y = make_array(host, 4), out = make_array(NULL, 4);
    int64_t dims[] = {4, 1, 1, 1, 1, 1, 1, 1, 1}, three = 3;
    aclTensor *integers = aclCreateTensor(dims, 1, ACL_INT32, NULL, 0, ACL_FORMAT_ND, dims, 1, memory);
    aclTensor *halves = aclCreateTensor(dims, 1, ACL_FLOAT16, NULL, 0, ACL_FORMAT_ND, dims, 1, memory);
    aclTensor *nine = aclCreateTensor(dims, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, memory);
    aclTensor *short_one = aclCreateTensor(&three, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &three, 1, memory);
    int64_t stride = 2;
    aclTensor *outside = aclCreateTensor(dims, 1, ACL_FLOAT, &stride, 0, ACL_FORMAT_ND, dims, 1, memory);
#define PHASE_1(g, x, y, reduction, out) \
    aclnnMseLossBackwardGetWorkspaceSize(g, x, y, reduction, out, &size, &executor)
    TELL(aclnnMseLossBackwardGetWorkspaceSize(g.tensor, x.tensor, y.tensor, 1, out.tensor, NULL, &executor));
    TELL(PHASE_1(NULL, NULL, y.tensor, 1, NULL));
    TELL(PHASE_1(g.tensor, x.tensor, NULL, 1, out.tensor));
    TELL(PHASE_1(g.tensor, x.tensor, halves, 1, out.tensor));
    TELL(PHASE_1(integers, integers, integers, 1, out.tensor));
    TELL(PHASE_1(g.tensor, x.tensor, y.tensor, 1, integers));
    TELL(PHASE_1(g.tensor, x.tensor, y.tensor, 3, out.tensor));
    TELL(PHASE_1(g.tensor, nine, y.tensor, 1, out.tensor));
    TELL(PHASE_1(short_one, x.tensor, y.tensor, 1, out.tensor));
    TELL(PHASE_1(g.tensor, x.tensor, short_one, 1, out.tensor));
    TELL(PHASE_1(g.tensor, x.tensor, y.tensor, 1, short_one));
    TELL(PHASE_1(g.tensor, x.tensor, outside, 1, out.tensor));
    printf("no dimensions given: %d\n", aclCreateTensor(NULL, 2, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, memory) == NULL);
    aclGetRecentErrMsg();

    TELL(aclnnMseLossBackward(memory, 16, NULL, NULL));
    TELL(aclSetAclOpExecutorRepeatable(NULL));
    TELL(aclDestroyAclOpExecutor(NULL));
    TELL(PHASE_1(g.tensor, x.tensor, y.tensor, 1, out.tensor));
    again = executor;
    TELL(aclnnMseLossBackward(NULL, size, executor, NULL));
    printf("used up: %d\n", (int)aclnnMseLossBackward(memory, size, again, NULL));
    aclGetRecentErrMsg();
    TELL(PHASE_1(g.tensor, x.tensor, y.tensor, 1, out.tensor));
    printf("stale stream: %d\n", (int)aclnnMseLossBackward(memory, size, executor, stale));
    aclGetRecentErrMsg();
    TELL(PHASE_1(g.tensor, x.tensor, y.tensor, 1, out.tensor));
    TELL(aclSetAclOpExecutorRepeatable(executor));
    TELL(aclnnMseLossBackward(memory, size, executor, NULL));
    TELL(aclnnMseLossBackward(memory, size, executor, NULL));
    TELL(aclrtSynchronizeStream(NULL));
    TELL(aclDestroyAclOpExecutor(executor));

    /* A host pointer as device memory shows at the synchronisation. */
    aclTensor *on_host = aclCreateTensor(dims, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, dims, 1, host);
    TELL(PHASE_1(g.tensor, on_host, y.tensor, 1, out.tensor));
    TELL(aclnnMseLossBackward(memory, size, executor, NULL));
    printf("host pointer: %d\n", (int)aclrtSynchronizeStream(NULL));
    printf("told: %d\n", aclGetRecentErrMsg() != NULL);
    TELL(aclrtSynchronizeStream(NULL));
    TELL(PHASE_1(none, on_host, y.tensor, 1, out.tensor));

    aclDestroyTensor(on_host);
    printf("destroyed twice: %d\n", (int)aclDestroyTensor(on_host));
    aclGetRecentErrMsg();
    aclDestroyTensor(integers);
    aclDestroyTensor(halves);
    aclDestroyTensor(nine);
    aclDestroyTensor(short_one);
    aclDestroyTensor(outside);
    TELL(aclDestroyTensor(NULL));
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    TELL(aclrtFree(memory));
    printf("freed twice: %d\n", (int)aclrtFree(memory));
    aclGetRecentErrMsg();
    TELL(aclrtFree(NULL));
    TELL(aclrtResetDevice(0));
    TELL(aclrtResetDevice(0));
    TELL(aclFinalize());
    TELL(aclFinalize());
    TELL(aclInit(NULL));
    TELL(aclFinalize());
    return 0;
}

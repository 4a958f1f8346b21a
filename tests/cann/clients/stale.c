/* Device memory used after it was given back, or mistaken for the host's: refused, without debugging as well. */
#include "client.h"

/* The status and the message without its head. */
#define SAY(what, call)                                                             \
    do {                                                                            \
        int status_ = (int)(call);                                                  \
        const char *text_ = aclGetRecentErrMsg();                                   \
        const char *body_ = text_ == NULL ? "): -" : strstr(text_, "): ");          \
        printf("%s: %d %.*s\n", what, status_, (int)strcspn(body_ + 3, "\n"), body_ + 3); \
    } while (0)

static aclOpExecutor *prepare(array g, array x, array y, aclTensor *out, uint64_t *size)
{
    aclOpExecutor *executor;
    CHECK(aclnnMseLossBackwardGetWorkspaceSize(g.tensor, x.tensor, y.tensor, 0, out, size, &executor));
    return executor;
}

int main(void)
{
    float values[] = {0, 1, 2, 3};
    int64_t four = 4, eight = 8, two = 2;
    uint64_t size;
    void *memory, *workspace;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    array g = make_array(values, 4), x = make_array(values, 4), y = make_array(values, 4), out = make_array(NULL, 8);
    /* Every second element, so that the result comes by way of the workspace. */
    aclTensor *view = aclCreateTensor(&four, 1, ACL_FLOAT, &two, 0, ACL_FORMAT_ND, &eight, 1, out.memory);

    CHECK(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    SAY("behind the allocation", aclrtMemcpy((char *)memory + 4096, 16, values, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    SAY("out of the allocation", aclrtMemcpy(values, 4096, memory, 4096, ACL_MEMCPY_DEVICE_TO_HOST));
    SAY("not its start", aclrtFree((char *)memory + 8));
    SAY("host memory freed", aclrtFree(values));
    SAY("freed", aclrtFree(memory));
    SAY("freed twice", aclrtFree(memory));
    SAY("copy to", aclrtMemcpy(memory, 16, values, 16, ACL_MEMCPY_HOST_TO_DEVICE));
    SAY("copy from", aclrtMemcpy(values, 16, memory, 16, ACL_MEMCPY_DEVICE_TO_HOST));
    SAY("copy later", aclrtMemcpyAsync(memory, 16, values, 16, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    SAY("fill", aclrtMemset(memory, 16, 0, 16));
    SAY("fill later", aclrtMemsetAsync(memory, 16, 0, 16, NULL));

    aclOpExecutor *executor = prepare(g, x, y, view, &size);
    SAY("workspace on the host", aclnnMseLossBackward(values, size, executor, NULL));
    CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtFree(workspace));
    executor = prepare(g, x, y, view, &size);
    SAY("workspace freed", aclnnMseLossBackward(workspace, size, executor, NULL));
    executor = prepare(g, x, y, view, &size);
    CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    SAY("workspace", aclnnMseLossBackward(workspace, size, executor, NULL));
    CHECK(aclrtSynchronizeStream(NULL));
    CHECK(aclrtFree(workspace));

    aclDestroyTensor(view);
    aclDestroyTensor(out.tensor);
    CHECK(aclrtFree(out.memory));
    CHECK(aclrtMalloc(&workspace, 1 << 12, ACL_MEM_MALLOC_HUGE_FIRST));
    out.tensor = aclCreateTensor(&four, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &four, 1, out.memory);
    executor = prepare(g, x, y, out.tensor, &size);
    SAY("launch", aclnnMseLossBackward(workspace, size, executor, NULL));
    SAY("result in memory that was freed", aclrtSynchronizeStream(NULL));
    SAY("told once", aclrtSynchronizeStream(NULL));
    aclDestroyTensor(out.tensor);
    out.tensor = aclCreateTensor(&four, 1, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, &four, 1, values);
    executor = prepare(g, x, y, out.tensor, &size);
    SAY("launch", aclnnMseLossBackward(workspace, size, executor, NULL));
    SAY("result on the host", aclrtSynchronizeStream(NULL));
    aclDestroyTensor(out.tensor);
    CHECK(aclrtFree(workspace));
    drop_array(g);
    drop_array(x);
    drop_array(y);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

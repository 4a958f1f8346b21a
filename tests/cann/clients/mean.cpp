// The gradient of a mean over 2 x 2 elements, with every call checked: what a first program does.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_mse_loss_backward.h"

#define CHECK(call)                                                                     \
    do {                                                                                \
        const int status = (call);                                                      \
        if (status != ACL_SUCCESS) {                                                    \
            const char *text = aclGetRecentErrMsg();                                    \
            std::printf("%s: %d\n%s", #call, status, text == nullptr ? "" : text);      \
            return 1;                                                                   \
        }                                                                               \
    } while (0)

struct Tensor {
    void *memory = nullptr;
    aclTensor *handle = nullptr;

    int fill(const std::vector<float> &values, const std::vector<int64_t> &dims)
    {
        const size_t bytes = values.size() * sizeof(float);
        CHECK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK(aclrtMemcpy(memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        std::vector<int64_t> strides(dims.size(), 1);
        for (size_t i = dims.size(); i-- > 1;)
            strides[i - 1] = strides[i] * dims[i];
        handle = aclCreateTensor(dims.data(), dims.size(), aclDataType::ACL_FLOAT, strides.data(), 0,
                                 aclFormat::ACL_FORMAT_ND, dims.data(), dims.size(), memory);
        return handle == nullptr;
    }

    int drop()
    {
        CHECK(aclDestroyTensor(handle));
        CHECK(aclrtFree(memory));
        return 0;
    }
};

int main()
{
    aclrtStream stream = nullptr;
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));

    const std::vector<int64_t> dims = {2, 2};
    Tensor grad, self, target, out;
    if (grad.fill({0, 1, 2, 3}, dims) || self.fill({0, 1, 2, 3}, dims) || target.fill({1, 1, 1, 1}, dims) ||
        out.fill({9, 9, 9, 9}, dims))
        return 1;

    uint64_t size = 0;
    aclOpExecutor *executor = nullptr;
    CHECK(aclnnMseLossBackwardGetWorkspaceSize(grad.handle, self.handle, target.handle, 1, out.handle, &size,
                                               &executor));
    void *workspace = nullptr;
    if (size > 0)
        CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclnnMseLossBackward(workspace, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));

    std::vector<float> found(4, -1.0f);
    CHECK(aclrtMemcpy(found.data(), 16, out.memory, 16, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < found.size(); i++)
        std::printf("result[%zu] is: %f\n", i, found[i]);

    if (grad.drop() || self.drop() || target.drop() || out.drop())
        return 1;
    if (workspace != nullptr)
        CHECK(aclrtFree(workspace));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

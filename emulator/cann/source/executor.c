/* Executors between the phases. */
#include <stdlib.h>

#include "nn.h"

aclnnStatus aclnnInit(const char *configPath)
{
    (void)configPath;
    return 0;
}

aclnnStatus aclnnFinalize(void)
{
    return 0;
}

static aclnnStatus alive(const aclOpExecutor *executor)
{
    if (executor == NULL)
        return atlas_nn_fail(ACLNN_ERR_INNER_NULLPTR, TEXT_EXECUTOR_NULL);
    if (!atlas_handle_has(HANDLE_EXECUTOR, executor))
        return atlas_nn_fail(ACLNN_ERR_INNER, TEXT_EXECUTOR_FREED);
    return 0;
}

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor)
{
    aclnnStatus status = alive(executor);
    if (status == 0)
        executor->repeatable = true;
    return status;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor)
{
    aclnnStatus status = alive(executor);
    if (status == 0 && atlas_handle_remove(HANDLE_EXECUTOR, executor))
        free(executor);
    return status;
}

enum { INPUTS, OUTPUTS, EVERY };

static aclnnStatus set_address(aclOpExecutor *executor, size_t index, int which, aclTensor *tensor, void *addr)
{
    aclnnStatus status = alive(executor);
    if (status != 0)
        return status;
    if (tensor == NULL)
        return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "tensor is nullptr.");
    int first = which == OUTPUTS ? executor->first_output : 0, count = executor->outputs;
    if (which == INPUTS)
        count = executor->inputs;
    else if (which == EVERY)
        count = executor->first_output + executor->outputs > executor->inputs
                    ? executor->first_output + executor->outputs
                    : executor->inputs;
    if (index >= (size_t)count)
        return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "index %zu: the executor has %d such tensors.", index, count);
    executor->views[first + (int)index].data = addr;
    return 0;
}

aclnnStatus aclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    return set_address(executor, index, EVERY, tensor, addr);
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    return set_address(executor, index, INPUTS, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    return set_address(executor, index, OUTPUTS, tensor, addr);
}

aclnnStatus AclSetTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    return aclSetTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetInputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    return aclSetInputTensorAddr(executor, index, tensor, addr);
}

aclnnStatus AclSetOutputTensorAddr(aclOpExecutor *executor, const size_t index, aclTensor *tensor, void *addr)
{
    return aclSetOutputTensorAddr(executor, index, tensor, addr);
}

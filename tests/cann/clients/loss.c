/* The loss, its gradient from a filled scalar, and what of them is refused. */
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_mse_loss.h"
#include "client.h"

enum { ELEMENTS = 10000 };

int main(void)
{
    static float xs[ELEMENTS], ys[ELEMENTS], found[ELEMENTS];
    uint64_t size;
    aclOpExecutor *executor;
    aclrtStream stream;
    float two = 2.5f, value;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    for (int i = 0; i < ELEMENTS; i++) {
        xs[i] = (float)(i % 97) / 7;
        ys[i] = (float)(i % 31) / 3;
    }
    array x = make_array(xs, ELEMENTS), y = make_array(ys, ELEMENTS), out = make_array(NULL, ELEMENTS);
    array total = make_array(NULL, 1);
    for (int64_t reduction = 0; reduction < 3; reduction++) {
        array result = reduction == 0 ? out : total;
        CHECK(aclnnMseLossGetWorkspaceSize(x.tensor, y.tensor, reduction, result.tensor, &size, &executor));
        CHECK(aclnnMseLoss(NULL, size, executor, stream));
        CHECK(aclrtSynchronizeStream(stream));
        size_t bytes = reduction == 0 ? sizeof found : sizeof *found;
        CHECK(aclrtMemcpy(found, bytes, result.memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        printf("%a\n", reduction == 0 ? found[96] : found[0]);
    }
    aclScalar *scalar = aclCreateScalar(&two, ACL_FLOAT);
    CHECK(aclnnInplaceFillScalarGetWorkspaceSize(total.tensor, scalar, &size, &executor));
    TELL(aclnnMseLossBackward(NULL, size, executor, stream)); /* of another operator */
    CHECK(aclnnInplaceFillScalar(NULL, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(&value, sizeof value, total.memory, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("%g\n", value);
    CHECK(aclnnInplaceZeroGetWorkspaceSize(total.tensor, &size, &executor));
    CHECK(aclnnInplaceZero(NULL, size, executor, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(&value, sizeof value, total.memory, sizeof value, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("%g\n", value);
    TELL(aclnnMseLossGetWorkspaceSize(x.tensor, total.tensor, 1, total.tensor, &size, &executor));
    TELL(aclnnMseLossGetWorkspaceSize(x.tensor, y.tensor, 5, total.tensor, &size, &executor));
    TELL(aclnnInplaceFillScalarGetWorkspaceSize(total.tensor, NULL, &size, &executor));
    CHECK(aclDestroyScalar(scalar));
    drop_array(x);
    drop_array(y);
    drop_array(out);
    drop_array(total);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

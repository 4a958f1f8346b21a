/* A step by hand with the operators around the loss, and all that they refuse. */
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_sub.h"
#include "client.h"

enum { ELEMENTS = 6 };

#define DO(name, ...)                                                                                         \
    do {                                                                                                      \
        CHECK(name##GetWorkspaceSize(__VA_ARGS__, &size, &executor));                                         \
        CHECK(name(NULL, size, executor, stream));                                                            \
    } while (0)

static uint64_t size;
static aclOpExecutor *executor;
static aclrtStream stream;

static void print(const char *name, array a, int64_t count)
{
    float found[ELEMENTS];
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(found, sizeof found, a.memory, (size_t)count * sizeof *found, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("%s", name);
    for (int64_t i = 0; i < count; i++)
        printf(" %g", found[i]);
    printf("\n");
}

static aclTensor *view(array a, aclDataType dtype, int64_t rows, int64_t columns)
{
    int64_t dims[] = {rows, columns}, storage = rows * columns;
    return aclCreateTensor(dims, 2, dtype, NULL, 0, ACL_FORMAT_ND, &storage, 1, a.memory);
}

int main(void)
{
    float values[ELEMENTS] = {1, 2, 3, 4, 5, 6};
    double half = 0.5, one = 1;
    int64_t all[] = {0}, beyond[] = {2}, twice[] = {0, -1}, nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    char complex[8] = {0};
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    array x = make_array(values, ELEMENTS), y = make_array(values, ELEMENTS), out = make_array(NULL, ELEMENTS);
    array total = make_array(NULL, 1), two = make_array(values, 2);
    aclScalar *scale = aclCreateScalar(&half, ACL_DOUBLE), *once = aclCreateScalar(&one, ACL_DOUBLE);
    aclScalar *strange = aclCreateScalar(complex, ACL_COMPLEX64), *gone = aclCreateScalar(&one, ACL_DOUBLE);
    aclIntArray *dims = aclCreateIntArray(all, 1), *far = aclCreateIntArray(beyond, 1), *same = aclCreateIntArray(twice, 2);
    aclIntArray *none = aclCreateIntArray(all, 0), *lost = aclCreateIntArray(all, 1);
    aclTensor *matrix = view(x, ACL_FLOAT, 2, 3), *integers = view(x, ACL_INT32, 2, 3);
    aclTensor *halves = view(out, ACL_FLOAT16, 1, 6), *quad = view(x, ACL_FLOAT, 1, 6);
    aclTensor *deep = aclCreateTensor(nine, 9, ACL_FLOAT, NULL, 0, ACL_FORMAT_ND, nine, 9, x.memory);
    CHECK(aclDestroyScalar(gone));
    CHECK(aclDestroyIntArray(lost));

    DO(aclnnMuls, x.tensor, scale, out.tensor);
    DO(aclnnAdd, out.tensor, y.tensor, once, out.tensor);
    print("x/2+y", out, ELEMENTS);
    DO(aclnnInplaceSub, out.tensor, y.tensor, scale);
    DO(aclnnInplaceMul, out.tensor, out.tensor);
    print("x*x", out, ELEMENTS);
    DO(aclnnReduceSum, out.tensor, none, false, ACL_FLOAT, total.tensor);
    print("sum", total, 1);
    DO(aclnnInplaceCopy, y.tensor, total.tensor);
    DO(aclnnInplaceAdds, y.tensor, scale, scale);
    print("copy", y, ELEMENTS);
    DO(aclnnCast, quad, ACL_FLOAT16, halves);
    CHECK(aclrtSynchronizeStream(stream));
    uint16_t narrow[ELEMENTS];
    CHECK(aclrtMemcpy(narrow, sizeof narrow, out.memory, sizeof narrow, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("cast %04x %04x\n", narrow[0], narrow[5]);

    TELL(aclnnMulsGetWorkspaceSize(NULL, scale, out.tensor, &size, &executor));
    TELL(aclnnMulsGetWorkspaceSize(x.tensor, NULL, out.tensor, &size, &executor));
    TELL(aclnnMulsGetWorkspaceSize(x.tensor, scale, NULL, &size, &executor));
    TELL(aclnnMulsGetWorkspaceSize(x.tensor, scale, out.tensor, NULL, &executor));
    TELL(aclnnMulsGetWorkspaceSize(x.tensor, gone, out.tensor, &size, &executor));
    TELL(aclnnMulsGetWorkspaceSize(x.tensor, strange, out.tensor, &size, &executor));
    TELL(aclnnMulsGetWorkspaceSize(integers, scale, matrix, &size, &executor));
    TELL(aclnnMulsGetWorkspaceSize(matrix, scale, out.tensor, &size, &executor));
    TELL(aclnnInplaceMulsGetWorkspaceSize(deep, scale, &size, &executor));
    TELL(aclnnMulGetWorkspaceSize(x.tensor, two.tensor, out.tensor, &size, &executor));
    TELL(aclnnInplaceMulGetWorkspaceSize(total.tensor, x.tensor, &size, &executor));
    TELL(aclnnAddGetWorkspaceSize(x.tensor, y.tensor, NULL, out.tensor, &size, &executor));
    TELL(aclnnSubGetWorkspaceSize(x.tensor, y.tensor, once, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(x.tensor, NULL, false, ACL_FLOAT, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(x.tensor, lost, false, ACL_FLOAT, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(x.tensor, far, false, ACL_FLOAT, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(x.tensor, same, false, ACL_FLOAT, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(x.tensor, dims, false, ACL_FLOAT16, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(matrix, dims, false, ACL_FLOAT, total.tensor, &size, &executor));
    TELL(aclnnReduceSumGetWorkspaceSize(integers, dims, false, ACL_FLOAT, total.tensor, &size, &executor));
    TELL(aclnnCastGetWorkspaceSize(quad, ACL_FLOAT, halves, &size, &executor));
    TELL(aclnnCastGetWorkspaceSize(matrix, ACL_FLOAT16, halves, &size, &executor));
    TELL(aclnnCastGetWorkspaceSize(integers, ACL_FLOAT, matrix, &size, &executor));
    TELL(aclnnInplaceCopyGetWorkspaceSize(NULL, x.tensor, &size, &executor));
    TELL(aclnnInplaceCopyGetWorkspaceSize(x.tensor, two.tensor, &size, &executor));
    TELL(aclnnInplaceCopyGetWorkspaceSize(total.tensor, x.tensor, &size, &executor));
    TELL(aclnnMuls(NULL, 0, NULL, stream));
    CHECK(aclnnMulsGetWorkspaceSize(x.tensor, scale, out.tensor, &size, &executor));
    TELL(aclnnAdds(NULL, 0, executor, stream));
    CHECK(aclSetOutputTensorAddr(executor, 0, out.tensor, values));
    TELL(aclSetOutputTensorAddr(executor, 1, out.tensor, values));
    CHECK(aclnnMuls(NULL, 0, executor, stream));
    TELL(aclrtSynchronizeStream(stream));

    aclScalar *scalars[] = {scale, once, strange};
    for (int i = 0; i < 3; i++)
        CHECK(aclDestroyScalar(scalars[i]));
    aclIntArray *arrays[] = {dims, far, same, none};
    for (int i = 0; i < 4; i++)
        CHECK(aclDestroyIntArray(arrays[i]));
    aclTensor *views[] = {matrix, integers, halves, quad, deep};
    for (int i = 0; i < 5; i++)
        CHECK(aclDestroyTensor(views[i]));
    drop_array(x);
    drop_array(y);
    drop_array(out);
    drop_array(total);
    drop_array(two);
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

/* aclTensor, aclScalar, arrays and lists. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtypes.h"
#include "nn.h"

int atlas_nn_fail(int status, const char *format, ...)
{
    char text[2 * ATLAS_TEXT];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    switch (status / 100000) {
#define KIND(digit, code, title)                                                                              \
    case digit:                                                                                               \
        return atlas_fail(status, code, title, "%s", text);
        ATLAS_KINDS
#undef KIND
    default:
        return atlas_fail(status, "EZ9999", "AclNN_Inner_Error", "%s", text);
    }
}

#define NN_NOT_NULL(pointer)                                                                                  \
    do {                                                                                                      \
        if ((pointer) == NULL)                                                                                \
            return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "%s is nullptr.", #pointer);                        \
    } while (0)

const char *atlas_dtype_text(int dtype)
{
    return atlas_dtype_name(dtype);
}

bool atlas_tensor_alive(const aclTensor *tensor)
{
    return atlas_handle_has(HANDLE_TENSOR, tensor);
}

static bool fill(aclTensor *t, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                 const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                 uint64_t storageDimsNum, void *tensorData)
{
    const uint64_t most = UINT32_MAX; /* dimensions: more is a number gone wrong */
    if ((viewDims == NULL && viewDimsNum > 0) || (storageDims == NULL && storageDimsNum > 0) ||
        viewDimsNum > most || storageDimsNum > most)
        return false;
    int64_t *numbers = calloc(2 * viewDimsNum + storageDimsNum + 1, sizeof *numbers);
    if (numbers == NULL)
        return false;
    *t = (aclTensor){.rank = viewDimsNum,
                     .storage_rank = storageDimsNum,
                     .view = numbers,
                     .strides = numbers + viewDimsNum,
                     .storage = numbers + 2 * viewDimsNum,
                     .offset = offset,
                     .dtype = (int)dataType,
                     .format = (int)format,
                     .data = tensorData};
    if (viewDimsNum > 0)
        memcpy(t->view, viewDims, viewDimsNum * sizeof *numbers);
    if (storageDimsNum > 0)
        memcpy(t->storage, storageDims, storageDimsNum * sizeof *numbers);
    uint64_t step = 1;
    for (uint64_t i = viewDimsNum; i-- > 0;) {
        t->strides[i] = stride != NULL ? stride[i] : (int64_t)step;
        step *= (uint64_t)viewDims[i];
    }
    return true;
}

aclTensor *aclCreateTensor(const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                           const int64_t *stride, int64_t offset, aclFormat format,
                           const int64_t *storageDims, uint64_t storageDimsNum, void *tensorData)
{
    aclTensor *t = malloc(sizeof *t);
    if (t != NULL && fill(t, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
                          tensorData)) {
        if (atlas_handle_add(HANDLE_TENSOR, t))
            return t;
        free(t->view);
    }
    free(t);
    atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor: dimensions are announced, but not given.");
    return NULL;
}

aclnnStatus aclDestroyTensor(const aclTensor *tensor)
{
    if (tensor == NULL)
        return 0;
    if (!atlas_handle_remove(HANDLE_TENSOR, tensor))
        return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "tensor %p is none, or was destroyed.", (const void *)tensor);
    free(tensor->view);
    free((void *)(uintptr_t)tensor);
    return 0;
}

aclnnStatus aclInitTensor(aclTensor *tensor, const int64_t *viewDims, uint64_t viewDimsNum, aclDataType dataType,
                          const int64_t *stride, int64_t offset, aclFormat format, const int64_t *storageDims,
                          uint64_t storageDimsNum, void *tensorDataAddr)
{
    NN_NOT_NULL(tensor);
    if (!atlas_tensor_alive(tensor))
        return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "tensor %p is none, or was destroyed.", (void *)tensor);
    int64_t *before = tensor->view;
    if (!fill(tensor, viewDims, viewDimsNum, dataType, stride, offset, format, storageDims, storageDimsNum,
              tensorDataAddr))
        return atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "aclInitTensor: dimensions are announced, but not given.");
    free(before);
    return 0;
}

/* An array for the caller, who gives it back with delete[] (from C: free). */
static int64_t *for_caller(const int64_t *values, uint64_t count)
{
    union {
        void *symbol;
        void *(*allocate)(size_t);
    } operator_new = {dlsym(RTLD_DEFAULT, "_Znam")};
    size_t bytes = (count > 0 ? count : 1) * sizeof *values;
    int64_t *copy = operator_new.symbol != NULL ? operator_new.allocate(bytes) : malloc(bytes);
    if (copy != NULL && count > 0)
        memcpy(copy, values, count * sizeof *values);
    return copy;
}

#define LIVE(tensor)                                                                                          \
    do {                                                                                                      \
        NN_NOT_NULL(tensor);                                                                                  \
        if (!atlas_tensor_alive(tensor))                                                                      \
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "tensor %p is none, or was destroyed.",             \
                                 (const void *)(tensor));                                                     \
    } while (0)

aclnnStatus aclGetViewShape(const aclTensor *tensor, int64_t **viewDims, uint64_t *viewDimsNum)
{
    LIVE(tensor);
    NN_NOT_NULL(viewDims);
    NN_NOT_NULL(viewDimsNum);
    *viewDims = for_caller(tensor->view, tensor->rank);
    *viewDimsNum = tensor->rank;
    return 0;
}

aclnnStatus aclGetStorageShape(const aclTensor *tensor, int64_t **storageDims, uint64_t *storageDimsNum)
{
    LIVE(tensor);
    NN_NOT_NULL(storageDims);
    NN_NOT_NULL(storageDimsNum);
    *storageDims = for_caller(tensor->storage, tensor->storage_rank);
    *storageDimsNum = tensor->storage_rank;
    return 0;
}

aclnnStatus aclGetViewStrides(const aclTensor *tensor, int64_t **stridesValue, uint64_t *stridesNum)
{
    LIVE(tensor);
    NN_NOT_NULL(stridesValue);
    NN_NOT_NULL(stridesNum);
    *stridesValue = for_caller(tensor->strides, tensor->rank);
    *stridesNum = tensor->rank;
    return 0;
}

aclnnStatus aclGetViewOffset(const aclTensor *tensor, int64_t *offset)
{
    LIVE(tensor);
    NN_NOT_NULL(offset);
    *offset = tensor->offset;
    return 0;
}

aclnnStatus aclGetFormat(const aclTensor *tensor, aclFormat *format)
{
    LIVE(tensor);
    NN_NOT_NULL(format);
    *format = (aclFormat)tensor->format;
    return 0;
}

aclnnStatus aclGetDataType(const aclTensor *tensor, aclDataType *dataType)
{
    LIVE(tensor);
    NN_NOT_NULL(dataType);
    *dataType = (aclDataType)tensor->dtype;
    return 0;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor *tensor, void **addr)
{
    LIVE(tensor);
    NN_NOT_NULL(addr);
    *addr = tensor->data;
    return 0;
}

aclnnStatus aclSetRawTensorAddr(aclTensor *tensor, void *addr)
{
    LIVE(tensor);
    tensor->data = addr;
    return 0;
}

struct aclScalar {
    atlas_scalar value;
};

bool atlas_scalar_of(const aclScalar *scalar, atlas_scalar *value)
{
    if (scalar == NULL || !atlas_handle_has(HANDLE_SCALAR, scalar))
        return false;
    *value = scalar->value;
    return true;
}

aclScalar *aclCreateScalar(void *value, aclDataType dataType)
{
    size_t size = atlas_dtype_bytes((int)dataType);
    aclScalar *scalar = value == NULL || size == 0 ? NULL : calloc(1, sizeof *scalar);
    if (scalar == NULL || !atlas_handle_add(HANDLE_SCALAR, scalar)) {
        free(scalar);
        atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "aclCreateScalar: no value, or one of %s.",
                      atlas_dtype_text((int)dataType));
        return NULL;
    }
    scalar->value.dtype = (int)dataType;
    memcpy(scalar->value.bytes, value, size);
    return scalar;
}

aclnnStatus aclDestroyScalar(const aclScalar *scalar)
{
    if (scalar == NULL)
        return 0;
    if (!atlas_handle_remove(HANDLE_SCALAR, scalar))
        return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "scalar %p is none, or was destroyed.", (const void *)scalar);
    free((void *)(uintptr_t)scalar);
    return 0;
}

/* Arrays and lists, for operators that take them. */
#define ARRAY(Type, Item)                                                                                     \
    struct acl##Type {                                                                                        \
        uint64_t size;                                                                                        \
        Item values[];                                                                                        \
    };                                                                                                        \
    acl##Type *aclCreate##Type(const Item *value, uint64_t size)                                              \
    {                                                                                                         \
        acl##Type *array = NULL;                                                                              \
        if ((value != NULL || size == 0) && size <= UINT32_MAX)                                               \
            array = malloc(sizeof *array + size * sizeof *value);                                            \
        if (array != NULL)                                                                                    \
            array->size = size;                                                                               \
        if (array == NULL || !atlas_handle_add(HANDLE_ARRAY, array)) {                                        \
            free(array);                                                                                      \
            atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreate" #Type ": values are announced, but not given."); \
            return NULL;                                                                                      \
        }                                                                                                     \
        if (size > 0)                                                                                         \
            memcpy(array->values, value, size * sizeof *value);                                               \
        return array;                                                                                         \
    }                                                                                                         \
    aclnnStatus aclDestroy##Type(const acl##Type *array)                                                      \
    {                                                                                                         \
        if (array == NULL)                                                                                    \
            return 0;                                                                                 \
        if (!atlas_handle_remove(HANDLE_ARRAY, array))                                                        \
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "array %p is none, or was destroyed.",              \
                                 (const void *)array);                                                        \
        free((void *)(uintptr_t)array);                                                                       \
        return 0;                                                                                     \
    }                                                                                                         \
    aclnnStatus aclGet##Type##Size(const acl##Type *array, uint64_t *size)                                    \
    {                                                                                                         \
        NN_NOT_NULL(array);                                                                                   \
        NN_NOT_NULL(size);                                                                                    \
        if (!atlas_handle_has(HANDLE_ARRAY, array))                                                           \
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "array %p is none, or was destroyed.",              \
                                 (const void *)array);                                                        \
        *size = array->size;                                                                                  \
        return 0;                                                                                     \
    }

ARRAY(IntArray, int64_t)
ARRAY(FloatArray, float)
ARRAY(BoolArray, _Bool)

bool atlas_int_array(const aclIntArray *array, const int64_t **values, uint64_t *count)
{
    if (array == NULL || !atlas_handle_has(HANDLE_ARRAY, array))
        return false;
    *values = array->values;
    *count = array->size;
    return true;
}

#define LIST(Type, Item, destroy)                                                                             \
    struct acl##Type {                                                                                        \
        uint64_t size;                                                                                        \
        const Item *values[];                                                                                 \
    };                                                                                                        \
    acl##Type *aclCreate##Type(const Item *const *value, uint64_t size)                                       \
    {                                                                                                         \
        acl##Type *list = NULL;                                                                               \
        if ((value != NULL || size == 0) && size <= UINT32_MAX)                                               \
            list = malloc(sizeof *list + size * sizeof *value);                                              \
        if (list != NULL)                                                                                     \
            list->size = size;                                                                                \
        if (list == NULL || !atlas_handle_add(HANDLE_LIST, list)) {                                           \
            free(list);                                                                                       \
            atlas_nn_fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreate" #Type ": members are announced, but not given."); \
            return NULL;                                                                                      \
        }                                                                                                     \
        for (uint64_t i = 0; i < size; i++)                                                                   \
            list->values[i] = value[i];                                                                       \
        return list;                                                                                          \
    }                                                                                                         \
    aclnnStatus aclDestroy##Type(const acl##Type *array)                                                      \
    {                                                                                                         \
        if (array == NULL)                                                                                    \
            return 0;                                                                                 \
        if (!atlas_handle_remove(HANDLE_LIST, array))                                                         \
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "list %p is none, or was destroyed.",               \
                                 (const void *)array);                                                        \
        aclnnStatus status = 0;                                                                       \
        for (uint64_t i = 0; i < array->size; i++) {                                                          \
            aclnnStatus found = destroy(array->values[i]);                                                    \
            status = status == 0 ? found : status;                                                    \
        }                                                                                                     \
        free((void *)(uintptr_t)array);                                                                       \
        return status;                                                                                        \
    }                                                                                                         \
    aclnnStatus aclGet##Type##Size(const acl##Type *array, uint64_t *size)                                    \
    {                                                                                                         \
        NN_NOT_NULL(array);                                                                                   \
        NN_NOT_NULL(size);                                                                                    \
        if (!atlas_handle_has(HANDLE_LIST, array))                                                            \
            return atlas_nn_fail(ACLNN_ERR_PARAM_INVALID, "list %p is none, or was destroyed.",               \
                                 (const void *)array);                                                        \
        *size = array->size;                                                                                  \
        return 0;                                                                                     \
    }

LIST(TensorList, aclTensor, aclDestroyTensor)
LIST(ScalarList, aclScalar, aclDestroyScalar)

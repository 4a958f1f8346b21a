/* Frees the workspace before the stream is synchronised, which is a mistake. */
#include "client.h"

int main(void)
{
    float values[] = {0, 1, 2, 3};
    int64_t four = 4, two = 2, eight = 8;
    void *workspace;
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    array g = make_array(values, 4), x = make_array(values, 4), y = make_array(values, 4), out = make_array(NULL, 8);
    aclDestroyTensor(out.tensor);
    out.tensor = aclCreateTensor(&four, 1, ACL_FLOAT, &two, 0, ACL_FORMAT_ND, &eight, 1, out.memory);
    CHECK(aclrtMalloc(&workspace, 1 << 20, ACL_MEM_MALLOC_HUGE_FIRST));
    launch(g, x, y, 0, out, workspace, NULL);
    CHECK(aclrtFree(workspace));
    printf("%d ", (int)aclrtSynchronizeStream(NULL));
    const char *text = aclGetRecentErrMsg();
    printf("%s", text == NULL ? "-\n" : text);
    drop_array(g);
    drop_array(x);
    drop_array(y);
    drop_array(out);
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}

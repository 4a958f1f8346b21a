/* One process, the libraries by several ways: aclInit counts in one place. */
#include <dlfcn.h>

#include "client.h"

int main(int count, char **arguments)
{
    static const char *const names[] = {"libascendcl.so", "libacl_rt.so", "libopapi_nn.so"};
    if (count < 2)
        return 2;
    CHECK(aclInit(NULL));
    for (int i = 0; i < 3; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", arguments[1], names[i]);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        union {
            void *symbol;
            aclError (*call)(const char *);
        } init = {library == NULL ? NULL : dlsym(library, "aclInit")};
        printf("%d%s", init.symbol == NULL ? -1 : (int)init.call(NULL), i < 2 ? " " : "\n");
    }
    CHECK(aclFinalize());
    return 0;
}

/* Attributes of operator functions. */
#ifndef ATLAS_EMU_ACLNN_UTIL_H
#define ATLAS_EMU_ACLNN_UTIL_H

#include <stddef.h> /* ISO C wants a declaration, also of who includes this header alone */

#ifndef ACLNN_API
#define ACLNN_API __attribute__((visibility("default")))
#endif

#endif

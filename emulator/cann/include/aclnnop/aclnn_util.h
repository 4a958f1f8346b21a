/* Attributes of operator functions. */
#ifndef ATLAS_EMU_ACLNN_UTIL_H
#define ATLAS_EMU_ACLNN_UTIL_H

#ifndef ACLNN_API
#define ACLNN_API __attribute__((visibility("default")))
#endif

#endif

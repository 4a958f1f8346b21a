/* What every aclnn operator's header needs. C and C++. */
#ifndef ATLAS_EMU_ACLNN_BASE_H
#define ATLAS_EMU_ACLNN_BASE_H

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

aclnnStatus aclnnInit(const char *configPath);
aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif

/* Single operators by name are not emulated; this header only lets its includers compile. */
#ifndef ATLAS_EMU_ACL_OP_H
#define ATLAS_EMU_ACL_OP_H

#include "acl/acl_base.h"

#endif

/* An older or collective name for the operators that are emulated. */
#ifndef ATLAS_EMU_ACLNN_OPS_TRAIN_H
#define ATLAS_EMU_ACLNN_OPS_TRAIN_H

#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cast.h"
#include "aclnnop/aclnn_copy.h"
#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_mse_loss.h"
#include "aclnnop/aclnn_mse_loss_backward.h"
#include "aclnnop/aclnn_mul.h"
#include "aclnnop/aclnn_reduce_sum.h"
#include "aclnnop/aclnn_sub.h"

#endif

/* An older or collective name for the operators that are emulated. */
#ifndef ATLAS_EMU_ACLNN_OPS_TRAIN_H
#define ATLAS_EMU_ACLNN_OPS_TRAIN_H

#include "aclnnop/aclnn_fill_scalar.h"
#include "aclnnop/aclnn_mse_loss.h"
#include "aclnnop/aclnn_mse_loss_backward.h"

#endif

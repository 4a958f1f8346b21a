/* An older or collective name for the operators that are emulated. */
#ifndef ATLAS_EMU_LEVEL2_ACLNN_MSE_LOSS_BACKWARD_H
#define ATLAS_EMU_LEVEL2_ACLNN_MSE_LOSS_BACKWARD_H

#include "aclnnop/aclnn_mse_loss_backward.h"

#endif

/* The kernels that a call launches, as the launch log and the predictor of device times are told. */
#ifndef ATLAS_EMU_STEPS_H
#define ATLAS_EMU_STEPS_H

#include "nn.h"

typedef struct {
    int dtype, rank;
    const int64_t *dims;
    const int64_t *strides; /* NULL: consecutive */
} atlas_operand;

typedef struct {
    char names[512], kernels[4096]; /* parts of two JSON lists */
    size_t named, used;
} atlas_steps;

/* Add a kernel. operator: the recorded one that times it, NULL where there is none; to: dtype of its result. */
void atlas_step(atlas_steps *steps, const char *name, const char *operator, int to, const atlas_operand *inputs,
                int count);
/* Strided memory to consecutive memory, by name; and back. */
void atlas_step_contiguous(atlas_steps *steps, const char *tensor, const atlas_view *view);
void atlas_step_view_copy(atlas_steps *steps, const atlas_view *view);
/* Log the launch; gives its predicted device time, 0 where that is not known or not asked for. */
double atlas_note_launch(const aclOpExecutor *executor, int tensors, const char *const *names,
                         const atlas_steps *steps, aclrtStream stream);

#endif

/* The chips: what the runtime and the operators need to know of them. The table is generated. */
#ifndef ATLAS_EMU_CHIPS_H
#define ATLAS_EMU_CHIPS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    TYPE_FLOAT32,
    TYPE_FLOAT16,
    TYPE_BFLOAT16,
    TYPES
} atlas_type;

typedef struct atlas_chip {
    const char *name;
    const char *short_name;
    int npu_arch;
    int ai_cores, vector_cores;
    int64_t memory_bytes, l2_bytes; /* 0: not known */
    bool saturates_first;           /* the default overflow mode is saturation */
    bool has_saturation, has_inf_nan;
    unsigned types; /* bit per atlas_type that the operator takes */
    bool whole_storage; /* a kernel may write to out only if that is all of its storage */
    /* Kernels by [older release][shapes and formats agree]. */
    int kernels[2][2];
    unsigned kernel_types[2][2]; /* bit per atlas_type for which one is registered */
    bool kernel_nd_alone[2][2];  /* its tiling takes format ND alone */
    int numerics;                /* row of the loop tables */
} atlas_chip;

extern const atlas_chip atlas_chips[];
extern const int atlas_chip_count;
extern const char atlas_default_soc[];
extern const char atlas_version[];

#endif

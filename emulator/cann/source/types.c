/* Sizes of the dtypes, and float16 on the host. */
#include <string.h>

#include "emu.h"
#include "dtypes.h"

size_t aclDataTypeSize(aclDataType dataType)
{
    return atlas_dtype_bytes((int)dataType);
}

aclFloat16 aclFloatToFloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7FFFFFFF;
    if (magnitude >= 0x477FF000) /* 65520, from where rounding would give infinity; infinity; NaN */
        return (aclFloat16)(sign | 0x7BFF);
    /* A shift by 126 less the exponent brings a subnormal result to its unit; 13 bits of a normal one go. */
    uint32_t exponent = magnitude >> 23, shift = exponent < 113 ? 126 - exponent : 13;
    if (shift > 24)
        return (aclFloat16)sign;
    uint32_t kept = exponent < 113 ? (magnitude & 0x7FFFFF) | 0x800000 : magnitude - (112u << 23);
    uint32_t half = 1u << (shift - 1), rest = kept & ((1u << shift) - 1), result = kept >> shift;
    result += rest > half || (rest == half && (result & 1));
    return (aclFloat16)(sign | result);
}

float aclFloat16ToFloat(aclFloat16 value)
{
    uint32_t sign = (uint32_t)(value & 0x8000) << 16, magnitude = value & 0x7FFF, bits;
    float result;
    if (magnitude < 0x0400) {
        result = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &result, sizeof bits);
    } else {
        bits = magnitude >= 0x7C00 ? magnitude << 13 | 0x7F800000 : (magnitude << 13) + (112u << 23);
    }
    bits |= sign;
    memcpy(&result, &bits, sizeof result);
    return result;
}

"""The binary floating-point formats, each described by two numbers.

Every mask and limit is derived from the two, so that no constant is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from socs.isa import DType


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """An IEEE 754 interchange format (or bfloat16, which follows the same rules).

    All properties but ``bias``, ``width`` and ``least_exponent`` are bit patterns of the format.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int

    @property
    def width(self) -> int:
        """Bits of one value."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        """What the exponent field adds to the exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def least_exponent(self) -> int:
        """The exponent of the smallest normal number."""
        return 1 - self.bias

    @property
    def sign_mask(self) -> int:
        return 1 << (self.width - 1)

    @property
    def exponent_mask(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits

    @property
    def mantissa_mask(self) -> int:
        return (1 << self.mantissa_bits) - 1

    @property
    def magnitude_mask(self) -> int:
        """Everything but the sign."""
        return self.exponent_mask | self.mantissa_mask

    @property
    def infinity(self) -> int:
        """Positive infinity."""
        return self.exponent_mask

    @property
    def max_finite(self) -> int:
        """The largest finite number: the pattern just below infinity."""
        return self.exponent_mask - 1

    @property
    def min_normal(self) -> int:
        """The smallest positive normal number."""
        return 1 << self.mantissa_bits

    @property
    def nan_all_ones(self) -> int:
        """The positive NaN with every bit set, which the vector unit produces."""
        return self.magnitude_mask

    @property
    def nan_quiet(self) -> int:
        """The default quiet NaN of IEEE 754: the highest mantissa bit alone."""
        return self.exponent_mask | (1 << (self.mantissa_bits - 1))


FORMATS: dict[DType, FormatInfo] = {
    DType.FLOAT32: FormatInfo("float32", 8, 23),
    DType.FLOAT16: FormatInfo("float16", 5, 10),
    DType.BFLOAT16: FormatInfo("bfloat16", 8, 7),
}

"""Products of f32 and c64 by fp16x2: every operand as the sum of two f16 matrices."""

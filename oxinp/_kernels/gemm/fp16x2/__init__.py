"""Products of f32 and c64 by fp16x2 on Hopper: every operand is the sum of two f16 matrices, hi and lo."""

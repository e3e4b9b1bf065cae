"""Products of f64, c128 and f32 (also in bf16x3) on Hopper: TMA and mma.sync."""

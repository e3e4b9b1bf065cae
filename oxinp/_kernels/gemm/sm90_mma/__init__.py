"""Products of f64, c128 and f32 (as multiply-adds or in bf16x3) on Hopper: TMA with mma.sync."""

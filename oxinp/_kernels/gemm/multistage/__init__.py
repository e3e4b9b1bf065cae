"""Products of any type, layout and alignment, on any GPU from sm_80 on: cp.async into a ring of tiles, warp MMA."""

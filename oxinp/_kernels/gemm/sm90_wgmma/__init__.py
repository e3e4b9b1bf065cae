"""Products of 16-bit floats, tf32 and bytes on Hopper: TMA and wgmma, warp-specialised."""

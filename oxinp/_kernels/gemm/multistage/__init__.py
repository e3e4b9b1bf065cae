"""Products of any type at any alignment: multi-stage copies (cp.async) and warp tiles."""

"""The slots of `ndarray` in machine code: what small arrays on the host do, without a frame of Python's."""

"""`ndarray` and what belongs to it: scalars, methods, flags, text, NumPy's protocols."""

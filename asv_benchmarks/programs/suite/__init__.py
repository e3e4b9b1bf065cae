"""Programs as their users write them: plain NumPy, one file each.

A file has `SIZES`, by name what `make` is given; ``make(rng, *size)``, which returns what the program starts from, and
is not measured; `run`, which computes arrays from that, and may write to it; and `TOLERANCE`, how far these may be from
NumPy's, relative to the largest value of an array, where that is not 1e-9.
"""

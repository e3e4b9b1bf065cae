"""Products of f64 and c128 by the Ozaki scheme II on Hopper: int8 products modulo several numbers, then the CRT."""

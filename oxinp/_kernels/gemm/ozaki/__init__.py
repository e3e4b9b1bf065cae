"""Products of f64 and c128 from int8 products modulo several numbers (Ozaki scheme II)."""

"""Level-3 BLAS with triangular, symmetric and Hermitian matrices: syrk, herk, trsm."""

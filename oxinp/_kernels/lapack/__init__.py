"""Factorisations: Cholesky, LU, QR, and what is solved with them."""

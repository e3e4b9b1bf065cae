"""Sparse matrices in compressed rows: products, conversions, elementwise operators, triangular systems, graphs."""

"""Copies, casts, assignment and shapes."""

"""Reductions and scans: their tables, their recording, the methods of arrays."""

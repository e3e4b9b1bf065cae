"""Scans along an axis, fused with the chain before them."""

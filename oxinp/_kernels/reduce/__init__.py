"""Reductions over any axes, fused with the chain before them."""

"""Elementwise kernels: a chain of instructions per element, for any layout of the operands."""

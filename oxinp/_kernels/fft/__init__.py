"""Fourier transforms: codelets in registers, mixed radix through shared memory, several passes for long ones."""

"""Tests of `oxinp._kernels.convolve`."""

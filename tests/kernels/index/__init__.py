"""Tests of `oxinp._kernels.index`."""

"""Tests of `oxinp._kernels.blas3`."""

"""Tests of `oxinp._kernels.gemm`."""

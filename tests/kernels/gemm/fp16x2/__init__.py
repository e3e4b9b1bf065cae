"""Tests of `oxinp._kernels.gemm.fp16x2`."""

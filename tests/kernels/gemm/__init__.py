"""Tests of `oxinp._kernels.gemm.sm90_wgmma.kernel`."""

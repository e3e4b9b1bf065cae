"""Tests of `oxinp._kernels.fft`."""

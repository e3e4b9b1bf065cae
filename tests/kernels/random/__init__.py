"""Tests of `oxinp._kernels.random`."""

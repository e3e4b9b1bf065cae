"""Tests of `oxinp._kernels.sparse`."""

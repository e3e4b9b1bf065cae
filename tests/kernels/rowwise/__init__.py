"""Tests of `oxinp._kernels.rowwise`."""

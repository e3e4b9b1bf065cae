"""Tests of `oxinp._kernels.reduce.plan`."""

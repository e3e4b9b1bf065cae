"""Tests of `oxinp._kernels.elementwise.plan`."""

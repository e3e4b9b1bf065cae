"""Tests of `oxinp._kernels.sort`."""

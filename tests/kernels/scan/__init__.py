"""Tests of `oxinp._kernels.scan.plan`."""

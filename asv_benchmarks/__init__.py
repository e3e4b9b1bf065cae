"""Benchmarks: asv classes by area, also run without asv, beside other libraries, by `asv_benchmarks.compare`."""

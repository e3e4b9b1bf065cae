"""Programs that check the kernels of a family on a GPU and time them: ``python -m asv_benchmarks.kernels.NAME``."""

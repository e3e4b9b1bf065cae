"""The CUDA driver through ctypes: standard library only, and libcuda is not loaded before `driver.load` is called.

`api` is the table of driver functions, `driver` makes it callable, `errors` is what the calls raise; every other module
is one noun of the driver.
"""

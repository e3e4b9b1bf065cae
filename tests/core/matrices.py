"""Operands of matrix products, for the tests of more than one module."""


def draw(rng, shape, dtype):
    """Return normal values, four wide, in any dtype."""
    values = rng.standard_normal(shape) * 4
    if dtype[0] == "c":
        return (values + 1j * rng.standard_normal(shape)).astype(dtype)
    return values > 2 if dtype == "?" else values.astype("i8" if dtype[0] == "u" else dtype).astype(dtype)

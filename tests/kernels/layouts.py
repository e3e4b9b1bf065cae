"""Random arrays in random layouts."""

import numpy as np

DTYPES = tuple(np.dtype(code) for code in "?bhilBHILefdFD")
SPECIALS = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 5e-324, 1e-45)


def random_values(rng, shape, dtype, *, specials=False):
    """Return values that show mistakes: no two alike where the type allows it."""
    size = int(np.prod(shape))
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, shape), dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.asarray(rng.integers(max(info.min, -(2**30)), min(info.max, 2**30), shape), dtype)
    if dtype.kind == "c":
        real, imag = (random_values(rng, shape, np.dtype(f"f{dtype.itemsize // 2}"), specials=specials) for _ in "ri")
        z = np.empty(shape, dtype)
        z.real, z.imag = real, imag
        return z
    values = np.asarray(rng.standard_normal(shape)) * 10.0 ** rng.integers(-3, 4, shape)
    if specials and size:
        flat = values.reshape(-1)
        flat[rng.integers(0, size, max(1, size // 8))] = rng.choice(SPECIALS, max(1, size // 8))
    with np.errstate(over="ignore"):
        return np.asarray(values, dtype)


def random_shape(rng, max_ndim=5, max_size=6000):
    """Return extents with ones and odd numbers among them, sometimes a long one."""
    while True:
        ndim = int(rng.integers(0, max_ndim + 1))
        shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 5, 7, 8, 12, 33, 40, 64, 130], ndim))
        if rng.random() < 0.1 and ndim:
            shape = (*shape[:-1], int(rng.integers(200, 3000)))
        if np.prod(shape) <= max_size:
            return shape


def random_view(rng, shape, dtype, *, may_broadcast=True, specials=False):
    """Return a view of `shape` in a random layout over a fresh array: permuted, stepped, padded, shifted, broadcast."""
    ndim = len(shape)
    style = rng.random()
    if style < 0.3:  # contiguous, perhaps shifted
        lead = int(rng.integers(0, 5)) if rng.random() < 0.5 else 0
        size = int(np.prod(shape))
        return random_values(rng, (size + lead,), dtype, specials=specials)[lead:].reshape(shape)
    order = rng.permutation(ndim) if style < 0.8 else np.arange(ndim)
    extents, cuts, is_broadcast = [], [], []
    for d in order:
        n = shape[d]
        step = int(rng.choice([1, 1, 1, 1, 2, 3, -1, -2]))
        before, after = (int(x) for x in rng.choice([0, 0, 0, 1, 4], 2))
        broadcast = may_broadcast and rng.random() < 0.2
        length = 1 if broadcast else n
        extents.append(before + max(0, (length - 1) * abs(step) + (length > 0)) + after)
        stop = before + (length - 1) * abs(step)
        indices = slice(before, stop + 1, step) if step > 0 else slice(stop, before - 1 if before else None, step)
        cuts.append(indices if length else slice(0, 0))
        is_broadcast.append(broadcast)
    base = random_values(rng, tuple(extents), dtype, specials=specials)
    view = base[tuple(cuts)].transpose(np.argsort(order)) if ndim else base
    return np.broadcast_to(view, shape) if may_broadcast and any(is_broadcast) else view

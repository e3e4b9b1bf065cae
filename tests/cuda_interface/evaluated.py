"""Arrays whose work is queued."""

import oxinp


def evaluated(x):
    """Return an array, its kernels launched."""
    oxinp.evaluate(x)
    return x

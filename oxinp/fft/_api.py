"""Functions of `numpy.fft` on the device: orders of frequencies."""

from __future__ import annotations

import numpy as np

from oxinp._api.fronts import implements
from oxinp._api.rebound import rebound

# Written in Python by NumPy, in terms of functions that we have.
for _name in ("fftshift", "ifftshift"):
    implements(f"fft.{_name}")(rebound(getattr(np.fft, _name)))
for _name in ("fftfreq", "rfftfreq"):
    implements(f"fft.{_name}", is_hosted=False)(rebound(getattr(np.fft, _name)))

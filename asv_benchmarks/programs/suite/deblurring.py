"""Richardson and Lucy's deconvolution of an image, by transforms."""

import numpy as np

SIZES = {"tiny": (2, 12), "small": (15, 100), "medium": (25, 400), "large": (40, 1500)}
TOLERANCE = 1e-7


def make(rng, steps, n):
    x = np.arange(n) - n // 2
    blur = np.exp(-(x[:, None] ** 2 + x**2) / 18.0)
    return steps, rng.random((n, n)) + 0.1, blur / blur.sum()


def run(steps, image, blur):
    transfer = np.fft.rfft2(np.fft.ifftshift(blur))
    estimate = np.full_like(image, 0.5)
    for _ in range(steps):
        seen = np.fft.irfft2(np.fft.rfft2(estimate) * transfer, image.shape)
        ratio = image / np.maximum(seen, 1e-12)
        estimate *= np.fft.irfft2(np.fft.rfft2(ratio) * np.conj(transfer), image.shape)
    return estimate

"""Prices of options: Black and Scholes by formula, then by simulated paths."""

import numpy as np

SIZES = {"tiny": (3, 40), "small": (50, 10_000), "medium": (60, 40_000), "large": (120, 1_000_000)}


def make(rng, steps, n):
    return steps, 100 * np.exp(0.1 * rng.standard_normal(n)), rng.standard_normal((steps, n))


def cdf(x):
    t = 1 / (1 + 0.2316419 * np.abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-x * x / 2) / np.sqrt(2 * np.pi) * series
    return np.where(x > 0, 1 - tail, tail)


def run(steps, price, noise):
    strike, rate, volatility = 100.0, 0.02, 0.3
    d1 = (np.log(price / strike) + rate + volatility**2 / 2) / volatility
    call = price * cdf(d1) - strike * np.exp(-rate) * cdf(d1 - volatility)
    dt = 1 / steps
    path, total = price.copy(), np.zeros_like(price)
    for i in range(steps):
        path *= np.exp((rate - volatility**2 / 2) * dt + volatility * np.sqrt(dt) * noise[i])
        total += path
    asian = np.exp(-rate) * np.maximum(total / steps - strike, 0).mean()
    return call, asian

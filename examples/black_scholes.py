"""European options: Black-Scholes prices over a grid of contracts, and their volatilities found again from the prices.

python examples/black_scholes.py --size 100000
python -m oxinp examples/black_scholes.py --size 20000000
"""

import argparse
import math
import time

import numpy as np
from progress import progress

SPOT = 100.0
RATE = 0.03

# Hart (1968), algorithm 5666, as in West, "Better approximations to cumulative normal functions" (2005): right to
# about 1e-15.
NUMERATOR = (
    3.52624965998911e-02,
    0.700383064443688,
    6.37396220353165,
    33.912866078383,
    112.079291497871,
    221.213596169931,
    220.206867912376,
)
DENOMINATOR = (
    8.83883476483184e-02,
    1.75566716318264,
    16.064177579207,
    86.7807322029461,
    296.564248779674,
    637.333633378831,
    793.826512519948,
    440.413735824752,
)


def polynomial(coefficients, x):
    """Return a polynomial's values, its coefficients given from the highest power down."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def normal_cdf(x):
    """Return the probability that a standard normal variable is below `x`."""
    far = np.abs(x)
    bell = np.exp(-0.5 * x * x)
    near_tail = polynomial(NUMERATOR, far) / polynomial(DENOMINATOR, far)
    far_tail = 1.0 / (math.sqrt(2 * math.pi) * (far + 1 / (far + 2 / (far + 3 / (far + 4 / (far + 0.65))))))
    tail = bell * np.where(far < 5 * math.sqrt(2), near_tail, far_tail)
    return np.where(x > 0, 1.0 - tail, tail)


def call_price(strike, years, volatility):
    """Return the prices of calls, and how they change with the volatility (vega)."""
    spread = volatility * np.sqrt(years)
    d1 = (np.log(SPOT / strike) + (RATE + 0.5 * volatility**2) * years) / spread
    price = SPOT * normal_cdf(d1) - strike * np.exp(-RATE * years) * normal_cdf(d1 - spread)
    vega = SPOT * np.sqrt(years) * np.exp(-0.5 * d1 * d1) / math.sqrt(2 * math.pi)
    return price, vega


def contracts(size, seed=1):
    """Return strikes, years to expiry and volatilities of random contracts, (size,) each."""
    random = np.random.default_rng(seed)
    return random.uniform(80.0, 125.0, size), random.uniform(0.5, 2.0, size), random.uniform(0.15, 0.6, size)


def implied_volatility(price, strike, years, steps):
    """Return the volatility that gives each price, by Newton's method from the price's inflection (Manaster 1982)."""
    volatility = np.sqrt(2.0 * np.abs(np.log(SPOT / strike) + RATE * years) / years)
    volatility = np.where(volatility < 0.05, 0.05, volatility)
    for _ in progress(steps, "implied volatility"):
        guess, vega = call_price(strike, years, volatility)
        volatility = volatility - (guess - price) / vega
    return volatility


def run(strike, years, volatility, steps):
    """Return call prices, put prices and the volatilities implied by the former, (size,) each."""
    call, _ = call_price(strike, years, volatility)
    put = call - SPOT + strike * np.exp(-RATE * years)
    return call, put, implied_volatility(call, strike, years, steps)


def main():
    """Price a book of options and print its value and how well the volatilities are found again."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=200_000, help="number of contracts (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=8, help="Newton steps (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 1 or options.steps < 1:
        parser.error("at least one contract and one step are needed")

    strike, years, volatility = contracts(options.size, options.seed)
    began = time.perf_counter()
    call, put, implied = run(strike, years, volatility, options.steps)
    mean_call, mean_put = float(call.sum()) / options.size, float(put.sum()) / options.size
    error = float(np.abs(implied - volatility).max())
    seconds = time.perf_counter() - began
    print(f"mean price: call {mean_call:.9f}, put {mean_put:.9f}")
    print(f"implied volatility: within {error:.0e} of what the prices were made with")
    print(f"{options.size} contracts in {seconds:.3f} s")


if __name__ == "__main__":
    main()

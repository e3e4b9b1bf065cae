"""The C library's power of positive numbers, bit for bit, which Weibull's and power distributions go through.

glibc has Arm's since 2.28, see `libm_exp`. ``x**y = exp(y log(x))``, of which the logarithm is computed to 68 bits, in
two parts, from one of 128 numbers and a polynomial of seven terms as in `libm`.

Data and algorithm of Arm's optimized-routines, math/pow.c and math/pow_log_data.c (MIT).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from oxinp._kernels.random import libm_exp
from oxinp._ptx import math
from oxinp._ptx.types import f64, i32, i64, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

_LN2, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
_POLYNOMIAL = (
    -0.5,
    -0.6666666666666679,
    0.5000000000000007,
    0.7999999995323976,
    -0.6666666663487739,
    -1.142909628459501,
    1.0000415263675542,
)
_FIRST = 0x3FE6955500000000  # the smallest number whose power of 2 is 0
_SMALLEST = 2.0**-1022  # that is not subnormal
_FEWEST, _MOST = 2.0**-60, 2.0**60  # exponents that are neither tiny nor huge
# Of numbers c: 1 / c, log(c) and what that has lost, and zeros
_TABLE = np.zeros((128, 4))
_TABLE[:, :3] = np.frombuffer(
    base64.b64decode(
        "AAAAAACg9j8AyLnygizWv4BWNygktPo8AAAAAACA9j8ACFi/vdHVvyD34NgIpRy9AAAAAABg9j8AWEUXd3bVv21QttWkYiO9AAAAAABA9j8A+C2H"
        "rRrVv9VnsJ7khOa8AAAAAAAg9j8AeHeVX77Uv+A+KZNpGwS9AAAAAAAA9j8AYBzCi2HUv8yETEgv2BM9AAAAAADg9T8AqIaGMATUvzoLgu3zQtw8"
        "AAAAAADA9T8ASGlVTKbTv2CUUYbGsSA9AAAAAACg9T8AgJia3UfTv5KAxdRNWSU9AAAAAACA9T8AIOG64ujSv9grt5keeyY9AAAAAABg9T8AiN4T"
        "WonSvz+wz7YUyhU9AAAAAABg9T8AiN4TWonSvz+wz7YUyhU9AAAAAABA9T8AeM/7QSnSv3baUygkWha9AAAAAAAg9T8AmGnBmMjRvwRU52i8rx+9"
        "AAAAAAAA9T8AqKurXGfRv/CogjPGHx89AAAAAADg9D8ASK75iwXRv2ZaBf3EqCa9AAAAAADA9D8AkHPiJKPQvw4D9H7uawy9AAAAAACg9D8A0LSU"
        "JUDQv38t9J64NvC8AAAAAACg9D8A0LSUJUDQv38t9J64NvC8AAAAAACA9D8AQF5tGLnPv4c8masqVw09AAAAAABg9D8AYNzLrfDOvySvhpy3Jis9"
        "AAAAAABA9D8A8CpuByfOvxD/P1RPLxe9AAAAAAAg9D8AwE9rIVzNvxtoyruRuiE9AAAAAAAA9D8AoJrH94/MvzSEn2hPeSc9AAAAAAAA9D8AoJrH"
        "94/MvzSEn2hPeSc9AAAAAADg8z8AkC10hsLLv4+3izGwThk9AAAAAADA8z8AwIBOyfPKv2aQzT9jTro8AAAAAACg8z8AsOIfvCPKv+rBRtxkjCW9"
        "AAAAAACg8z8AsOIfvCPKv+rBRtxkjCW9AAAAAACA8z8AUPScWlLJv+PUwQTZ0Sq9AAAAAABg8z8A0CBloH/Ivwn623+/vSs9AAAAAABA8z8A4BAC"
        "iavHv1hKU3KQ2ys9AAAAAABA8z8A4BACiavHv1hKU3KQ2ys9AAAAAAAg8z8A0BnnD9bGv2bisqNq5BC9AAAAAAAA8z8AkKdwMP/FvzlQEJ9Dnh69"
        "AAAAAAAA8z8AkKdwMP/FvzlQEJ9Dnh69AAAAAADg8j8AsKHj5SbFv49bB5CL3iC9AAAAAADA8j8AgMtsK03Evzx4NWHBDBc9AAAAAADA8j8AgMts"
        "K03Evzx4NWHBDBc9AAAAAACg8j8AkB4g/HHDvzpUJ02GePE8AAAAAACA8j8A8B/4UpXCvwjEcRcwjSS9AAAAAABg8j8AYC/VKrfBv5ajERikgC69"
        "AAAAAABg8j8AYC/VKrfBv5ajERikgC69AAAAAABA8j8AkNB8ftfAv/Rb6IiWaQo9AAAAAABA8j8AkNB8ftfAv/Rb6IiWaQo9AAAAAAAg8j8A4Nsx"
        "key/v/Izo1xUdSW9AAAAAAAA8j8AACtuBye+vzwA8CosNCo9AAAAAAAA8j8AACtuBye+vzwA8CosNCo9AAAAAADg8T8AwFuPVF68vwa+X1hXDB29"
        "AAAAAADA8T8A4Eo6bZK6v8iqW+g1OSU9AAAAAADA8T8A4Eo6bZK6v8iqW+g1OSU9AAAAAACg8T8AoDHWRcO4v2hWL00pfBM9AAAAAACg8T8AoDHW"
        "RcO4v2hWL00pfBM9AAAAAACA8T8AYOWK0vC2v9pzM8k3lya9AAAAAABg8T8AIAY/Bxu1v1dexmFbAh89AAAAAABg8T8AIAY/Bxu1v1dexmFbAh89"
        "AAAAAABA8T8A4BuW10Gzv98T+czaXiw9AAAAAABA8T8A4BuW10Gzv98T+czaXiw9AAAAAAAg8T8AgKPuNmWxvwmjj3ZefBQ9AAAAAAAA8T8AgBHA"
        "MAqvv5GONoOeWS09AAAAAAAA8T8AgBHAMAqvv5GONoOeWS09AAAAAADg8D8AgBlx3UKrv0xw1uV6ghw9AAAAAADg8D8AgBlx3UKrv0xw1uV6ghw9"
        "AAAAAADA8D8AwDL2WHSnv+6h8jRG/Cy9AAAAAADA8D8AwDL2WHSnv+6h8jRG/Cy9AAAAAACg8D8AwP65h56jv6r+JvW3AvU8AAAAAACg8D8AwP65"
        "h56jv6r+JvW3AvU8AAAAAACA8D8AAHgOm4Kfv+QJfnwmgCm9AAAAAACA8D8AAHgOm4Kfv+QJfnwmgCm9AAAAAABg8D8AgNUHG7mXvzmm+pNUjSi9"
        "AAAAAABA8D8AAPywqMCPv5ym0/Z8Ht+8AAAAAABA8D8AAPywqMCPv5ym0/Z8Ht+8AAAAAAAg8D8AABBrKuB/v+RA2g0/4hm9AAAAAAAg8D8AABBr"
        "KuB/v+RA2g0/4hm9AAAAAAAA8D8AAAAAAAAAAAAAAAAAAAAAAAAAAAAA8D8AAAAAAAAAAAAAAAAAAAAAAAAAAADA7z8AAIl1FRCAP+grnZlrxxC9"
        "AAAAAACA7z8AgJNYViCQP9L34gZb3CO9AAAAAABA7z8AAMkoJUmYPzQMWjK6oCq9AAAAAAAA7z8AQOeJXUGgP1PX8VzAEQE9AAAAAADA7j8AAC7U"
        "rmakPyj9vXVzFiy9AAAAAACA7j8AwJ8UqpSoP30mWtCVeRm9AAAAAABA7j8AwN3Nc8usPwco2EfyaBq9AAAAAAAg7j8AwAbAMequP3s7yU8+EQ69"
        "AAAAAADg7T8AYEbRO5exP5ueDVZdMiW9AAAAAACg7T8A4NGn9b2zP9dO26VeyCw9AAAAAABg7T8AoJdNWum1Px4dXTwGaSy9AAAAAABA7T8AwOoK"
        "0wC3PzLtnamNHuw8AAAAAAAA7T8AQFldXjO5P9pHvTpcESM9AAAAAADA7D8AYK2NyGq7P+Vo9yuAkBO9AAAAAACg7D8AQLwBWIi8P9OsWsbRRiY9"
        "AAAAAABg7D8AIAqDOce+P+BF5q9owC29AAAAAABA7D8A4Ns5kei/P/0KoU/WNCW9AAAAAAAA7D8A4CeCjhfBP/IHLc547yE9AAAAAADg6z8A8CN+"
        "K6rBPzSZOESOpyw9AAAAAACg6z8AgIYMYdHCP6G0gctsnQM9AAAAAACA6z8AkBWw/GXDP4lySyOoL8Y8AAAAAABA6z8AsDODPZHEP3i2/VR5gyU9"
        "AAAAAAAg6z8AsKHk5SfFP8d9aeXoMyY9AAAAAADg6j8AEIy+TlfGP3guPCyLzxk9AAAAAADA6j8AcHWLEvDGP+EhnOWNESW9AAAAAACg6j8AUESF"
        "jYnHPwVDkXAQZhy9AAAAAABg6j8AADnrr77IP9Es6apUPQe9AAAAAABA6j8AAPfcWlrJP2//oFgo8gc9AAAAAAAA6j8A4Io87ZPKP2khVlBDcii9"
        "AAAAAADg6T8A0FtX2DHLP6rhrE6NNQy9AAAAAADA6T8A4Ds4h9DLP7YSVFnESy29AAAAAACg6T8AEPDG+2/MP9IrlsVy7PG8AAAAAABg6T8AkNSw"
        "PbHNPzWwFfcq/yq9AAAAAABA6T8AEOf/DlPOPzD0QWAnEsI8AAAAAAAg6T8AAN3krfXOPxGOu2UVIcq8AAAAAAAA6T8AsLNsHJnPPzDfDMrsyxs9"
        "AAAAAADA6D8AWE1gOHHQP5FO7RbbnPg8AAAAAACg6D8AYGFnLcTQP+nqPBaLGCc9AAAAAACA6D8A6CeCjhfRPxzwpWMOISy9AAAAAABg6D8A+KzL"
        "XGvRP4EWpffNmis9AAAAAABA6D8AaFpjmb/RP7e9R1Htpiw9AAAAAAAg6D8AuA5tRRTSP+q6Rrrehwo9AAAAAADg5z8AkNx88L7SP/QEUEr6nCo9"
        "AAAAAADA5z8AYNPh8RTTP7g8IdN64ii9AAAAAACg5z8AEL52Z2vTP8h38bDNbhE9AAAAAACA5z8AMDN3UsLTP1y9BrZUOxg9AAAAAABg5z8A6NUj"
        "tBnUP53gkOw25Ag9AAAAAABA5z8AyHHCjXHUP3XWZwnOJy+9AAAAAAAg5z8AMBee4MnUP6TYChuJIC69AAAAAAAA5z8AoDgHriLVP1nHZIFwvi49"
        "AAAAAADg5j8A0MhT93vVP+9AXe7trR89AAAAAADA5j8AYFnfvdXVP9xlpAgqCwq9"
    ),
    "<f8",
).reshape(128, 3)


def power(k: Builder, x: Value, y: Value) -> Value:
    """A power; ours where the base is not positive and normal, or the exponent or the result very large or small."""
    high, low = _log(k, x)
    product = y * high
    rest = k.fma(y, low, k.fma(y, high, -product))
    size = k.abs(y)
    is_usual = (x >= _SMALLEST) & (x < float("inf")) & (size >= _FEWEST) & (size < _MOST)
    is_usual = is_usual & (k.abs(product) < libm_exp.LARGEST)
    result = k.var(libm_exp.exp_of_sum(k, product, rest))
    with k.when(~is_usual):
        result.set(math.power(k, x, y))
    return result.get()


def _log(k: Builder, x: Value) -> tuple[Value, Value]:
    """The logarithm, in two parts."""
    bits = k.bitcast(x, u64)
    above = bits - _FIRST
    row = k.table(_TABLE.ravel()).at(((above >> 45) & 127) * 4)
    inverse, log_c = row.load(0, 2)
    log_c_low, _ = row.load(2, 2)
    z = k.bitcast(bits - (above & 0xFFF0000000000000), f64)
    exponent = k.cvt(k.cast(k.bitcast(above, i64) >> 52, i32), f64)
    a = _POLYNOMIAL
    r = k.fma(z, inverse, -1.0)
    first = k.fma(exponent, _LN2, log_c)
    second = first + r
    half = r * a[0]
    square = r * half
    high = second + square
    low = k.fma(exponent, _LN2_LOW, log_c_low) + ((first - second) + r)
    low = (low + k.fma(half, r, -square)) + ((second - high) + square)
    tail = k.fma(k.fma(r, a[6], a[5]), square, k.fma(r, a[4], a[3]))
    low = k.fma(r * square, k.fma(square, tail, k.fma(r, a[2], a[1])), low)
    total = high + low
    return total, (high - total) + low


__all__ = ["power"]

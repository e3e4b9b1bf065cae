"""The C library's logarithm, bit for bit, which legacy streams go through.

glibc has Arm's since 2.28, and computes it with fused operations wherever the processor has them; other C libraries
have the same, or others that differ in the last place. An argument is ``2**k z``, with z within 2**-8 of ``1 / c`` for
one of 128 numbers c: ``log(x) = k log(2) + log(z c) - log(c)``, of which ``z c - 1`` is exact. Near 1 a polynomial of
twelve terms is taken instead, the first two of them to more bits.

Data and algorithm of Arm's optimized-routines, math/log.c and math/log_data.c (MIT).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from oxinp._ptx.types import f64, i32, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

_LN2, _LN2_LOW = 0.6931471805598903, 5.497923018708371e-14
_POLYNOMIAL = (
    -0.5000000000000001,
    0.33333333331825593,
    -0.2499999999622955,
    0.20000304511814496,
    -0.16667054827627667,
)
_NEAR_1 = (
    -0.5,
    0.3333333333333352,
    -0.24999999999998432,
    0.19999999999320328,
    -0.16666666669929706,
    0.14285715076560868,
    -0.12499997863982555,
    0.11110712032936046,
    -0.10000486757818193,
    0.09181994006195467,
    -0.08328363062289341,
)
# Pairs of c and -log(c), the first 7 bits of a mantissa from 11/16 on
_TABLE = (
    "n97gw/A09z8AkOZ5f8zXvx/pLGp4E/c/AAANwu5v17+gtfoIYPL2PwDgURPjE9e/fYwTH6bR9j8AeCg4W7jWv9G0xQtJsfY/AHiAkFVd1r+6DC8z"
    "R5H2PwAAGHbQAta/I0IiGJ9x9j8AkJCGyqjVv9kepZlPUvY/AFADVkNP1b/EJI+qVjP2PwBAa8M39tS/FNyda7MU9j8AUKj9p53Uv0xcxlJk9vU/"
    "AKiJOZJF1L9PLJG1Z9j1PwC4sDn07dO/3pBby7y69T8AcI9EzpbTv3ga2fJhnfU/AKC9Fx5A07+HVkYSVoD1PwCARu/i6dK/02vnzpdj9T8A4DA4"
    "G5TSv5N/p+IlR/U/AIjajMU+0r+DRQZC/yr1PwCQJynh6dG/372y2yIP9T8A+EgrbZXRv9feNEeP8/Q/APi5mmdB0b9AKN7PQ9j0PwCY75TQ7dC/"
    "yKN4wD699D8AENsYpZrQv4ol4MN/ovQ/ALhjUuZH0L80hNQkBYj0PwDwhkUi68+/Cy0ZG85t9D8AsBd1SkfPv1QYOdPZU/Q/ADAQPUSkzr9ahLRE"
    "Jzr0PwCw6UQNAs6/+/gVQbUg9D8A8HcpomDNv7H0PtqCB/Q/AJCVBAHAzL+P/lddj+7zPwAQiVYpIMy/6UwLoNnV8z8AEIGNF4HLvyvBEMBgvfM/"
    "ANDTzMniyr+42nUrJKXzPwCQEi5ARcq/AtCfzSKN8z8A8B1od6jJvxx6hMVbdfM/ADBIaW0Myb/iNq1Jzl3zPwDARaYgcci/QNRNmHlG8z8AMBS0"
    "j9bHvyTL/85cL/M/AHBiPLg8x79JDaF1dxjzPwBgN5uao8a/kDk+N8gB8z8AoLdUMQvGv0H4lbtO6/I/ADAkdn1zxb/RqRkCCtXyPwAwwo973MS/"
    "Kv23qPm+8j8AANJRLEbEv6sbDHocqfI/AACDvIqww78wtRRgcpPyPwAASWuZG8O/9aFXV/p98j8AQKSQVIfCv787HZuzaPI/AKB5+Lnzwb+99Y+D"
    "nVPyPwCgLCXIYMG/OwjJqrc+8j8AIPdXf87Av7ZAqSsBKvI/AKD+Sdw8wL8yQcyWeRXyPwCAS7y9V7+/m/zSHSAB8j8AQECWCDe+vwtITUn07PE/"
    "AED5PpgXvb9pZY9S9djxPwCg2E5n+bu/fH5XESPF8T8AYC8gedy6v+kmy3R8sfE/AIAo58PAub+2GiwMAZ7xPwDAcrNGpri/vXC2e7CK8T8AAKyz"
    "AY23v7a87yWKd/E/AAA4RfF0tr/aMUw1jWTxPwCAh20OXrW/3V8nkLlR8T8A4KHeXEi0v0zSMqQOP/E/AKBqTdkzs7/a+RByiyzxPwBgxfh5ILK/"
    "MbXsKDAa8T8AIGKYRg6xv680hNr7B/E/AADSamz6r7+za04P7vXwPwBAd0qN2q2/zp8qXQbk8D8AAIXk7LyrvyGlLGNE0vA/AMASQImhqb8amOJ8"
    "p8DwPwDAAjNYiKe/0TbGgy+v8D8AgNZnXnGlvzkToJjbnfA/AIBlSYpco7/f51Kvq4zwPwBAFWTjSaG/+yhOL5978D8AgOuCwHKevxmPNYy1avA/"
    "AIBSUvFVmr8s+eyl7lnwPwCAgc9iPZa/kCzRzUlJ8D8AAKqM+yiSv6mt8MbGOPA/AAD5IHsxjL+pMnkTZSjwPwAAql01GYS/SHPqJyQY8D8AAOzC"
    "AxJ4v5WxFAYECPA/AAAkeQkEYL8a+ib3H+DvPwAAkITz728/dOphwhyh7z8AAD01QdyHPy6ZgbAQY+8/AIDCxKPOkz/Nre489iXvPwAAiRTBn5s/"
    "5xORA8jp7j8AABHO2LChP6uxy3iAru4/AMAB0FuKpT+bDJ2iGnTuPwCA2ECDXKk/tZkKg5E67j8AgFfvaietP1aaYAngAe4/AMCY5Zh1sD+Yu3fl"
    "AcrtPwAgDeP1U7I/A5F8C/KS7T8AADiL3S60P85c+2asXO0/AMBXh1kGtj+d3l6qLCftPwAAajV22rc/zSxrPm7y7D8AYBxOQ6u5PwJ5p6Jtvuw/"
    "AGANu8d4uz9tCDdtJovsPwAg5zITQ70/BFhdvZRY7D8AYN5xMQq/P4yfuzO1Juw/AECRKxVnwD8/5+zug/XrPwCwkoKFR8E/wZbbdf3E6z8AMMrN"
    "bibCPyhKhgweles/AFDFptcDwz8sPu/F4mXrPwAQMzzD38M/i4jJZ0g36z8AgHprNrrEP0owHSFLCes/APDRKDmTxT9+7/KF6NvqPwDwGCTNasY/"
    "oj1gMR2v6j8AkGbs+EDHP6dY0z/mguo/APAa9cAVyD+LcwnvQFfqPwCA9lQp6cg/J0urkCos6j8AQPgCNrvJP9HykxOgAeo/AAAsHO2Lyj8bPNsk"
    "n9fpPwDQAVxRW8s/kLHHBSWu6T8AwLzMZynMPy/Ol/Iuhek/AGBI1TX2zD91S6TuulzpPwDARjS9wc0/OEjnncY06T8A4M+4AYzOP+ZSZy9PDek/"
    "AJAXwAlVzz+d1/+OUuboPwC4HxJsDtA/fADMn86/6D8A0JMOuHHQPw7DvtrAmeg/AHCGnmvU0D/7FyOqJ3ToPwDQSzOHNtE/CJqzrABP6D8ASCNn"
    "DZjRP1U+ZehJKug/AIDM4P/40T9gAvSVAQboPwBoY9dfWdI/KaPgYyXi5z8AqBQJMLnSP6213Hezvuc/AGBDEHIY0z/CJZdnqpvnPwAY7G0md9M/"
    "VwYX8gd55z8AMK/7T9XTPwwT1tvKVuc/AOAv4+4y1D8="
)
_FIRST = 0x3FE60000  # upper half of 11/16
_FROM, _TO = 0x3FEE0000, 0x3FF10900  # upper halves of 1 - 2**-4 and 1 + 1.035 * 2**-4


def log(k: Builder, x: Value) -> Value:
    """The logarithm of a positive finite number that is not subnormal."""
    result = k.var(log_far(k, x))
    with k.when(is_near_1(k, x)):
        result.set(log_near(k, x))
    return result.get()


def is_near_1(k: Builder, x: Value) -> Value:
    """Whether a number's logarithm is that of `log_near`."""
    is_near: Value = k.unpack(k.bitcast(x, u64))[1] - _FROM < _TO - _FROM
    return is_near


def log_far(k: Builder, x: Value) -> Value:
    """The logarithm of a number that is not near 1."""
    low, high = k.unpack(k.bitcast(x, u64))
    above = high - _FIRST
    table = k.table(np.frombuffer(base64.b64decode(_TABLE), "<f8"))
    c, log_c = table.load(((above >> 13) & 127) * 2, 2)
    z = k.bitcast(k.pack(low, high - (above & 0xFFF00000)), f64)
    exponent = k.cvt(k.bitcast(above, i32) >> 20, f64)
    a = _POLYNOMIAL
    r = k.fma(z, c, -1.0)
    w = k.fma(exponent, _LN2, log_c)
    total = r + w
    rest = k.fma(exponent, _LN2_LOW, (w - total) + r)
    square = r * r
    rest = k.fma(square, a[0], rest)
    tail = k.fma(k.fma(r, a[4], a[3]), square, k.fma(r, a[2], a[1]))
    result: Value = k.fma(r * square, tail, rest) + total
    return result


def log_near(k: Builder, x: Value) -> Value:
    """The logarithm of a number that is."""
    b = _NEAR_1
    r = x - 1.0
    square = r * r
    cube = r * square
    third = k.fma(cube, b[10], k.fma(square, b[9], k.fma(r, b[8], b[7])))
    second = k.fma(square, b[6], k.fma(r, b[5], b[4]))
    first = k.fma(square, b[3], k.fma(r, b[2], b[1]))
    tail = k.fma(k.fma(third, cube, second), cube, first)
    upper = k.fma(r, -(2.0**27), k.fma(r, 2.0**27, r))
    total = k.fma(upper * upper, b[0], r)
    rest = k.fma(upper * upper, b[0], r - total)
    rest = k.fma((r - upper) * b[0], r + upper, rest)
    result: Value = total + k.fma(tail, cube, rest)
    return result


__all__ = ["is_near_1", "log", "log_far", "log_near"]

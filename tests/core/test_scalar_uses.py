"""What programs do with NumPy's scalars, in the standard library and with NumPy, done with scalars on the device."""

# ruff: noqa: F401, ICN001 - the uses below are text

import array
import bisect
import cmath
import collections.abc
import copy
import csv
import ctypes
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import io
import itertools
import json
import logging
import math
import numbers
import operator
import os
import pickle
import pprint
import random
import statistics
import string
import struct
import sys
import textwrap
import time
import typing
import urllib.parse
import zlib

import numpy
import pytest

import oxinp

D = dataclasses.make_dataclass("D", ["a", "b"])
# THE USES, one a line, of the scalars 3.0, 3, True and 3+0j.
USES = r"""
struct.pack("d", s)
struct.pack("q", i)
struct.pack("?", b)
array.array("d", [s, s])
array.array("q", [i])
ctypes.c_double(s).value
ctypes.c_int(i).value
ctypes.c_double(i).value
random.Random(i).random()
random.Random(s).random()
random.Random(0).sample(range(9), i)
random.Random(0).randrange(i)
random.Random(0).uniform(0, s)
random.Random(0).choices([1,2], weights=[s, s])
math.floor(s)
math.ceil(s)
math.trunc(s)
math.sqrt(s)
math.pow(s, i)
math.gcd(i, 6)
math.comb(5, i)
math.isclose(s, 3)
math.ldexp(1.0, i)
math.fsum([s, i])
math.hypot(s, s)
math.factorial(i)
math.isqrt(i)
math.prod([s, i])
math.copysign(1, s)
math.dist([s], [i])
math.log(s, i)
math.nan == s
cmath.sqrt(s)
cmath.phase(c)
"%d %s %r %f %.2e %5.1f %x %o" % (i, s, s, s, s, s, i, i)
"%c" % i
"{:d} {:x} {:b} {:,}".format(i, i, i, i)
"{:.2f} {:e} {:>10} {!r}".format(s, s, s, s)
f"{i:05d} {s:+.1f} {b} {b!r} {c}"
hex(i)
bin(i)
oct(i)
chr(i)
abs(i)
round(s, 1)
divmod(i, 2)
pow(2, i)
pow(2, i, 5)
pow(s, 2)
pow(2, s)
int.to_bytes(i, 2, "big")
i.to_bytes(2, "big")
[0] * i
i * [0]
"a" * i
b"a" * i
(0,) * i
s * [1]
list(range(i))
list(itertools.islice(range(9), i))
list(enumerate("ab", i))
collections.deque(range(9), i)
"abc"[:i]
"abcdef"[i]
slice(i).indices(9)
[1,2,3,4].pop(i)
[1,2,3,4].index(i)
list(itertools.repeat(1, i))
list(itertools.combinations(range(4), i))
time.gmtime(i)
datetime.datetime.fromtimestamp(i, datetime.UTC)
datetime.timedelta(days=i)
datetime.date(2000 + i, i, i)
datetime.timedelta(days=1) * i
datetime.timedelta(days=1) * s
datetime.timedelta(days=1) / s
datetime.timedelta(days=1) / i
fractions.Fraction(s)
fractions.Fraction(i)
fractions.Fraction(i, 2)
fractions.Fraction(1, 2) + s
fractions.Fraction(1, 2) * i
decimal.Decimal(1) + i
decimal.Decimal(1) * s
decimal.Decimal(i)
statistics.mean([s, s])
statistics.median([i, s])
statistics.stdev([s, s + 1])
statistics.mode([i, i])
statistics.quantiles([s, s + 1], n=2)
statistics.harmonic_mean([s])
statistics.geometric_mean([s])
statistics.pvariance([i, i])
bisect.bisect([1, 2, 5], s)
heapq.nsmallest(i, [5, 1, 4, s])
sorted([s, i, 1], key=lambda x: -x)
min(s, i)
max(s, 5)
sum([s, s])
sum([i, i], s)
any([b])
all([b])
zlib.compress(b"aaaa", i)
textwrap.wrap("a b c d", i)
bool(b)
b and 1
not b
int(b)
b + b
b * 2
b & True
b | b
b ^ True
~b
{s: 1}[3.0]
{i: 1}[3]
{3.0: 1}[s]
{3: 2}[i]
s in {3.0}
i in (3,)
s in [3.0]
hash(s) == hash(3.0)
hash(i) == hash(3)
hash(c) == hash(3 + 0j)
hash(b) == hash(True)
complex(s)
complex(i, s)
complex(c)
float(s)
int(s)
float(b)
int(i)
str(s)
repr(i)
ascii(s)
format(s)
bytes(i)
pprint.pformat([s, i, b, c])
copy.copy(s)
copy.deepcopy([s, i])
pickle.loads(pickle.dumps([s, i, b, c]))
string.Template("$a").substitute(a=s)
isinstance(s, numbers.Real)
isinstance(i, numbers.Integral)
isinstance(c, numbers.Complex)
isinstance(s, float)
isinstance(i, int)
isinstance(b, bool)
isinstance(c, complex)
isinstance(s, typing.SupportsFloat)
isinstance(i, typing.SupportsIndex)
isinstance(s, collections.abc.Hashable)
isinstance(s, collections.abc.Iterable)
isinstance(s, collections.abc.Sized)
isinstance(s, collections.abc.Container)
isinstance(s, collections.abc.Sequence)
callable(s)
functools.reduce(operator.add, [s, i])
operator.index(i)
operator.truth(b)
operator.itemgetter(i)([1,2,3,4])
operator.length_hint(s, 5)
functools.lru_cache(lambda x: type(x).__name__)(s)
functools.singledispatch(lambda x: "o")(s)
json.loads(json.dumps(float(s)))
json.dumps(i.item())
urllib.parse.urlencode({"a": s, "b": i})
csv.writer(io.StringIO()).writerow([s, i])
logging.LogRecord("", 1, "", 1, "%d %.1f", (i, s), None).getMessage()
bytearray(i)
memoryview(b"abcdef")[i]
numpy.float64(s)
numpy.int32(i)
numpy.array([s, i])
numpy.array([[s, s]])
numpy.array(s)
numpy.full(2, s)
numpy.zeros(i)
numpy.arange(i)
numpy.linspace(0, s, i)
numpy.add(s, [1, 2])
numpy.float32(1) + s
s + numpy.float32(1)
numpy.arange(3)[i - 1]
numpy.isscalar(s)
numpy.ndim(s)
numpy.result_type(s)
numpy.can_cast(type(s), "f4")
numpy.finfo(s).eps
numpy.finfo(type(s)).eps
numpy.iinfo(i).max
numpy.dtype(type(i))
numpy.issubdtype(type(i), numpy.integer)
numpy.isclose(s, 3)
numpy.random.default_rng(0).random(i)
numpy.asarray([s], dtype=object).tolist()
numpy.array([s, None]).tolist()
numpy.array([b, b])
numpy.zeros((i, i)).shape
numpy.ones(3)[:i]
numpy.where(b, s, 0)
numpy.isnan(s)
numpy.testing.assert_allclose(s, 3)
numpy.clip(5, 0, s)
numpy.nan_to_num(s)
numpy.float64(1) / s
numpy.float64(1) < s
numpy.timedelta64(1, "s") * i
numpy.asarray(s).flags.writeable
numpy.array(s).flags.writeable
numpy.asarray([s, s]).dtype
type(s).__mro__[0].__name__
type(s).__qualname__
type(i).__name__
type(b).__name__
type(c).__name__
s.__class__.__name__
type(s)(2)
type(i)("3")
type(b)(0)
isinstance(type(s)(2), float)
s.is_integer()
s.as_integer_ratio()
s.hex()
i.bit_count()
s.real
s.imag
c.real
c.conjugate()
i.numerator
i.denominator
s.dtype.name
s.item()
s.tolist()
s.nbytes
enum.IntEnum("E", "a b c")(i)
s.__round__(1)
s.__floor__() if hasattr(s, "__floor__") else 0
hasattr(s, "__iter__")
hasattr(s, "__len__")
hasattr(i, "__index__")
hasattr(s, "__float__")
hasattr(s, "__index__")
hasattr(s, "__array__")
hasattr(i, "shape")
hasattr(s, "foo")
hasattr(s, "__getitem__")
hasattr(s, "__contains__")
hasattr(s, "__array_interface__")
hasattr(s, "__complex__")
s.__array_interface__["typestr"]
bytes(s)
s.tobytes()
io.BytesIO(s).read()
hashlib.sha1(s).hexdigest()
sys.getsizeof(s) > 0
memoryview(s).format
memoryview(i).tolist()
bytes(memoryview(s))
numpy.timedelta64(4, 's') * s
numpy.timedelta64(4, 's') / i
""".strip().splitlines()


def outcome(np, code):
    """Return what a use gives, as text, or its exception."""
    names = {
        "s": np.arange(3.0).sum(),
        "i": np.arange(3).sum(),
        "b": np.ones(3, bool).any(),
        "c": (np.arange(3) * (1 + 0j)).sum(),
    }
    try:
        return repr(eval(code, globals(), names))  # noqa: S307 - our own code
    except Exception as error:  # noqa: BLE001 - the exception is the outcome
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("code", USES)
def test_is_done_as_with_numpys(code):
    assert outcome(oxinp, code) == outcome(numpy, code)

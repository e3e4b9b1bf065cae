"""The C library's exponentials, bit for bit: of log-normal numbers, of legacy streams, and of wedges of ziggurats.

glibc has Arm's since 2.28, and computes it with fused operations wherever the processor has them; other C libraries
have the same, or others that differ in the last place. An argument is ``n log(2) / 128 + r`` with
``|r| <= log(2) / 256``: ``exp(x) = 2**(n // 128) * 2**(n % 128 / 128) * exp(r)``, of which the second factor is one of
128 numbers, rounded, with what that has lost, and the third a polynomial of five terms.

Data and algorithms of Arm's optimized-routines, math/exp.c, math/exp_data.c and math/expf.c (MIT).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import numpy as np

from oxinp._ptx import math
from oxinp._ptx.types import f32, f64, u64

if TYPE_CHECKING:
    from oxinp._ptx import Builder
    from oxinp._ptx.value import Value

_SHIFT = 1.5 * 2.0**52
_PER_LN2 = 128 / 0.6931471805599453
_LN2, _LN2_LOW = 0.0054152123481117087, 1.2864023111638346e-14  # 1 / 128 of it, in two parts
_POLYNOMIAL = (0.49999999999996786, 0.16666666666665886, 0.041666680841067401, 0.0083333358530595491)
_PER_LN2_F32 = _PER_LN2 / 4
_POLYNOMIAL_F32 = (1.6938359250920212e-06, 0.00023459809789509004, 0.021660849396613134)
_LARGE = 512.0  # from which on the power of 2 is taken apart, so that what is negative is rounded twice
LARGEST = 708.0  # from which on results are not normal
# Of i / 128, what a power of 2 has lost by rounding, and its bits without those of its exponent
_TABLE = np.frombuffer(
    base64.b64decode(
        "AAAAAAAAAAAAAAAAAADwP26/iBpPO5s8NTP7qT327z9d3NicE2BxvGGAdz6a7O8/0WaHEHpekLyFf27oFePvPxP2ZzVS0ow8dIUV07DZ7z/6jvkj"
        "gM6LvN723Slr0O8/YcjmYU73YDzIm3UYRcfvP5nTM1vko5A8g/PGyj6+7z9te4NdppqXPA+J+WxYte8//O/9khq1jjz3R3IrkqzvP9GcL3A9vj48"
        "otHTMuyj7z8LbpCJNANqvBvT/q9mm+8/Dr0vKlJWlbxRWxLQAZPvP1XqTozvgFC8zDFswL2K7z8W9NW5I8mRvOAtqa6agu8/r1Vc6ePTgDxRjqXI"
        "mHrvP0iTpeoVG4C8e1F9PLhy7z89Mt5V8B+PvOqNjDj5au8/v1MTP4yJizx1y2/rW2PvPybrEXac2Za81FwEhOBb7z9gLzo+9+yaPKq5aDGHVO8/"
        "nTiGy4Lnj7wd2fwiUE3vP43DpkRBb4o81oxiiDtG7z99BOSwBXqAPJbcfZFJP+8/lKio4/2Oljw4YnVuejjvP31IdPIYXoc8P6ayT84x7z/y5x+Y"
        "K0eAPN184mVFK+8/XghxP3u4lryBY/Xh3yTvPzGrCW3h94I84d4f9Z0e7z/6v28amyE9vJDZ2tB/GO8/tAoMcoI3izwLA+SmhRLvP4/LzomSFG48"
        "Vi8+qa8M7z+2q7BNdU2DPBW3MQr+Bu8/THSs4gFChjwx2Ez8cAHvP0r401053Y88/xZksgj87j8EW447gKOGvPGfkl/F9u4/aFBLzO1KkrzLqTo3"
        "p/HuP44tURv4B5m8ZtgFba7s7j/SNpQ+6NFxvPef5TTb5+4/FRvOsxkZmbzlqBPDLePuP21MKqdIn4U8IjQSTKbe7j+KaSh6YBKTvByArARF2u4/"
        "W4kXSI+nWLwqLvchCtbuPxuaSWebLHy8l6hQ2fXR7j8RrMJg7WNDPC2JYWAIzu4/72QGOwlmljxXAB3tQcruP3kDodrhzG480DzBtaLG7j8wEg8/"
        "jv+TPN7T1/Aqw+4/sK96u86QdjwnKjbV2r/uP3fgVOu9HZM8Dd39mbK87j+Oo3EANJSPvKcsnXayue4/SaOT3Mzeh7xCZs+i2rbuP184D73G3ni8"
        "gk+dViu07j/2XHvsRhKGvA+SXcqkse4/jtf9GAU1kzzaJ7U2R6/uPwWbii+3mHs8/ceX1BKt7j8JVBzi4WOQPClUSN0Hq+4/6sYZUIXHNDy3RlmK"
        "JqnuPzXAZCvmMpQ8SCGtFW+n7j+fdplhSuSMvAncdrnhpe4/qE3vO8UzjLyFVTqwfqTuP67pK4l4U4S8IMPMNEaj7j9YWFZ43c6TvCUiVYI4ou4/"
        "ZBl+gKoQVzxzqUzUVaHuPygiXr/vs5O8zTt/Zp6g7j+CuTSHrRJqvL/aC3USoO4/7qltuO9nY7wvGmU8sp/uP1GI4FQ93IC8hJRR+X2f7j/PPlp+"
        "ZB94vHRf7Oh1n+4/sH2LwEruhrx0gaVImp/uP4rmVR4yGYa8yWdCVuuf7j/T1Aley5yQPD9d3k9poO4/HaVNudwye7yHAetzFKHuP2vAZ1T97JQ8"
        "MsEwAe2h7j9VbNar4etlPGJOzzbzou4/Qs+zL8WhiLwSGj5UJ6TuPzQ3O/G2aZO8E85MmYml7j8e/xk6hF6AvK3HI0Yap+4/bldy2FDUlLztkkSb"
        "2ajuPwCKDltnrZA8mWaK2ceq7j+06vDBL7eNPNugKkLlrO4//+fFnGC2ZbyMRLUWMq/uP0Rf81mD9ns8NncVma6x7j+DPR6nHwmTvMb/kQtbtO4/"
        "KR5si7ipXbzlxc2wN7fuP1m5kHz5I2y8D1LIy0S67j+q+fQiQ0OSvFBO3p+Cve4/S45m12zKhby6B8pw8cDuPyfOkSv8r3E8kPCjgpHE7j+7cwrh"
        "NdJtPCMj4xljyO4/YyJiIgTFh7xl5V17ZszuP9Ux4uOGHIs8My1K7JvQ7j8Vu7zT0buRvF0lPrID1e4/0jHunDHMkDxYszATntnuP7Nac26EaYQ8"
        "v/15VWve7j+0nY6Xzd+CvHrz079r4+4/hzPLkncajDyt01qZn+juP/rZ0UqPe5C8ZraNKQfu7j+6rtxW2cNVvPsVT7ii8+4/QPamPQ6kkLw6WeWN"
        "cvnuPzSTrTj01mi8R1778nb/7j81ilhr4u6RvEoGoTCwBe8/zd1fCtf/dDzSwUuQHgzvP6yYkvr7vZG8CR7XW8IS7z+zDK8wrm5zPJxShd2bGe8/"
        "lP2fXDLjjjx60P9fqyDvP6xZCdGP4IQ8S9FXLvEn7z9nGk44r81jPLXnBpRtL+8/aBmSbCxrZzxpkO/cIDfvP9K1zIMYioC8+sNdVQs/7z9v+v8/"
        "Xa2PvHyJB0otR+8/Sal1OK4NkLzyiQ0Ih0/vP6cHPaaFo3Q8h6T73BhY7z8PIkAgnpGCvJiDyRbjYO8/rJLB1VBajjyFMtsD5mnvP0trAaxZOoQ8"
        "YLQB8yFz7z8fPrQHIdWCvF+bezOXfO8/yQ1HO7kqibwpofUURobvP9OIOmAEtnQ89j+L5y6Q7z9xcp1R7MWDPINMx/tRmu8/8JHTjxL3j7zakKSi"
        "r6TvP310I+KYro288WeOLUiv7z8IIKpBvMOOPCdaYe4buu8/Muupw5QrhDyXums3K8XvP+6F0TGpZIo8QEVuW3bQ7z/t4zvkujeOvBS+nK392+8/"
        "nc2RTTuJdzzYkJ6BwefvP4nMYEHBBVM88XGPK8Lz7z8="
    ),
    "<u8",
)


def exp(k: Builder, x: Value) -> Value:
    """The exponential; ours where that is not a normal number, or of NaN."""
    is_usual = k.abs(x) < LARGEST
    result = k.var(exp_of_sum(k, x))
    with k.when(~is_usual):
        result.set(math.exp(k, x))
    return result.get()


def exp_of_sum(k: Builder, x: Value, rest: Value | None = None) -> Value:
    """The exponential of a number, or of that and of what it has lost, where that is normal."""
    shifted = k.fma(x, _PER_LN2, _SHIFT)
    number = k.bitcast(shifted, u64)
    multiple = shifted - _SHIFT
    r = k.fma(multiple, -_LN2_LOW, k.fma(multiple, -_LN2, x))
    r = r if rest is None else rest + r
    lost, bits = k.table(_TABLE).load((number & 127) * 2, 2)
    power = k.bitcast(bits + (number << 45), f64)
    a = _POLYNOMIAL
    square = r * r
    excess = k.fma(k.fma(r, a[1], a[0]), square, r + k.bitcast(lost, f64))
    excess = k.fma(square * square, k.fma(r, a[3], a[2]), excess)
    result: Value = k.where(x <= -_LARGE, power + power * excess, k.fma(power, excess, power))
    return result


def exp_f32(k: Builder, x: Value) -> Value:
    """The exponential of a number of f32, given as f64, where that is normal: ``expf``, with the table's 32 of 128."""
    shifted = k.fma(x, _PER_LN2_F32, _SHIFT)
    number = k.bitcast(shifted, u64)
    r = k.fma(x, _PER_LN2_F32, -(shifted - _SHIFT))
    bits = k.table(_TABLE)[(number & 31) * 8 + 1]
    power = k.bitcast(bits + (number << 47), f64)
    a = _POLYNOMIAL_F32
    total = k.fma(k.fma(r, a[0], a[1]), r * r, k.fma(r, a[2], 1.0))
    return k.cvt(total * power, f32)


__all__ = ["LARGEST", "exp", "exp_f32", "exp_of_sum"]

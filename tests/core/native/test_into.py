"""Functions that write to their first argument where arrays are small: what NumPy writes, raises and warns of."""

import re
import sys

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.native import objects
from tests.comparator import assert_same
from tests.core.native.test_anew import _told, entered_by, given

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="this Python calls functions in another way")

STATEMENTS = [
    each.strip()
    for each in re.split(
        r";\s",
        """
        np.copyto(a, b); np.copyto(a, 2.0); np.copyto(a, 2); np.copyto(a, k[0]); np.copyto(a, b, where=m);
        np.copyto(a, b, 'same_kind', m); np.copyto(k, 2.5); np.copyto(k, 2.5, casting='unsafe'); np.copyto(a, c);
        np.copyto(a[:5], c, casting='unsafe'); np.copyto(k, a[:5], 'unsafe'); np.copyto(a, M); np.copyto(M, a[:4]);
        np.copyto(a, a[::-1]); np.copyto(a[1:], a[:-1]); np.copyto(M.T, M.T * 2); np.copyto(a, b, where=k);
        np.copyto(a, b, where=True); np.copyto(a, [1.0] * 7); np.copyto(a, [1.0, 2.0]); np.copyto(a, 'x');
        np.copyto(a, o); np.copyto(o, a[:3]); np.copyto(i, a * np.nan, 'unsafe'); np.copyto(dst=a, src=b);
        np.copyto(a, src=b); np.copyto(h, M[:, :3]); np.copyto(h, 1e6); np.copyto(a); np.copyto(); np.copyto(E, 3);
        np.copyto(Z, 3); np.copyto(a, a); np.copyto(a, None); np.copyto(a, b, None); np.copyto(t, 'c');
        np.copyto(np.broadcast_to(a, (2, 7)), 1.0); np.copyto(a, b, 'same_kind', m, 3); np.copyto(m, 2);
        np.copyto(L, 1.0); np.copyto(L[:2], L[2:4]); np.copyto(B, 1.0); np.copyto(a, B[:7]); np.copyto(np.r_[a], b);
        np.put(a, k, b[:5]); np.put(a, [0, 2], [1.0, 2.0]); np.put(a, 3, 9); np.put(a, [0, 99], 1.0); np.put(a, -1, k);
        np.put(a, [0, 99], 1.0, mode='clip'); np.put(a, [0, 9], 1.0, 'wrap'); np.put(M.T, [1, 2], 5.0);
        np.put(a, k, a); np.put(a, [1.5], 2.0); np.put(a, ind=[0], v=2.0); np.put(o, [0], 2); np.put(k, [0], 1.5);
        np.put(a, m, b); np.put(a, [], []); np.put(a, [0], []); np.put(i, [0, 1], [np.nan, 1.0]); np.put(a, [[0]], 2);
        a.put([0, 2], 7.0); a.put(k, b); M.put([5], 1.0); a.put([7], 1.0); a.put([7], 1.0, mode='wrap'); a.put(0);
        np.putmask(a, m, b); np.putmask(a, m, 3.0); np.putmask(a, a > 0.5, [1.0, 2.0]); np.putmask(k, k > 1, 7);
        np.putmask(a, m, c); np.putmask(a, m[:3], b); np.putmask(a, m, a[::-1]); np.putmask(a, m, []);
        np.putmask(M, M > 0.5, 0.0); np.putmask(M.T, M.T > 0.5, a); np.putmask(o, [True, False, True], 5);
        np.putmask(a, mask=m, values=b); np.putmask(i, i > 0, 1.5); np.putmask(a, k, b); np.putmask(Z, True, 1.0);
        np.place(a, m, b); np.place(a, m, [1.0, 2.0]); np.place(a, m, 3.0); np.place(a, m, []); np.place(a, m, c);
        np.place(M, M > 0.5, a); np.place(k, k > 1, [7]); np.place(a, m[:3], 1.0); np.place(i, i > 0, a);
        np.place(a, a > 2, []); np.place(E, E > 0, [1.0]); np.place(a, m, vals=b);
        np.place(M[:, ::2], M[:, ::2] > 0, a);
        np.dot(S, a[:4], out=b[:4]); np.dot(S, S, out=b); np.dot(M, S, out=M); np.dot(S, S, out=S); np.dot(a, b, out=Z);
        np.dot(k, k, out=a); S.dot(a[:4], out=b[:4]); np.dot(M, S, M); np.dot(a, b, out=None); np.sum(M, out=Z);
        np.sum(M, axis=0, out=a[:4]); np.sum(M, out=a, axis=0); np.sum(M, axis=1, out=k[:3]); np.sum(a, 0, out=Z);
        M.sum(axis=0, out=a[:4]); M.mean(0, out=b[:4]); np.mean(M, axis=1, out=a[:3]); np.max(M, axis=0, out=a[:4]);
        np.min(M, 1, out=a[:4]); np.any(M > 0.5, axis=0, out=m[:4]); np.all(M, axis=0, out=a[:4]); np.sum(a, out=[1]);
        np.cumsum(a, out=b); np.cumsum(a, out=a); a.cumsum(out=a[::-1]); np.cumprod(a, out=k);
        np.cumsum(a, axis=0, out=b);
        np.clip(a, 0.2, 0.6, out=a); np.clip(a, 0.2, None, out=b); a.clip(0.2, 0.5, out=a); np.clip(i, 0.5, 3, out=i);
        np.clip(a, b, 0.6, out=b); np.round(a, 1, out=a); a.round(1, out=b); np.round(a, decimals=2, out=b);
        o.sum(out=Z);
        np.take(a, k, out=b[:5]); np.take(a, k, out=b[:5], mode='clip'); np.take(a, [9], out=b[:1]); a.take(k, out=b);
        np.argmax(M, axis=0, out=k[:4]); np.argmin(M, 1, out=k[:3]); M.argmax(0, out=a[:4]);
        np.std(M, axis=0, out=a[:4]);
        M.var(0, out=a[:4]); np.var(a, out=Z); np.ptp(M, axis=0, out=a[:4]); np.prod(M, axis=0, out=a[:4]);
        np.choose(m, [a, b], out=a); np.compress(m[:3], a, out=b[:1]); np.sum(a / 0, axis=0, out=Z); np.sum(E, out=Z);
        np.sum(h * 6e4, axis=0, out=h[0]); (h * 6e4).sum(axis=0, out=h[0]); np.std(a, ddof=9, out=Z);
        np.sum(M, 5, out=a); np.mean(c, out=Z); np.sum(c, axis=0, out=Z); np.sum(L, axis=0, out=L[0]);
        np.sum(I, axis=0, out=I[0]); np.sum(a, where=m, out=Z); np.sum(a, keepdims=True, out=b[:1]);
        np.sum(a, out=(Z,)); np.sum(a, out=np.broadcast_to(Z, (3,)))
        """,
    )
]


@pytest.mark.parametrize("is_native", [True, False], ids=["machine code", "Python"])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_are_numpys(statement, is_native):
    with config.override(machine_code=is_native, offload_threshold=65536):
        ours, numpys = given(oxinp), given(np)
        for _ in range(2):
            (found, heard), (expected, expected_heard) = _told(statement, ours), _told(statement, numpys)
            if type(expected) is np.ndarray:
                assert type(found) is oxinp.ndarray
                assert_same(found, expected)
            else:
                assert_same(found, expected) if isinstance(expected, np.generic) else found is expected
            assert [each[:2] for each in heard] == [each[:2] for each in expected_heard]
            for name, value in numpys.items():
                if type(value) is np.ndarray:
                    assert_same(ours[name], value)


@pytest.mark.parametrize(
    "statement",
    [
        *("np.copyto(a, b)", "np.copyto(a, b, where=m)", "np.put(a, k, b)", "np.putmask(a, m, b)"),
        *("np.place(M, M > 1, a)", "np.clip(a, 0, 1, out=a)", "np.dot(S, S, out=S)", "M.sum(axis=0, out=L[0, :4])"),
    ],
)
def test_no_function_of_ours_is_entered(statement):
    assert entered_by(statement) == []


def test_references_are_given_back():
    with config.override(offload_threshold=65536):
        names = given(oxinp)
        for statement in STATEMENTS:
            _told(statement, names)
        watched = [names["a"], names["b"], names["m"], names["a"]._held, names["a"]._seen, names["b"]._seen, None]
        before = [sys.getrefcount(each) for each in watched[:-1]]
        for _ in range(50):
            for statement in STATEMENTS:
                _told(statement, names)
        after = [sys.getrefcount(each) for each in watched[:-1]]
    assert all(x <= y for x, y in zip(after, before, strict=True))


@pytest.mark.parametrize("make", [oxinp.copy, lambda x: x[::-1], lambda x: x[1:-1]])
def test_what_is_written_to_is_returned(make):
    with config.override(offload_threshold=65536):
        a = oxinp.arange(9.0)
        out = make(a)
        for _ in range(3):
            for name, given in (("clip", (0.5, 0.6)), ("cumsum", ()), ("round", (1,)), ("take", ([0] * len(out),))):
                assert getattr(oxinp, name)(out * 2, *given, out=out) is out
                assert getattr(out, name)(*given, out=out) is out


def test_views_and_copies_see_what_is_written():
    with config.override(offload_threshold=65536):
        a = oxinp.arange(7.0)
        view, copy = a[1:4], a.copy()
        later = a + 1
        for _ in range(3):
            oxinp.copyto(view, 9.0)
            oxinp.put(a, [0, 6], [5.0, 4.0])
            oxinp.putmask(a, a == 4, 8.0)
        assert_same(a, np.array([5.0, 9, 9, 9, 8, 5, 8]))
        assert_same(copy, np.arange(7.0))
        assert_same(later, np.arange(7.0) + 1)


@pytest.mark.skipif(config.backend == "host", reason="there is no device")
def test_what_the_device_has_is_written_to_as_well():
    with config.override(offload_threshold=64):
        a = oxinp.arange(64.0) * 2
        oxinp.evaluate(a)
        with config.override(offload_threshold=65536):
            for number in range(3):
                np.asarray(a)
                b = a * 3
                oxinp.putmask(a, a > 100 - number, -1.0)
                assert float(b[63]) == (378.0 if not number else -3.0)
        expected = np.arange(64.0) * 2
        expected[expected > 98] = -1
        assert_same(a, expected)

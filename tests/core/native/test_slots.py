"""Slots in machine code: what they do is what the methods in Python do, which is what NumPy does."""

import gc
import inspect
import operator
import pickle
import re
import subprocess
import sys
import threading
import tracemalloc
import warnings
from types import FunctionType

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.native import counting, install, objects
from tests.comparator import assert_same

pytestmark = pytest.mark.usefixtures("usual_threshold")
needs_slots = pytest.mark.skipif(not objects.ARE_KNOWN, reason="this Python's objects are laid out in another way")


def _listed(text):
    """Return statements that semicolons tell apart."""
    return [each.strip() for each in re.split(r";\s", text)]


READS = _listed(
    """
    a[2]; a[-1]; a[1:3]; a[::-2]; a[4:1]; a[1:5][1:3]; M[1]; M[1, 2]; M[-1, -2]; M[:, 1]; M[1:, ::2]; M[1][2]; M[()];
    M[...]; M[None]; M[1, ...]; M[True]; a[99]; M[1, 9]; M[1, 2, 3]; Z[()]; Z[0]; E[0:2]; a[a > 2]; a[[1, 2]];
    L[3, 4]; L[3]; L[3, :9]; L[:, 4]; L[3][4:9][1:3]; a[2:1, 3]; a['x']; a[1.5]; h[1:3]; c[1]; m[2]; t[1]; o[1];
    o[1:3]; r[1:3]; T[2]; T[1:, 1]; a[m]; a[k]; M[k]; M[:, 1][q]; a[i]; a[k * 9]; M[m]; L[k]; Z[Z > 2]; a[n];
    M[M > 0]; a[h > 0]; a[np.array(1)]; a[np.array(True)]; a[u]; E[q]; a[q[:0]]; a[k[None]]; r[k]; T[k]; o[k]; c[-k];
    B[B > 0]; D[D > 1]; D[:, 3:9][k]; M[k, k]; M[1, k]; M[k, 2]; M[:, k]; M[1:, k[:2]]; M[k, 1:3]; M[k, None];
    M[..., k]; D[:, k]; D[2:9, k]; D[k, :];
    D[D[:, 0] > 0, 3]; M[q, q]; M[q, 0]; M[k, 9]; M[k, k[:2]]; M[Z, k]; T[k, 0]; T[:, q]; L[k, 3]; L[:5, k]; M[k, i];
    o[k,];
    D[:, k].T; D[k, k].flags.owndata; C[:, k] + 1; M[m, 0]; M[k, 1.5]; M[k, True]; M[None, k]; D[k, :][1];
    B[(B * 9).astype(int)]; D[D[:, 0] > 0]; L[L[:, 0] > 0]; a[None]; Z[None]
    """
)
EXPRESSIONS = _listed(
    """
    a + b; a - b; a * b; a / b; a // b; a % b; i & i; i | 3; 3 ^ i; ~i; m & m; -a; abs(-a); a + 2; a * 2.0; 2.0 - a;
    1 / b; a * 0.0; a + -0.0; 0 - a; a * x; x * a; i * 2; i * 2.5; i * x; i + 2**40; i + 2**70; a + 2**70; h * 2.0;
    h * 70000; h + x; c * 2; c + a; a + 1j; a + True; m + 1; m * 2.5; a + M[0, :1]; M + a[:4]; M + b[:3];
    M * M[:, :1]; a + Z; Z + Z; a > b; a == 2.0; a != b; 2 < a; i >= 3; m == m; a == 'x'; t == t; t + t; a == None;
    M @ M.T; M @ a[:4]; a[:3] @ M; a @ b; M @ M; a @ 2; Z @ a; M.T @ M; M[None] @ M.T; i @ i; np.sqrt(a); np.exp(b);
    np.maximum(a, b); np.minimum(a, 2.5); np.maximum(3, i); np.add(a, 1); np.sqrt(Z); np.maximum(a, M); np.sqrt(m);
    np.hypot(a, b); np.ldexp(a, 2); np.ldexp(a, 2.0); np.maximum(a, 2); np.isnan(a); np.equal(a, b); np.sin(c);
    np.tanh(x); np.sqrt(-x); np.exp(0.5); np.sqrt(a[0]); np.log(0.0); v == v[1]; v + v[1]; i * v[1]; a > m[1]; L + L;
    L[3, :6] + a; L[3, :6] @ a; L * 2; a * K; K[:, :1] + a; o + o; o * 2; a + [1, 2]; a + r; T @ M; a**2;
    divmod(a, b); np.sqrt(a, dtype='f4'); np.add(a, b, out=None); i**2; m**2; c**2; a**3; a**0.5; 2**i; i**-1; L**2;
    pow(a, 2); pow(a, 2, 3); Z**2; o**2; u**2; M * M[:1]; M[:, :1] - M[:1]; M[:, :1] * a[:5]; M[:, :1] + a[None];
    K[:, None, :] - K[None]; E + M[:1, :3]; M[:, :1] * 2.0; np.maximum(M[:, :1], M[:1]); np.exp(M[:, :1]);
    np.minimum(M[:, :1], 0); M[:, :1] > M[:1]; x * M[:, :1]; c[:, None] * c; np.add(K[:, :1], i);
    K[:, :1] + K[:, :1].T; L[:, :1] + L[:1]; M[:, :1] + Z; D @ D[0]; D[:, 0] @ D; D @ a; D @ i[:1]; D.T @ D[:, 1];
    C * C; C[:, :1] * C[0]; 1j * C; a - 1j * a; B * 1j; 1j * f; i - 1j; np.exp(C[:30]); C / C; C**2; -C; C == C;
    C + D[:50, :60]; C.sum(); C.copy();
    np.add(C, 1j); np.maximum(1j, C); c * (2 + 1j); v[1] * C; np.complex128(1j) * C; np.complex128(1j) * a;
    i << 2; i >> i; 3 << i; U << 1; U >> U; m << m; a << 1; U << 300; i << 70; B[:900] ** 3; B[:900] ** 0.5;
    U**3; np.hypot(B[:3000], 2.0);
    np.arctan2(B[:3000], B[3000]); np.remainder(D, 0.7); np.floor_divide(a, b); np.left_shift(U, U); np.hypot(C, C);
    B[:20] ** a[0];
    U + U; U != U[::-1]; U + 3; U & 7; B / B; B % 0.7;
    B @ B; B[1:3000] @ B[:2999]; B @ B[1:]; D[0] @ Z; D[None] @ D[0]; B[1:] - B[:-1]; D - D[0]
    """
)
CALLS = _listed(
    """
    np.copysign(x, a[0]); np.sqrt(2); np.sqrt(-1); np.maximum(a[0], 1); np.add(1, 2.0); np.less(a[0], i[1]);
    np.add(2**70, 1); np.add(2**63, 1); np.divide(1, 0); np.divide(x, 0.0); np.bitwise_and(1, 2.0); np.power(2, -1);
    np.copysign(h[0], x); np.add(f[0], 1.5); np.add(c[0], 1); np.add(True, x); np.hypot(u[0], v[1]); np.add(u[3], 300);
    np.count_nonzero(G); G.any(); np.all(G); G.sum(); np.cumsum(G)[-1]; G[:9].argmax();
    a.copy(); M.copy(); M[:, :1].copy(); T.copy(); a.copy('F'); L.copy(); o.copy(); Z.copy(); E.copy(); a.astype(int);
    i.astype(float); a.astype('f4'); c.astype(float); b.astype(bool); m.astype(np.uint8); (a * 1e300).astype('f4');
    a.astype(np.dtype('i2')); t.astype(int); a.astype(a.dtype); a.astype('x'); a.reshape(2, 3); a.reshape(3, -1);
    a.reshape((2, 3)); T.reshape(12); M.reshape(4, 3).T; a.reshape(4, 4); a.reshape(2, 3)[1]; M.reshape(-1);
    a.reshape([2, 3]); a.reshape(2, 3, order='F'); E.reshape(0); r.reshape(5, 1); M.ravel(); T.ravel(); Z.ravel();
    M.ravel('F'); M[:, 1].ravel(); M.T; a.T; Z.T; T.T; M.T[1]; M.transpose(); M.transpose(1, 0); M[None].T;
    M.T.reshape(12)[2:]; M.T.reshape(-1).base is None; M.T.ravel().base is None; M[:, ::2].reshape(6); T[::-1].ravel();
    (lambda part: (part.__setitem__(0, 9.0), M))(M.T.reshape(12)); D.T[3]; D.T.reshape(70 * 60)[5:9]; D.reshape(-1)[7];
    np.flip(a); np.flip(M); np.flip(D)[0]; np.flip(Z); np.flip(M[None])[0]; np.flip(M[None, None]); np.flip(o);
    (lambda part: (part.__setitem__((0, 0), 9.0), M))(np.flip(M)); np.flip(M, 0); np.ravel(M.T); np.reshape(M, (4, 3));
    np.reshape(D, -1)[5]; np.reshape(M, 5); np.swapaxes(M, 0, 1); M.swapaxes(0, -1); M.swapaxes(0, 7);
    M.swapaxes(0.5, 1); np.transpose(D)[2]; np.transpose(M, (1, 0)); B.reshape(50, 100).T;
    np.broadcast_to(a, (2, 6)).reshape(12);
    r[::2].reshape(3, 1); r.reshape(5, 1).flags.writeable; np.broadcast_to(a, (2, 6)).ravel();
    o.reshape(2, 2).T.ravel(); D.T.ravel().flags.owndata; D.T.reshape(60, 70).base.shape;
    D.T.reshape(4200).flags.owndata;
    (lambda part: (part.__setitem__(0, 9.0), a))(np.flip(a)); (lambda part: (part.__setitem__(0, 9.0), D))(D.T);
    a[1:3].reshape(2, 1); a.argsort(); M.argmax(); a.argmin(); a.argmax(0); E.argmax(); o.argmax(); len(a); len(M);
    len(Z); len(E); len(M.T); len(L[:7]); np.dot(a, b); np.dot(M, a[:4]); np.dot(M, M.T); np.dot(M, M); np.dot(a, 2);
    np.dot(Z, a); np.dot(i, i); np.dot(M[None], M.T); np.dot(o, o); np.dot(a, b, out=None); np.dot(c, c);
    np.dot(m, m); np.zeros(3); np.zeros((2, 3)); np.zeros(3, int); np.zeros((2, 1), dtype='f4'); np.zeros(());
    np.zeros(5000); np.ones(3); np.ones((2, 5), int); np.ones(5000, dtype='u1'); np.zeros((90, 90), bool);
    np.zeros_like(D);
    np.zeros_like(a, int); np.ones(3, 'x'); np.arange(5000); np.arange(100, 7000); np.arange(90_000); np.zeros(9000);
    np.zeros_like(o); np.zeros_like(3); np.zeros_like(T); np.ones(2, order='F'); np.ones(-2);
    np.full(3, 2.5); np.full((2, 3), 7); np.full(3, True); np.full(3, 2**70); np.full(3, -(2**63)); np.full(3, 2**63);
    np.full(3, x); np.full(3, v[1]); np.full(3, 'x'); np.full(3, 1j); np.full(9000, 1.0); np.full(-1, 2);
    np.diag(a, 1); np.diag(a, -2); np.diag(a[:1], 3); np.diag(i, 2); np.diag(a, k=1); np.diag(M, 1); np.diag(a, 1.5);
    np.diag(a, -1)[1:]; np.diag(L[0, :60], 40); np.diag(a[:0], 2); np.repeat(a, 2); np.repeat(M, 3); a.repeat(2);
    np.repeat(a, 0); np.repeat(a, -1); np.repeat(a, 2, axis=0); np.repeat(M, 2, 1); np.repeat(a, k[:1]); np.array(a);
    np.array(M[:, ::2]); np.array(T); np.array(o); np.array(a) + 1; np.array(L).flags.owndata; np.array(M.T);
    np.full(2, np.nan); np.full(3, None); np.full(3, a[:3]); np.full((2, 3), a[:3]); np.full(3, 2, dtype='f4');
    np.full(3, 2.5, int); np.full(3, h[0]); np.full((2, 0), 1); np.full([2, 3], 1); np.full(3, -0.0); np.ones(());
    np.ones((2, 0)); np.ones([2]); np.ones_like(a); np.ones_like(M[:, ::2]); np.ones_like(T); np.ones_like(i);
    np.ones_like(o); np.ones_like(a, int); np.ones_like(3); np.nonzero(M > 1); np.where(M > 1); np.nonzero(a);
    Z.nonzero(); np.nonzero(M[None] > 1); np.nonzero(M > 99); np.where(a > 1)[0] + 1; np.nonzero(M.T); np.full((), 1);
    np.maximum.accumulate(a); np.add.accumulate(M, 1); np.add.reduce(M); np.add.reduce(M, 1); np.add.reduce(a);
    np.add.reduce(E); np.maximum.reduce(E, 1); np.maximum.reduce(B); np.add.accumulate(B); np.add.reduce(M, None);
    np.add.reduce(M, 9); np.add.reduce(a, 'x'); np.subtract.reduce(a); np.add.reduce(c); np.add.reduce(o);
    np.add.outer(a, b); np.add.outer(M, a); np.subtract.outer(B[:80], D[0]); np.multiply.outer(c, a);
    np.less.outer(a, b);
    np.divide.outer(a, np.zeros(2)); np.add.outer(a, 2); np.add.outer(B, B[:3]); np.hypot.outer(a, b);
    np.sqrt.outer(a, b); np.add.outer(a); np.add.outer(E, a); np.add.reduce(np.array([np.inf, -np.inf]));
    np.add.outer(o, o); np.multiply.accumulate(np.array([1e300, 1e300])); np.logical_or.reduce(m);
    np.add.reduce(a, axis=0); np.add.reduce(a, 0, int); np.add.reduce(M, axis=1); np.minimum.reduce(M, axis=0);
    np.add.accumulate(M, axis=1); np.add.reduce(M, axis=(0, 1)); np.add.reduce(M, axis=None); np.add.reduce(M, axis=7);
    np.add.reduce(a, dtype=int); np.add.reduce(M, 1, axis=0); np.add.reduce(axis=0); np.add.reduce(M, array=M);
    np.zeros(True); np.zeros(-1); np.zeros((2, -3)); np.zeros(3, 'x'); np.zeros([2, 2]); np.zeros(9, order='F');
    np.zeros(0); np.zeros((0, 2**50)); np.zeros(3, dtype=a.dtype); np.zeros(2, object); np.zeros();
    np.zeros(4, float, 'F'); np.empty(3).shape; np.empty((2, 3), int).dtype; np.empty_like(M).shape;
    np.empty_like(T).strides; np.empty_like([1]).shape; np.array([1, 2.5]); np.array([1, 2]); np.array([2**70, 1]);
    np.array([2**63]); np.array([]); np.array([1, None]); np.array([[1, 2]]); np.array([True, 2]);
    np.array([[1.0, 2], [3, 4]]); np.array([[1], [2]]); np.array([[], []]); np.array([[1, 2], [3]]);
    np.array([[1, [2]], [3, 4]]); np.array([1, [2]]); np.array([[2**70, 1]]); np.array([[1.0] * 65] * 2);
    np.array([[]]);
    np.array([[a[0], 1], [2, k[0]]]) * M[:2, :2]; np.array([[1.5, 2]]) + np.array([[1.0], [2]]); np.array([[True, 2]]);
    np.array([[0.0] * 60] * 60); np.ascontiguousarray(M.T); np.ascontiguousarray(M); np.ascontiguousarray(Z);
    np.ascontiguousarray(T)[1]; np.ascontiguousarray(a[::2]) + 1; np.ascontiguousarray(o);
    np.ascontiguousarray(D.T)[3]; np.atleast_1d(a); np.atleast_1d(Z); np.atleast_1d(2.5); np.atleast_1d(a, b);
    np.atleast_2d(a); np.atleast_2d(M); np.atleast_2d(Z); np.asarray([1.0, 2]);
    (lambda part: (part.__setitem__((0, 0), 9.0), a))(np.atleast_2d(a)); np.asarray([[1, 2], [3, 4]]);
    np.asarray([a[0], 2]); (lambda part: (part.__setitem__(0, 9.0), M))(np.ascontiguousarray(M.T));
    np.asarray(M, 'f4'); np.asarray([]); np.eye(3); np.eye(3) * 2; np.identity(2); np.eye(0); np.eye(-1);
    np.eye(3, 2); (np.eye(2).__setitem__(0, 7.0), np.eye(2)); np.eye(2.0); np.eye(40); np.eye(True);
    np.eye(3, dtype=int);
    np.array([1, 2], 'f4'); np.array((1, 2)); np.array([a[1], 2]); np.array(a); np.arange(5); np.arange(2, 5);
    np.arange(5, 2); np.arange(-3); np.arange(2.5); np.arange(1, 9, 2); np.arange(0); np.arange(2**70, 2**70 + 2);
    np.arange(True); np.arange(5, dtype='f4'); np.asarray(a) is a; np.asarray(a, int); np.where(m, a, b);
    np.where(a > b, a, i); np.where(m, a, 0); np.where(M > 0, M, a[:4]); np.where(m, a, M); np.where(m);
    np.where(m, 2, -1); np.where(m, a, 0.5); np.where(m, x, a); np.where(m, 2**70, a); np.where(m, t, a);
    np.where(B > 0, B, 0.0); np.where(D > D[0], D, D[:, :1]); np.where(B > 0, 1, 0); np.where(U > 9, U, B);
    np.where(C == C, C, 0); np.where(C.real > 0, C, D[:50, :60]); np.where(B > 0, B[:1], B); C.copy();
    C.astype(complex);
    np.where(M[:, :1] > 0, M, M[:1]); np.where(L > 0, L, L); np.where(m, o, o); np.where(Z, a, b);
    np.concatenate((a, b)); np.concatenate([a, i, h]); np.concatenate((M, M)); np.concatenate((M, a));
    np.concatenate(()); np.concatenate([a, 2]); np.concatenate((a, b), 0); np.concatenate([M, M], axis=1);
    np.concatenate([a] * 9); np.concatenate(a); np.concatenate((L, L)); np.concatenate((o, a));
    np.concatenate((t, t)); np.concatenate((Z, Z)); np.concatenate((E, E));
    (lambda part: (part.__setitem__(0, 9.0), a))(a.reshape(2, 3)); (lambda part: (part.__setitem__(0, 9.0), M))(M.T);
    (lambda part: (part.__setitem__(0, 9.0), T))(T.ravel()); (lambda part: (part.__iadd__(1), a))(a.copy());
    np.outer(a, b); np.outer(i, a); np.outer(M, a); np.outer(B, B[:3]); np.outer(m, m); np.outer(c, a); np.outer(a, 2)
    """
)
WRITES = _listed(
    """
    a[2] = 7; a[-1] = 2.5; a[1:3] = b[1:3]; a[1:3] = 0.5; a[:] = 1; a[...] = b; a[99] = 1; M[1] = M[0]; M[1, 2] = x;
    M[:, 1] = a[:3]; M[1] = a[:4]; M[1] = a[:3]; M[1:, 1:] -= M[:2, :3]; a += b; a -= 2; a *= x; a /= b; i &= 3;
    i += 2; i += 2.5; m |= m; a[1] += 5; M[1, 2] *= 3; M[1] -= M[0] * 2; i[2] = 3; i[2] = 2.5; i[1] = 2**70;
    h[1] = 70000; h[:] = 1e300; m[1] = 2; c[1] = 1j; a[1] = 1j; t[1] = 'xyz'; o[1] = 5; r[1] = 2; r += 1; r[1:3] = 0;
    a[2:] = a[:4]; a[::-1] = a; L[3, 4] = 1; L[3] = L[4]; L[3, :9] = L[4, :9]; L[:, 2] = 0.0; L[3, :5] *= 2; L[:] = 0;
    Z[()] = 3; Z += 1; E[:] = 1; a[1:2] = b[3]; a[1] = b[1:2]; a[1] = Z; T[1] = 5; T[0] -= T[1]; K[0, :3] = i[:3];
    del a[1]; f[1] = 0.1; f[1:] = 0.1; f[2] = x; f += 0.1; f += x; a += f; f += a; u[1] = 300; u += 300; u[1] = -1;
    a[m] = 0; a[k] = 1.5; a[k] = b[:3]; a[m] = b[m]; a[m] *= 2; a[k] += 1; M[k] = 0.0; M[k] = M[0]; a[k] = a;
    a[i] = 1; a[a > 1] = x; i[m] = 2.5; a[n] = 3; r[k] = 1; T[k] = 2; L[k] = 0; a[m] = a[::-1][m]; h[n[:5]] = 2;
    M -= M[:, :1]; M *= M[:1]; M[:, :1] -= M; a += a[:1]; M += Z; M[:, :1] += 2; u += u[:1]; L -= L[:, :1];
    U[:6] = m; U[:] = B > 0; i[:] = U[250:256]; i[::2] = m[::2]; u[:] = i * 100; m[:] = i % 2; f[:] = i[:5];
    a[:] = f[0]; M[k, k] = 1; M[1, k] = a[:3]; M[k, 2] = i[:3]; D[:, k] = 0; D[D[:, 0] > 0, 3] = 5; M[k, 9] = 1;
    T[k, 0] = 7;
    M[k, k] = b[:2]; M[q, 0] = 3; L[k, 3] = a[:3]; L[3, k] *= 2; M[..., k] = 1; M[k, None] = 2; r[k, ] = 1;
    M[k, k] += 1;
    D[1:, k][2] = 9; M[m, 0] = 1; M[k, M[0, :3] > 0] = 3; M[k, 'x'] = 1; o[k, ] = 3; C[k, 2] = a[:3];
    D[k, k] = D[0, :3];
    a[:5] = f; c[:] = a[:4]; c[1:] = f[:3]; f[:] = a[:5]; i[:] = a; a[:4] = c; h[:] = i[:5]; m[:] = a;
    v[:] = i[:4] * 99;
    a[:] = h[0];
    B[:] = U; C[:] = D[:50, :60]; C[0] = U[:60]; D[3] = U[:70]; U[k] = i[:3]; a[m] = i[m]; a[1] = Z * 2; L[2] = i[0];
    np.add(a, b, out=a); np.sqrt(B * B, out=B); np.minimum(M, M[0], out=M); np.exp(a, out=b); np.multiply(2, D, out=D);
    np.add(a, M, out=a); np.add(a, b, out=i); np.add(i, i, out=a); np.add(a[1:], 1, out=a[:-1]); np.add(a, x, out=r);
    np.sqrt(-B, out=B); np.divide(a, 0, out=a); np.add(a, b, out=3); np.add(a, out=b); np.add(a, b, out=(a,));
    np.add(2, 3, out=Z);
    np.greater(a, b, out=m); np.add(a, b, out=None); np.add(U, U, out=U); np.multiply(C, 1j, out=C);
    np.add(a, 'x', out=a);
    np.maximum(M[0, :3], a[:3], out=M[1, :3]); np.negative(o, out=o); np.add(a, b, out=a, where=m);
    np.add(a, [1], out=a); np.multiply(c, c, c); np.sqrt(B, B); np.maximum(a, b, a); np.negative(a, a); np.add(a, a, i);
    np.add(a, b, 3); np.add(M, M[0], M); np.add(a, M, a); np.add(2, 3, Z); np.add(2, a, b); np.exp(a, a, a);
    np.add(a, b, r);
    np.add(a[1:], 1, a[:-1]); np.divide(a, b, out=a, where=a > b); np.divide(M, M[0], out=M, where=M > 1);
    np.add(a, 1, out=a, where=True); np.sqrt(a, out=b, where=m[0]); np.add(a, b, where=a < b, out=a);
    np.add.at(a, [1, 2, 1], 1.0); np.add.at(M, (k, k), b[:2]); np.add.at(a, k, b[:2]); np.add.at(a, [1.5], 1);
    np.add.at(a, [9999], 1); np.add.at(a, k, 'x'); np.add.at(o, k, 1); np.maximum.at(a, [1, 2], [3.0, 0.0]);
    np.add.at(a, slice(2), 1); np.add.at(a, k, o[:2]); np.add.at(r, k, 1); np.add.at(a, (), 1); np.add.at(a, None, 1);
    np.place(f, f > 1, [1, 2]); np.put(i, [0, 1], [1.5, 2]); np.put(h, [0, 1], [1, 300]);
    np.putmask(f, f > 1, [1, 2]);
    np.put(a, (0, 1), (3, 4)); np.put(M, 5, 2.0); np.put(a, k, b[:2]); np.put(a, [1e9], 1); np.place(m, m, [0]);
    np.add(a, b, out=a, where=i); np.add(a, b, out=a, where=[True]); np.add(a, 1, out=r, where=a < b);
    np.divide(a, 0, out=a, where=a > b); np.add(a, 1, out=a, where=M > 1); np.add(a, 1, out=a, dtype='f8');
    np.add(a[:5], 2**70, out=r); np.add(Z, Z, out=Z); np.multiply(L, 2.0, out=L); np.add(E, 1, out=E); np.add(a, b, a);
    i //= 4; i %= 3; a //= 0.5; a %= b; i <<= 2; i >>= 1; U <<= 1; U //= 3; U %= 0; D %= 0.7; D //= D[0]; a <<= 1;
    U >>= 300; m <<= 1; i //= 2.0; i //= 0; a //= 0.0;
    a[1:3] = 'x'; a[0:2] = [5, 6]; a[1], a[2] = a[2], a[1]; a += a[::-1]; a += M; a += 1j; i /= 2;
    B[1:-1] = 0.5 * (B[2:] + B[:-2]); B += B; B -= 2; B /= B[:1]; D -= D[:, :1]; D[:, 2] = D[:, 3]; B[B > 0] = 0;
    D *= D; D += c[0]; D[D > 0] *= 2; B[1:] = B[:-1]; B += a; D[1:, 1:] -= D[:-1, :-1]; D[:, None] = 1
    """
)


@pytest.fixture
def usual_threshold():
    with config.override(offload_threshold=65536):
        yield


def given(xp):
    """Return what the statements are about, the same for both libraries."""
    random = np.random.default_rng(5)
    numbers = {
        "a": random.normal(size=6) * 3,
        "b": random.normal(size=6),
        "M": random.normal(size=(3, 4)),
        "L": random.normal(size=(150, 150)),
        "K": random.normal(size=(40, 6)),
        "Z": np.array(2.5),
        "E": np.zeros((0, 3)),
        "i": np.arange(1, 7),
        "k": np.array([2, 0, 1]),
        "n": np.array([1, 1, -2, 0, 1]),
        "q": np.array([[0, 1], [2, 0]], dtype=np.int32),
        "u": np.arange(6, dtype=np.uint8),
        "v": np.array([1, 2, 120, 2], dtype=np.int8),
        "h": random.normal(size=5).astype(np.float16),
        "f": random.normal(size=5).astype(np.float32),
        "c": random.normal(size=4) + 1j,
        "B": random.normal(size=5000),
        "C": random.normal(size=(50, 60)) + 1j,
        "U": np.arange(5000).astype(np.uint8),
        "D": random.normal(size=(60, 70)),
        "m": np.arange(6) % 2 == 0,
        "G": np.arange(20_000) % 3 == 0,
        "t": np.array(["a", "bc", "d"]),
        "o": np.array([1, None, "x", (2,)], dtype=object),
    }
    names = {name: xp.array(value) for name, value in numbers.items()}
    names["r"] = xp.array(numbers["a"])[:5]
    names["r"].flags.writeable = False
    names["T"] = xp.array(numbers["M"]).T
    return {"np": xp, "x": np.float64(1.25), **names}


def outcome(xp, run):
    """Return what a statement gives: its value, or what it raises; what it warns of, and all arrays afterwards."""
    names = given(xp)
    for each in (names["a"], names["M"], names["L"]):
        each[0]
        each[1:2]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = run(names)
        except Exception as error:  # noqa: BLE001 - which is compared
            value = type(error)
    arrays = {name: each for name, each in names.items() if isinstance(each, xp.ndarray)}
    return value, [(str(each.message), each.filename, each.lineno) for each in caught], arrays


def assert_same_outcome(run):
    found, told, arrays = outcome(oxinp, run)
    expected, warned, numpys = outcome(np, run)
    assert told == warned
    assert (found is NotImplemented) == (expected is NotImplemented)
    if isinstance(expected, type):
        assert found is expected
    else:
        assert isinstance(found, oxinp.ndarray) == isinstance(expected, np.ndarray)
        assert_same(found, expected)
    for name, each in numpys.items():
        if each.dtype != object:
            assert_same(arrays[name], each)


@pytest.fixture(params=[True, False], ids=["machine code", "Python"])
def slots(request):
    with config.override(machine_code=request.param):
        yield request.param


@pytest.mark.parametrize("text", READS + EXPRESSIONS + CALLS)
@pytest.mark.usefixtures("slots")
def test_expressions_are_numpys(text):
    code = compile(text, "users.py", "eval")
    assert_same_outcome(lambda names: eval(code, names))  # noqa: S307 - our own text


@pytest.mark.parametrize("text", WRITES)
@pytest.mark.usefixtures("slots")
def test_statements_are_numpys(text):
    code = compile(text, "users.py", "exec")
    assert_same_outcome(lambda names: exec(code, names))  # noqa: S102 - our own text


def calls_of_ours(text):
    """Return how many functions of ours Python enters for a statement, once everything has been met."""
    names = given(oxinp)
    code, count = compile(text, "users.py", "exec"), 0

    def note(frame, event, _):
        nonlocal count
        file = frame.f_code.co_filename
        count += event == "call" and "oxinp" in file and not file.endswith("leaner.py")  # what stands for NumPy's

    for _ in range(40):
        exec(code, names)  # noqa: S102
    sys.setprofile(note)
    try:
        exec(code, names)  # noqa: S102
    finally:
        sys.setprofile(None)
    return count


@needs_slots
@pytest.mark.parametrize(
    "text",
    _listed(
        """
    a[2]; a[1:3]; M[1]; M[1, 2]; M[:, 1]; a + b; a * 2.0; 2.0 - a; a / b; -a; a > 2; i & 3; M @ M.T[:, :2];
    np.sqrt(a * a); np.maximum(a, 0.5); a[2] = 7; a[1:3] = b[1:3]; a += b; M[1] -= M[0]; L[3, 4]; L[3, :9] = L[4, :9];
    L[3, :9] -= 1.5; M[1, 2] -= x; a * x; i * 2; x * a; x - M; a**2; M * M[:, :1]; M - M[0]; M[:, :1] > M[:1];
    np.maximum(M[:, :1], M); M -= M[:, :1]; a[m]; a[k]; a[k] = 1.5; a[m] = 0; M[k]; M[k] = M[0];
    C * C; C[:, :1] * C[0]; 1j * C; a - 1j * a; B[:3000] * 1j; np.exp(C[:30]); np.add(C, 1j); C += C; U + U; U != U;
    np.add(a, b, out=a); np.sqrt(B * B, out=B); np.minimum(M, M[0], out=M); np.exp(a, out=b); np.multiply(2, D, out=D);
    M[k, k]; M[1, k]; D[:, k]; D[2:9, k]; M[k, None]; M[k, 2] = 1.5; D[k, 3] = a[:3]; D[D[:, 0] > 0, 3] = 2;
    U[:] = B > 0; i[:] = m; a[:] = i; C[0] = U[:60]; a[m] = i[m];
    i << 2; U >> U; i >>= 1; i //= 4; a %= 0.7; B[:4000] ** 3; (B * B)[:4000] ** 0.5; np.hypot(B[:3000], 2.0);
    np.arctan2(B[:3000], B[:1]); np.remainder(D[:50], 0.7);
    np.copysign(x, a[0]); np.sqrt(2); np.maximum(a[0], 1); np.add(1, 2.0); np.less(a[0], i[1]);
    U & 7; U == 3; B / B; np.sqrt(B * B); np.exp(B[:4000]); np.complex128(1j) * C; np.complex128(1j) * a; U += U;
    B[1:-1] = 0.5 * B[2:]; B += B; D -= D[:, :1]; D @ D[0]; D[0, :60] @ D; B[B > 0]; B[B > 0] = 0; a[None];
    a[np.int64(2)]; M[np.int64(1)]; M[1, np.int64(2)]; M[:, np.int64(2)]; a[np.int64(2)] = 7; M[np.int64(1), 2] = 7;
    a[[0, 2]]; M[[0, 1]]; M[:, [0, 2]]; M[[0, 1]] = M[[1, 0]]; a[[0, 2]] = 1.5; M[[0, 1], :] = M[[1, 0], :];
    D[[3, 1]] = D[[1, 3]]; C[:, [2, 0, 1]]
    """
    ),
)
def test_no_function_of_ours_is_entered(text):
    numbers = [calls_of_ours(text) for _ in range(3)]  # one view in so many of a large array is weighed
    assert min(numbers) == (1 if ".T" in text and objects.VECTORCALL is None else 0)


@needs_slots
@pytest.mark.skipif(objects.VECTORCALL is None, reason="this Python's functions cannot be called by other code")
@pytest.mark.parametrize(
    "text",
    _listed(
        """
    a.copy(); a.astype('f4'); i.astype(float); a.reshape(2, 3); a.reshape((3, 2)); M.ravel(); M.T; M.transpose();
    np.where(B > 0, B, 0.0); np.where(D > D[0], D, D[:, :1]); np.where(U > 9, U, U); C.copy(); B.astype(int);
    np.empty_like(C); D.T; D.reshape(-1); D.T.reshape(4200); D.T.ravel(); np.flip(B); np.reshape(D, (70, 60));
    D.swapaxes(0, 1); C.real; C.imag; np.real(C); np.imag(c); M.transpose(1, 0); D.transpose((1, 0));
    np.transpose(D, (1, 0)); np.transpose(D, axes=(1, 0)); np.expand_dims(a, 1); np.expand_dims(B, axis=0);
    np.squeeze(M[None]); M[None].squeeze(); np.squeeze(M[:1], axis=0); np.fliplr(D); np.flip(D, axis=0);
    np.moveaxis(D, 0, 1); np.rot90(M); np.rollaxis(D, 1); M.diagonal(); D.diagonal(1); np.diagonal(M, offset=1);
    a.view(); a.squeeze(); np.squeeze(a);
    a.argsort(); a.argmax(); len(a); np.dot(a, b); np.dot(M, a[:4]); np.zeros(3); np.zeros((2, 3), int);
    np.maximum.accumulate(a); np.add.reduce(D, 1); np.add.accumulate(B);
    np.minimum.reduce(D, axis=1); np.add.outer(a, b);
    np.maximum.outer(B[:80], D[0]);
    np.zeros(5000); np.ones(5000, np.int32); np.zeros_like(D); np.arange(5000);
    np.zeros(3, dtype='f4'); np.empty((2, 1)); np.empty_like(a); np.array([1.0, 2]); np.arange(5); np.arange(2, 5);
    np.asarray(a); np.eye(2); np.ascontiguousarray(M.T); np.ascontiguousarray(D); np.atleast_1d(a); np.atleast_2d(D);
    np.atleast_2d(a); np.asarray([1.0, 2.0]); np.array([[1.0, 0], [a[0], 2]]);
    np.where(m, a, b); np.where(v == v[0], 2, -1); np.tanh(x); np.concatenate((a, b));
    np.concatenate([a, b, i]); np.zeros(3, np.float64); np.outer(a, b);
    np.count_nonzero(G); G.any(); np.all(G)
    """
    ),
)
def test_no_function_of_ours_is_entered_by_calls(text):
    assert not calls_of_ours(text)


@needs_slots
def test_what_is_no_other_view_is_the_array_itself():
    for given in (oxinp.arange(6.0).reshape(2, 3), oxinp.arange(6.0)[1:], oxinp.array(2.0).reshape(())):
        for same in (np.squeeze, oxinp.squeeze, lambda x: x.squeeze(), lambda x: x.real, oxinp.real):
            for _ in range(3):
                assert same(given) is given


@needs_slots
@pytest.mark.parametrize("text", ["list(a)", "list(M)", "sum(D)", "max(B)"])
def test_no_function_of_ours_is_entered_at_each_step(text):
    assert calls_of_ours(text) <= 2


def test_functions_stay_what_they_are():
    oxinp.ones(3)
    for function in (oxinp.dot, oxinp.zeros, oxinp.ndarray.copy):
        assert type(function) is FunctionType
        assert pickle.loads(pickle.dumps(function)) is function  # noqa: S301 - our own
    assert str(inspect.signature(oxinp.zeros)) == str(inspect.signature(np.zeros))
    with pytest.raises(TypeError):
        oxinp.zeros(3, 4, 5, 6, 7)


@needs_slots
def test_setting_changes_slots_at_once():
    oxinp.ones(3)
    assert install.is_installed(oxinp.ndarray)
    with config.override(machine_code=False):
        assert not install.is_installed(oxinp.ndarray)
        assert calls_of_ours("a + b")
    assert not calls_of_ours("a + b")


@needs_slots
def test_without_executable_pages_python_does_it(monkeypatch):
    with config.override(machine_code=False):
        monkeypatch.setattr(counting, "mapped", lambda _: None)
        natives = install.Natives(oxinp.ndarray, {})
        natives.follow(is_used=True)
        natives.write_all()
        assert not natives.is_followed()
        assert float((oxinp.ones(3) + 1).sum()) == 6.0


def test_methods_that_are_replaced_are_called(monkeypatch):
    a = oxinp.arange(4.0)
    a[1:2]
    called = []

    def replaced(_, other):
        called.append(other)
        return NotImplemented

    with monkeypatch.context() as patch:
        patch.setattr(oxinp.ndarray, "__and__", replaced)
        with pytest.raises(TypeError):
            a & 1
    assert called == [1]
    install.install(oxinp.ndarray)  # Python has set the slot, which later tests are to find as it was


def test_users_classes_keep_their_operators():
    class Metres(oxinp.ndarray):
        def __radd__(self, other):
            return "reflected"

        def __getitem__(self, key):
            return "part", key

    a, b = oxinp.arange(3.0), oxinp.arange(3.0).view(Metres)
    assert operator.add(a, b) == "reflected"
    assert b[1] == ("part", 1)
    assert type(b * 2.0) is Metres
    assert type(a[1:]) is oxinp.ndarray


def _statements(names):
    a, b, M, L, i, k, x = (names[name] for name in "abMLikx")
    a**2, M * M[:, :1], M[:, :1] - M[:1], a[k], a[a > 2], oxinp.maximum(M[:, :1], M)
    a[k], a[a > 1] = b[:3], 0.5
    M -= M[:, :1]
    a + b, a * 2.0, 2.0 - a, a / b, -a, a > b, a == 2.0, M @ M.T, a @ b, oxinp.sqrt(b * b), oxinp.maximum(a, 0.5)
    a.copy(), i.astype(float), a.reshape(2, 3), a.reshape((3, 2))[1], M.ravel(), M.T, M.T.ravel(), a.argmax(), len(a)
    oxinp.dot(a, b), oxinp.zeros(3), oxinp.zeros((2, 3), dtype=int), oxinp.empty_like(a), oxinp.array([1.5, 2])
    oxinp.arange(5), oxinp.asarray(a), oxinp.where(a > b, a, b), oxinp.concatenate((a, b, i)), a.astype("f4")
    a[1], a[1:4][1:2], M[1], M[1, 2], L[3, :9], L[3, 4], i & i, ~i, x * a, a * x
    a[2], a[1:3], L[3, :9], L[3, 5], M[0] = 7, b[1:3], L[4, :9], 2.0, M[1]
    a += b
    a -= b
    M[1, 2] += 2.0
    for wrong in (
        lambda: a + M,
        lambda: a[99],
        lambda: a @ M,
        lambda: operator.setitem(a, 99, 1.0),
        lambda: a[k * 9],
        lambda: a.reshape(4, 4),
        lambda: oxinp.dot(M, M),
        lambda: oxinp.concatenate((M, a)),
    ):
        with pytest.raises((ValueError, IndexError)):
            wrong()


def test_nothing_is_kept_or_given_back_twice():
    names = given(oxinp)
    watched = [
        names["a"],
        names["M"],
        names["L"],
        names["x"],
        names["k"],
        names["k"]._seen,
        names["a"]._seen,
        None,
        ...,
        float,
        oxinp.ndarray,
        np.ndarray,
    ]

    def run(times):
        for _ in range(times):
            _statements(names)
        gc.collect()
        return tracemalloc.get_traced_memory()[0], [sys.getrefcount(each) for each in watched]

    tracemalloc.start()
    try:
        run(100)
        before, counts = run(10)
        after, again = run(500)
    finally:
        tracemalloc.stop()
    assert after - before < 50_000
    assert all(abs(x - y) < 100 for x, y in zip(counts, again, strict=True))


def test_threads_see_whole_writes():
    a, stop, wrong = oxinp.zeros(400), threading.Event(), []

    def read():
        while not stop.is_set():
            found = a[:].copy()
            if float(found.min()) != float(found.max()):
                wrong.append(found)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for each in readers:
        each.start()
    for i in range(3000):
        a[:] = float(i)
        a += 1.0
    stop.set()
    for each in readers:
        each.join()
    assert not wrong


@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize("shape", [(150, 160), (24000,)])
def test_elements_of_what_the_device_has_a_copy_of(shape):
    """What is written on the host is what the device computes with next."""
    random = np.random.default_rng(3)
    numpys = random.normal(size=shape)
    ours = oxinp.array(numpys)
    for _ in range(4):
        for key in random.integers(0, min(shape), size=(30, len(shape))):
            place = tuple(int(each) for each in key) if len(shape) > 1 else int(key[0])
            numpys[place] = ours[place] = random.normal()
            assert ours[place] == numpys[place]
        numpys[(-1,) * len(shape)] = ours[(-1,) * len(shape)] = 2.0
        with pytest.raises(IndexError):
            ours[shape[0] if len(shape) == 1 else (0, shape[1])] = 1.0
        assert_same(ours * 2 + 1, numpys * 2 + 1)


WRITES_BESIDE_A_COPY = _listed(
    """
    a += b; a *= 2.0; a[3] = 7.0; a[5:900] = b[5:900]; a[...] = 1.0; a[b > 0] = -1.0; a[[1, 2]] = b[:2]; a[::2] *= 3.0;
    np.add(a, b, out=a); np.negative(b, out=a)
    """
)


@pytest.mark.usefixtures("slots")
@pytest.mark.parametrize("statement", WRITES_BESIDE_A_COPY)
def test_writes_to_a_small_array_that_the_device_has_a_copy_of(statement):
    """What was recorded before reads what had been there."""
    random = np.random.default_rng(5)
    numpys = {"M": random.normal(size=(200, 1000)), "a": random.normal(size=1000), "b": random.normal(size=1000)}
    ours = {name: oxinp.array(value) for name, value in numpys.items()}
    for _ in range(3):
        before, expected = ours["M"] @ ours["a"], numpys["M"] @ numpys["a"]
        storage = ours["a"]._held
        assert storage.value is not None
        assert storage.host is not None
        exec(statement, {"np": np}, numpys)  # noqa: S102 - our own text
        exec(statement, {"np": oxinp}, ours)  # noqa: S102
        assert storage.value is None
        assert_same(ours["a"], numpys["a"])
        np.testing.assert_allclose(np.asarray(before), expected, rtol=1e-10)
        np.testing.assert_allclose(np.asarray(ours["M"] @ ours["a"]), numpys["M"] @ numpys["a"], rtol=1e-10)


@needs_slots
@pytest.mark.parametrize("slots", [True], indirect=True)
@pytest.mark.usefixtures("slots")
def test_a_copy_of_few_elements_goes_when_they_are_written_to():
    matrix, a, b = oxinp.ones((200, 1000)), oxinp.ones(1000), oxinp.ones(1000)
    for _ in range(2):
        matrix @ a
        a += b
        assert a._held.value is a._held.stale is None
        assert np.asarray(matrix @ a)[0] == float(a.sum())


@needs_slots
@pytest.mark.parametrize("slots", [True], indirect=True)
@pytest.mark.usefixtures("slots")
def test_who_held_an_array_once_makes_writes_to_it_no_slower():
    a = oxinp.ones(1000)
    held = np.asarray(a)
    a[3] = 2.0
    assert held[3] == 2.0
    assert a._held.stale is not None
    del held
    gc.collect()
    a[4] = 3.0
    assert a._held.stale is None
    assert a.sum() == 1003.0


@pytest.mark.usefixtures("slots")
def test_who_takes_hold_of_an_array_while_it_is_written_to():
    a, held = oxinp.full(1500, 1e308), []
    a[1:2]
    with oxinp.errstate(over="call", call=lambda *_: held.append(np.asarray(memoryview(a)))):
        a *= 10.0
    assert len(held) == 1
    assert a._held.stale.num_writers == 0
    held[0][3] = 5.0
    assert a[3] == 5.0
    a += 1.0
    assert held[0][3] == 6.0


def test_a_process_without_machine_code():
    code = (
        "import oxinp; a = oxinp.arange(4.0); a[1] = 5; print(a + 1); "
        "from oxinp._core.native import install; print(install.is_installed(oxinp.ndarray))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={
            "OXINP_MACHINE_CODE": "0",
            "OXINP_BACKEND": "host",
            "PATH": "",
            "PYTHONPATH": ":".join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["[1. 6. 3. 4.]", "False"]


@needs_slots
def test_loops_over_elements_alone_get_machine_code():
    code = (
        "import oxinp; a = oxinp.arange(700); n = oxinp.empty(3); kinds = [];"
        "[(kinds.append(type(iter(a)) is map), sum(a)) for _ in range(40)];"
        "print(kinds[0], kinds[-1], sum(a) == 700 * 699 // 2)"
    )
    environment = {"OXINP_BACKEND": "host", "PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


@needs_slots
@pytest.mark.skipif(objects.VECTORCALL is None, reason="this Python's functions cannot be called by other code")
def test_functions_of_submodules_follow_the_setting():
    """They are registered when a submodule is first wanted, after the machine code has been written."""
    oxinp.ones(3)
    called = objects.vectorcall(oxinp.fft.fft)
    assert not calls_of_ours("np.fft.fft(a)")
    with config.override(machine_code=False):
        assert objects.vectorcall(oxinp.fft.fft) != called
        assert calls_of_ours("np.fft.fft(a)")
    assert objects.vectorcall(oxinp.fft.fft) == called

"""Functions that make something new of small arrays: NumPy's results, that share memory with no argument."""

import operator
import re
import sys
import warnings

import numpy as np
import pytest

import oxinp
from oxinp import config
from oxinp._core.lazy.balance import balance
from oxinp._core.native import calls, install, objects
from oxinp._core.native.anew import most_positional
from oxinp.cuda import stats
from tests.comparator import assert_same

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="this Python calls functions in another way")

EXPRESSIONS = [
    each.strip()
    for each in re.split(
        r";\s",
        """
        np.result_type(a, k); np.result_type(a, 'f4', 3); np.result_type(o, a); np.result_type(a, 'x');
        np.result_type(); np.result_type(np.float32, a[0], Z); np.can_cast(a.dtype, 'f4'); np.can_cast(int, float);
        np.can_cast('i8', m); np.can_cast(a, 'i4', 'unsafe'); np.can_cast(a, int);
        np.can_cast(a.dtype, 'f4', casting='same_kind'); np.iscomplexobj(a); np.iscomplexobj(c);
        np.iscomplexobj(3j); np.isrealobj(Z); np.isfortran(M.T); np.common_type(a, c);
        np.common_type(a.astype('f4')); np.common_type(o); np.may_share_memory(a, a[1:]); np.may_share_memory(a, b);
        np.shares_memory(M, M.T); np.shares_memory(a[::2], a[1::2]); np.shares_memory(o, a); a.item(3); a.item();
        M.item(2, 3); M.item((1, 2)); M.item(99); a.item(k[1]); a.item(-1); c.item(0); o.item(0); m.item(1);
        h.item(0); a[:1].item(); a.item('x'); a.item(1.0); t.item(0); a.item(index=1); np.diff(a, n=2);
        np.diff(M, n=1, axis=0); np.diff(a, n=-1); np.ediff1d(a); np.ediff1d(a, 1.0); np.ediff1d(a, to_begin=0.0);
        np.ediff1d(M); np.ediff1d(k, 2.5); np.ediff1d(o); np.sinc(a); np.sinc(k); np.sinc(M * 0); np.sinc(c);
        a.repeat(2); np.repeat(M, 3); a.repeat(0); a.repeat(-1); a.repeat(k[1]); M.repeat(2, axis=1);
        a.repeat(repeats=2); m.repeat(2); c.repeat(3); o.repeat(2); M.T.repeat(2); h.repeat(2); np.repeat(a, 1.5);
        np.array(3.0); np.array(3); np.array(True); np.array(2j); np.array(2**70); np.array('x');
        np.block([[M, M], [M, M]]); np.block([a, 1.0]); np.block([[a, [1.0]]]); np.block([[M], [a]]);
        np.block([o, a]); np.r_[a, b]; np.r_[a, k]; np.r_[a, 1.0]; np.r_[a, M]; np.r_['0,2', a, b]; np.r_[a, a];
        np.r_[o, a]; np.r_[a]; np.c_[a, b]; np.c_[a, k]; np.c_[M, M]; np.c_[a, 1.0]; np.c_[a]; np.vander(a);
        np.vander(a, 3); np.vander(a, N=2, increasing=True); np.vander(k); np.vander(M); np.geomspace(1.0, 2.0, 5);
        np.geomspace(0, 1); np.geomspace(1, 1000, num=4); np.logspace(0.0, 1.0, 7); np.logspace(a[:2], 2.0, 3);
        np.hanning(9); np.bartlett(-1); np.kaiser(5, 14.0); np.logspace(0, 400, 3);
        np.piecewise(a, [a < 0.5], [-1.0, 1.0]);
        np.fft.fftfreq(9); np.fft.rfftfreq(8, 0.5); np.fft.fftfreq(n=4); np.fft.fftfreq(1.5); np.fft.fftfreq(-3);
        np.fft.fftfreq(0); np.fft.rfftfreq(True);
        np.count_nonzero(m); np.std(a); np.std(M, axis=0); np.var(M, 1); np.var(M, axis=(0, 1), ddof=1); np.triu(M);
        np.tril(M, -1); np.hstack((a, b)); np.vstack([a, b]); np.stack([a, b], axis=1); np.stack((M, M), 1);
        np.roll(a, 2); np.roll(M, (1, 2), axis=(0, 1)); np.diff(a); np.diff(a, 2); np.cumsum(M, axis=1);
        np.cumprod(b); np.sort(b); np.argsort(M, axis=0); np.argmax(M, axis=1); np.argmin(M); np.linalg.norm(a);
        np.linalg.norm(M, axis=1); np.linalg.norm(M, 'fro'); np.linalg.inv(S); np.linalg.det(S);
        np.linalg.solve(S, a[:4]); np.linalg.inv(M); np.trace(S); np.inner(a, b); np.cross(a[:3], b[:3]);
        np.tensordot(S, S, 1); np.einsum('ij,jk->ik', S, S); np.einsum('ij,jab->aib', S[:2, :2], I);
        np.tensordot(S, S, 1).T; np.einsum('ij,jk->ki', S, S)[1:]; np.sum(I, axis=1); np.sort(M.T); np.fft.fft(a);
        np.fft.fft(M, axis=0); np.fft.ifft(c); np.fft.rfft(a, 4); np.fft.irfft(c); np.fft.rfft2(M);
        np.fft.irfft2(M, (3, 4));
        np.fft.fft2(M); np.fft.ifft2(I); np.fft.fftn(I); np.fft.fftshift(M); np.fft.ifftshift(a);
        np.fft.fft(a, norm='ortho');
        np.fft.fft(Z); np.fft.fft(o); np.fft.rfft(c); np.fft.fft(a, 0); np.fft.fft(h); np.fft.fft2(L);
        np.fft.irfft2(I, M.shape);
        np.fft.fft(a, 4, 0, None); np.fft.fft(E); np.fft.fftshift(M, 1); np.fft.fftshift(M, axes=(0,));
        np.clip(a, 0.2, 0.6); np.clip(a, b, None); np.clip(a, a_min=0.2, a_max=0.6); np.clip(k, 1, 3);
        np.clip(k, 1, 3.5); np.clip(M, 0, 1);
        np.trapezoid(a, dx=0.5); np.trapezoid(a, b); np.cov(M, rowvar=False); np.gradient(M);
        np.interp(a, b, a, left=0.0, right=1.0); np.median(np.array([1.0, np.nan])); np.std(M, ddof=12); M.std(ddof=1);
        np.cross(1e200 * a[:3], 1e200 * b[:3]); np.average(a, weights=0 * b); np.isclose(a, np.inf); np.delete(a, -1);
        np.round(a, 2); np.prod(b); np.sum(M, axis=0); np.sum(M, 1, keepdims=True); np.mean(M, axis=1);
        np.max(M, axis=0); np.min(M, (0, 1)); np.any(M > 1, axis=0); np.all(M, axis=1); np.median(a);
        np.average(a, weights=b); np.searchsorted(a, b); np.bincount(k); np.digitize(a, b); np.interp(a, b, a);
        np.convolve(a, b); np.correlate(a, b, 'full'); np.gradient(a); np.isclose(a, b); np.allclose(a, a);
        np.array_equal(a, a); np.vdot(a, b); np.append(a, b); np.append(a, 2.0); np.insert(a, 2, 5.0);
        np.delete(a, 3); np.delete(a, [1, 2]); np.isin(k, k[:2]); np.take(a, k); np.take(M, k[:2], axis=1);
        np.concatenate((M, M), axis=1); np.concatenate([a, b], 0); np.full_like(a, 3.0); np.copy(M); np.dot(S, S);
        np.dot(S, a[:4]); np.sum(m); np.sum(a, dtype='f4'); np.sum(a, dtype=np.float32); np.sum(a, axis=[0]);
        np.mean(a, axis=3); np.std(a, 'x'); np.sum(a, where=m); np.sum(a, initial=3.0); np.sum(M, out=None);
        np.max(a, initial=9, axis=None); np.hstack((a, M)); np.roll(a); np.sum(); np.sum(a, a, a, a, a, a, a, a);
        np.average(M, 0, M); np.stack([]); np.stack([a, [1, 2]]); np.stack([1, 2]); np.sum([a, b]); np.sum((a, 1));
        np.tensordot(M, S, axes=([1], [0])); np.std(np.array([])); np.append(a, None); np.insert(a, [1, 2], b[:2]);
        a.sum(axis=0); M.sum(0); M.sum(axis=1, keepdims=True); M.mean(axis=0); M.max(1); M.any(axis=0); M.all(0);
        M.std(); M.var(axis=0); M.prod(0); a.clip(0.1, 0.5); a.cumsum(); M.cumsum(1); a.dot(b); S.dot(S); M.flatten();
        a.round(1); a.take(k); a.tolist(); M.tolist(); S.trace(); a.argmax(0); M.argmin(axis=1); M.argsort(0);
        a.copy('F'); M.copy(order='F'); M.flatten('F'); L.sum(axis=0); np.sum(L, axis=1); np.sort(B); np.roll(B, 3);
        np.hstack((B, B)); np.std(B); np.sum(o); np.sort(o); np.append(o, 1); np.hstack((o, o)); np.std(c);
        np.round(i, 1); np.sum(h, axis=0); np.copy(t); np.sort(t); np.roll(E, 1); np.sum(Z); np.std(Z); Z.tolist();
        np.array([a[0], a[1]]); np.array([a[0], 1.0, k[0]]); np.array([k[0], k[1]]); np.array([a[0], M]);
        np.hstack((a, b, k)); np.hstack((M, S[:3])); np.hstack((M, M[:, :1])); np.hstack((Z, Z)); np.hstack(a);
        np.hstack((I, I)); np.vstack((a, b)); np.vstack((a, k)); np.vstack((M, M)); np.vstack((M, S));
        np.vstack((a, M)); np.vstack(M); np.stack((a, b), -1); np.stack((M, M), axis=2); np.stack((M, M), axis=3);
        np.stack((a, k)); np.stack((Z, Z)); np.stack((a, b), axis=-2); np.stack((k, b[:5]));
        np.hstack((a, b), dtype='f4'); np.append(a, b[None]); np.append(M, a); np.append(M, M, axis=0);
        np.append(k, 2.5); np.append(a, [1.0, 2]); np.append(k, True); np.append(a, 1j); np.append(Z, a);
        np.interp(a, b, a[::-1]); np.interp(0.5, b, a); np.interp(a, b, k); np.interp(a, b, c[:1]);
        np.interp(M, b, a); np.interp(a, b, a, 0.0, 1.0); np.interp(a, b[:3], a); np.interp(a, b, a, period=1.0);
        np.convolve(b, a[:2], 'same'); np.convolve(a[:2], b, 'valid'); np.convolve(k, a); np.convolve(c, a);
        np.convolve(a, 2.0); np.convolve(M, a); np.convolve(a[:0], a); np.convolve(a, b, 'x');
        np.convolve(a, b, mode='same'); np.convolve(a, [1, 2, 1]);
        np.nonzero(m); m.nonzero(); np.where(m); np.nonzero(M > 0.5); np.where(I > 1); np.nonzero(a[:0]);
        np.nonzero(t); np.unique(k); np.unique(k, return_counts=True); np.unique(k, True); np.histogram(a, bins=3);
        np.gradient(M); np.linalg.eigh(S + S.T); np.linalg.svd(S); np.linalg.qr(S); np.linalg.qr(M, 'r');
        np.linalg.slogdet(S); np.linalg.lstsq(S, a[:4], rcond=None); np.linalg.eigvalsh(S + S.T); np.linalg.eig(S);
        np.linalg.pinv(M); np.linalg.cond(S); np.linalg.cond(S * 0); np.linalg.cond(S, 1); np.linalg.cond(a);
        np.linalg.matrix_rank(M); np.linalg.matrix_rank(a, 0.5); np.linalg.matrix_power(S, 0);
        np.linalg.matrix_power(S, 3); np.linalg.matrix_power(S, -2); np.linalg.matrix_power(S * 0, -1);
        np.linalg.matrix_power(M, 2); np.linalg.matrix_power(S, 2.0); np.linalg.matrix_power(L, 2);
        np.linalg.eigh(M); np.argsort(a, kind='stable'); np.sort(a, kind='stable'); np.partition(a, 2);
        np.argpartition(a, 2); np.convolve(a, [1.0, 2.0]); np.interp(a, [0, 1], [0.0, 1.0]);
        np.concatenate(([0.0], a)); np.hstack(([1.0, 2], a)); np.concatenate(([], a)); np.concatenate(([a], [b]));
        np.concatenate(([[1.0]], M)); np.take(a, [[0, 1], [2, 3]]); np.take(a, [0, 1], mode='clip');
        np.append(a, [1.0, 2.0]); np.take(a, [m[0], 1]); np.bincount(k, weights=a[:5], minlength=9);
        np.average(a, weights=[1.0] * 7); np.average(a, weights=b - b); np.lexsort((a, b));
        np.take_along_axis(a, k, 0); np.cov(M); np.corrcoef(M); np.percentile(a, 30); np.quantile(a, [0.1, 0.5]);
        np.nan_to_num(a); np.ptp(M, axis=0); np.searchsorted(b, a, side='right'); np.polyval([1.0, 2.0], a);
        np.nansum(a); np.argwhere(m); np.argwhere(M > 0.5); np.flatnonzero(m); np.linalg.norm(a[::2]);
        np.linalg.norm(a * 1e200); np.linalg.norm(a[:1]); np.linalg.norm(a[:0]); np.linalg.norm(k);
        np.linalg.norm(B); np.linalg.norm(b[::-1]); np.linalg.norm(c); np.linalg.norm(a * np.nan);
        np.linalg.norm(a / 0); np.linalg.norm(a, None); np.linalg.norm(h[0]); np.linalg.norm(Z);
        np.linalg.norm(a.astype('f4')); M.mean(axis=-1, keepdims=True); M.mean(axis=2); M.sum(True);
        M.sum(axis=True); M.mean(keepdims=True, axis=0); np.max(M, 0, keepdims=True);
        np.any(M > 0.5, axis=-1, keepdims=True); I.mean(axis=1); L.mean(axis=1); np.all(m, 0); h.mean(axis=0);
        (M * np.nan).mean(axis=0); M.max(axis=1, keepdims=1); M.sum(axis=1, keepdims=False); a.mean(axis=0);
        M.sum(axis=None, keepdims=True); M.min(axis=-3); M[:0].sum(axis=0); M[:0].mean(axis=0); M[:, :0].max(axis=0);
        t.max(axis=0); np.sum(i, axis=0); np.mean(i[None], axis=0); M.T.mean(axis=0);
        np.sum(M, keepdims=True, axis=1); (M * 1e308).sum(axis=0); (M * 1e308 * 9).mean(axis=0);
        np.sum(M, axis=1, dtype=int); M.sum(2**70); I.real.mean(1); np.array([[np.inf, -np.inf]]).sum(axis=1);
        np.any(M, axis=0); np.mean(L, axis=0, keepdims=True)[0, :3]; np.roll(M, 1, axis=-1); np.roll(M, -1, 1);
        np.roll(M, 12); np.roll(M, 4, axis=1); np.roll(a, -9); np.roll(M.T, 1, 0); np.roll(M, (1, 1), (0, 0));
        np.roll(M, 2, 5); np.roll(M, 2, -3); np.roll(m, 1); np.roll(M, 1.5); np.roll(I, (1, -1), (0, 2));
        np.roll(M, (0, 1), (0, 1)); np.roll(M, (1,), 0); np.roll(M, 1, (0, 1)); np.roll(Z, 1);
        np.roll(M, (k[0], k[1]), (0, 1)); np.roll(a, k[2]); I.sum(axis=(0, 1)); I.sum(axis=(0, 0));
        np.max(M, axis=(0, 1)); np.mean(I, axis=(0, 2)); M.sum(axis=()); M.max((5,)); np.count_nonzero(M);
        np.count_nonzero(M, 1); np.count_nonzero(o); np.zeros_like(M.T); np.ones_like(c); np.zeros_like(t);
        np.zeros_like(E); np.ones_like(m); np.zeros_like(Z); np.ones_like(M[:, ::2]); np.zeros_like(h);
        np.ones_like(t); np.roll(a, True); np.roll(I, 1, axis=1); np.diff(M); np.diff(m); np.diff(k); np.diff(c);
        np.diff(M, axis=0); np.diff(Z); np.diff(a[:1]); np.diff(M, 1, -1); np.std(a, ddof=1); np.std(a, ddof=7);
        M.var(axis=1, ddof=1); M.std(axis=(0, 1)); M.var(0, keepdims=True); np.var(k); np.std(h); np.std(M, axis=5);
        np.std(a[:1]); np.std(Z); a.std(axis=0); (M * 1e200).std(); np.std(np.array([np.inf, 1.0])); M.std(ddof=1.5);
        np.var(M, 0, None); np.var(np.array([[np.nan, 1.0]]), axis=1); M.T.std(axis=1); L.std(axis=0);
        np.var(M, axis=-1); np.allclose(a, a + 1e-9); np.allclose(a, np.nan * a); np.allclose(a, M);
        np.allclose(a, 1.0); np.allclose(M, M[0]); np.allclose(a * np.inf, a * np.inf); np.allclose(a, b, atol=9);
        np.allclose(k, k); np.allclose(a[:0], a[:0]); np.allclose(Z, Z); np.linalg.norm(M.T);
        np.linalg.norm(M, axis=0); np.linalg.norm(M, axis=1, keepdims=True); np.linalg.norm(M, axis=(0, 1));
        np.linalg.norm(M, axis=7); np.linalg.norm(M, 1, 0); np.linalg.norm(I, axis=0);
        np.linalg.norm(M, keepdims=True); np.linalg.norm(I); np.linalg.norm(M[:, ::2]); np.linalg.norm(L, axis=-1);
        np.clip(a, None, 0.5); np.clip(a, 0.2, 0.6, out=None); np.round(a); np.argsort(M); np.argsort(M, 0);
        np.argsort(M, axis=None); np.argpartition(M, 1, axis=1); np.searchsorted(b, 0.5); np.clip(k, 1, 2);
        np.searchsorted(b, a, 'right'); np.searchsorted(M, a); np.clip(a, b); np.argsort(a, order='x');
        np.column_stack((a, b)); np.dstack((a, b)); np.trapezoid(a); np.cross([1, 2, 3], a[:3]); np.cov(M[:, :1]);
        np.add.reduceat(a, k[:0]); np.add.reduceat(a, [0, 3]); np.add.reduceat(a, np.array([0, 3, 1]));
        np.add.reduceat(M, [0, 2], axis=0); np.maximum.reduceat(M, np.array([1, 0, 3]), 1); np.add.reduceat(a, k);
        np.add.reduceat(np.add.reduceat(M, np.arange(0, 3, 2), axis=0), np.arange(0, 4, 2), axis=1);
        np.multiply.reduceat(i, [0, 2, 5]); np.logical_or.reduceat(m, [0, 3]); np.add.reduceat(m, [0, 2]);
        np.subtract.reduceat(a, [0, 3]); np.less.reduceat(a, [0, 3]); np.add.reduceat(a, [0, 9]);
        np.add.reduceat(a, [-1]); np.add.reduceat(a, []); np.add.reduceat(a, 3); np.add.reduceat(a, [0, 1.5]);
        np.add.reduceat(a, [0, None]); np.add.reduceat(a, (0, 2)); np.add.reduceat(a, [0], 1);
        np.add.reduceat(a, [0], axis=None); np.add.reduceat(a, [0], -1); np.add.reduceat(a, a); np.add.reduceat(o, [0]);
        np.add.reduceat(Z, [0]); np.add.reduceat(E, [0]); np.add.reduceat(c, [0, 2]); np.add.reduceat(h, [0, 1]);
        np.add.reduceat(a, [0, 3], dtype='f4'); np.add.reduceat(a, [0, 3], out=None); np.add.reduceat(M.T, [0, 1], 1);
        np.add.reduceat(h * 60000, [0, 1]); np.add.reduceat(t, [0]); np.bitwise_xor.reduceat(k, [0, 2]);
        np.bitwise_xor.reduceat(a, [0, 2]); np.add.reduceat(a, k.astype('u4')); np.add.reduceat(a, m[:1]);
        np.arange(5); np.arange(5.0); np.arange(4.5); np.arange(0.0, 1.0, 0.1); np.arange(1, 0, -0.25);
        np.arange(9, 2, -2);
        np.arange(0, 9, 2); np.arange(-3, 3); np.arange(3, -3); np.arange(-2.5); np.arange(0, 5, 0);
        np.arange(0.0, 1, 0);
        np.arange(np.nan); np.arange(0, np.inf); np.arange(2**63, 2**63 + 2); np.arange(2**62, 2**62 + 3);
        np.arange(5, dtype=float); np.arange(0, 5, 2, dtype='f4'); np.arange(5.5, dtype=int); np.arange(5, dtype=bool);
        np.arange(2, dtype=bool); np.arange(5, dtype=None); np.arange(5, dtype=np.dtype('u1')); np.arange(stop=3);
        np.arange(300, dtype='i1'); np.arange(1, 5, dtype='c8'); np.arange(a[0], 3.0); np.arange(k[0]); np.arange(True);
        np.arange(0, 3, 1, int); np.arange(0, 3, None); np.arange(None); np.arange('3'); np.arange(5, dtyp=int);
        np.arange(5, device='cpu'); np.arange(0.0, 1e-300, 1e-301); np.arange(70000)[::9999]; np.arange(3j);
        np.arange(0);
        np.choose(i > 0, [a, b]); np.choose(k, (1, 2, 3, 4)); np.choose(k, [a[:5], 2.0, b[:5], 1]); np.choose(k, [a]);
        np.choose(i, [a, b]); np.choose(i, [a, b], mode='wrap'); np.choose(i > 0, [a, b], None, 'clip');
        np.choose(m, (M[:1, :1], b)); np.choose(0, [a, b]); np.choose(Z, [a, b]); np.choose(a, [a, b]);
        np.compress(m, a); np.compress([True, False], M, axis=1); np.compress(m, M); np.compress(m[:3], M, 0);
        np.extract(m, a); np.extract(M > 0.5, M); np.extract(m[:3], a); np.extract(a > 9, a); np.extract(k, a[:5]);
        np.angle(c); np.angle(a); np.angle(c, True); np.angle(c, deg=True); np.angle(I); np.angle(o); np.angle(Z);
        np.isreal(c); np.isreal(a); np.iscomplex(I); np.iscomplex(3j); np.isreal(o); np.isreal(Z); np.isreal(t);
        np.nanmean(a); np.nanmean(a * np.nan); np.nanmax(M, axis=0); np.nanmin(a * np.nan); np.nanstd(M, axis=1);
        np.nanvar(a, ddof=1); np.nanvar(a, ddof=9); np.nanmax(k); np.nanmean(E); np.nanmin(M, 1, None);
        np.nanmean(h); np.nanmax(np.array([[np.nan, np.nan], [1.0, 2.0]]), axis=1); np.nanmean(M, keepdims=True);
        np.select([m, a > 0.5], [a, b]); np.select([m, a > 0.5], [a, b], 2); np.select([m], [k]); np.select([m], [1]);
        np.select([M > 0.5], [M[0]], M); np.select([m], [a, b]); np.select([], []); np.select([k], [k]);
        np.intersect1d(k, k[:2]); np.union1d(k, i); np.setdiff1d(i, k); np.union1d(a, k); np.setdiff1d(k, [1, 2]);
        np.intersect1d(a, b, return_indices=True); np.intersect1d(M, M); np.setdiff1d(t, t[:1]);
        np.polyfit(a, b, 1); np.polyfit(a, b, 9); np.polyfit(a, b, 1, full=True); np.polyfit(a, b, 2, cov=True);
        np.polyfit(a, M, 1); np.polyfit(a, b, 1, w=b); np.array([a, b]); np.array((a, b)); np.array([a, k]);
        np.array([a, [1.0] * 7]); np.array([a, None]); np.array([M, M]); np.array([M[0], M[1]]); np.array([[a], [b]]);
        np.array([a, b], dtype='f4'); np.array([a, b], int); np.array(a, 'f4'); np.array(a, dtype=float);
        np.array(a, dtype=object); np.array(M.T, order='C'); np.array(M.T); np.array(M, order='F'); np.array(c, float);
        np.array(i, dtype='i1'); np.array(a * 1e300, dtype='f4'); np.array([o, o]); np.array([Z, Z]); np.array([Z, 1]);
        np.array([t, t]); np.array([a, M]); np.array(a, ndmin=2); np.array(E, dtype='f4');
        np.array([1, 2], dtype='f4'); np.array([1.5, 2], dtype=int); np.array([1, 300], dtype='u1');
        np.array([1e300], dtype='f4'); np.array([np.nan], dtype=int); np.array([1, 2], dtype=bool); np.array((1, 2.0));
        np.array([[1, 2], (3, 4)], dtype=float); np.array(((1, 2), (3, 4))); np.array([[1], [2, 3]]); np.array([()]);
        np.array([1, [2]]); np.array([1, 2], dtype='S1'); np.array([1, 2], dtype=object); np.array([1, 2], None);
        np.array([1, 2], dtype=np.dtype('c8')); np.array([2**70]); np.array([2**63]); np.array([1, 2], np.float16);
        np.array([[[1.0]]]); np.array((1.0,), dtype=int); np.array([1.0], dtypes=int); np.array([1j], dtype=float);
        np.asarray([1, 2], dtype=float); np.asarray((1.0, 2)); np.asarray([a, b]); np.asarray([a, b], 'f4');
        np.asarray(((1, 2), (3, 4)), int); np.asarray([1, 2], float, 'F'); np.asarray([a[0], 1], dtype='f4')
        """,
    )
    if each.strip()
]


def given(xp):
    rng = np.random.default_rng(3)
    host = {
        "a": rng.random(7),
        "b": np.sort(rng.random(7)),
        "M": rng.random((3, 4)),
        "S": rng.random((4, 4)) + np.eye(4),
        "m": rng.random(7) < 0.5,
        "k": rng.integers(0, 4, 5),
        "i": rng.integers(-9, 9, 7),
        "c": rng.random(5) + 1j,
        "h": rng.random((3, 3)).astype(np.float16),
        "L": rng.random((60, 60)),
        "B": rng.random(9000),
        "I": rng.random((2, 3, 4)) + 1j,
        "E": np.empty((0, 3)),
        "Z": np.array(2.5),
        "t": np.array(["b", "a"]),
        "o": np.array([3, 1, 2], dtype=object),
    }
    return {"np": xp, **{name: xp.asarray(value.copy()) for name, value in host.items()}}


def _told(expression, names):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            found = eval(expression, names)  # noqa: S307 - what these tests are about
        except Exception as error:  # noqa: BLE001 - whatever NumPy raises
            found = type(error)
    return found, [(each.category, str(each.message), each.filename) for each in heard]


def _is_ours(file):
    """Whether a function is none of NumPy's, nor what stands for one."""
    return "oxinp" in file and "tests" not in file and not file.endswith("leaner.py")


def entered_by(text):
    """Return the functions of ours that an expression enters which has been evaluated before."""
    with config.override(offload_threshold=65536):
        names, entered = given(oxinp), []
        code = compile(text, "<program>", "eval")
        eval(code, names)  # noqa: S307

        def note(frame, event, _):
            if event == "call" and _is_ours(frame.f_code.co_filename):
                entered.append(frame.f_code.co_qualname)

        assert install.is_installed(oxinp.ndarray)
        sys.setprofile(note)
        try:
            eval(code, names)  # noqa: S307
        finally:
            sys.setprofile(None)
    return entered


def _parts(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.fixture(params=[True, False], ids=["machine code", "Python"])
def either_way(request):
    with config.override(machine_code=request.param, offload_threshold=65536):
        yield


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expressions_are_numpys(expression):
    ours, numpys = given(oxinp), given(np)
    for _ in range(2):
        (found, heard), (expected, expected_heard) = _told(expression, ours), _told(expression, numpys)
        assert [each[:2] for each in heard] == [each[:2] for each in expected_heard]
        if isinstance(expected, type):
            assert found is expected
            continue
        for one, other in zip(_parts(found), _parts(expected), strict=True):
            assert (type(one) is oxinp.ndarray) == (type(other) is np.ndarray)
        assert_same(found, expected)
    for name, value in numpys.items():
        if type(value) is np.ndarray:
            assert_same(ours[name], value)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_results_share_nothing(expression):
    with config.override(offload_threshold=65536):
        names = given(oxinp)
        found = [part for part in _parts(_told(expression, names)[0]) if type(part) is oxinp.ndarray]
        for i, part in enumerate(found):
            if part.size and part.dtype != object:
                before = {name: np.array(value) for name, value in names.items() if type(value) is oxinp.ndarray}
                others = [np.array(other) for other in found[i + 1 :]]
                part[...] = part.ravel()[::-1].reshape(part.shape)
                for name, value in before.items():
                    assert_same(names[name], value)
                for other, value in zip(found[i + 1 :], others, strict=True):
                    assert_same(other, value)


@pytest.mark.parametrize(
    "expression",
    [
        "np.roll(a, 1)",
        "np.hstack((a, b))",
        "np.sum(M, axis=1)",
        "M.std()",
        "np.einsum('ij,jab->aib', S[:2, :2], I)",
        "np.fft.rfft2(M)",
        "np.fft.irfft2(I, (3, 4))",
        "m.nonzero()",
        "np.linalg.norm(a)",
        "M.sum(axis=1, keepdims=True)",
        "np.mean(M, axis=0)",
        "np.where(M > 0.5)",
        "np.unique(k, return_counts=True)",
        "np.linalg.eigh(S)",
        "np.argsort(a, kind='stable')",
        "np.bincount(k, weights=a[:5], minlength=9)",
        "np.concatenate(([0.0], a))",
        "np.interp(a, [0, 1], [0, 1])",
        "np.result_type(a, k)",
        "np.can_cast(int, float)",
        "np.iscomplexobj(a)",
        "a.item(3)",
        "np.diff(a, n=2)",
        "np.ediff1d(a)",
        "np.sinc(a)",
        "a.repeat(2)",
        "np.array(3.0)",
        "np.add.reduceat(a, k)",
        "np.add.reduceat(M, [0, 2], axis=0)",
        "np.arange(0.0, 1.0, 0.25)",
        "np.arange(9, 2, -2)",
        "np.arange(3, dtype=float)",
        "np.choose(m, [a, b])",
        "np.compress(m, a)",
        "np.array([a, b])",
        "np.array((a, b), dtype='f4')",
        "np.array(a, dtype='f4')",
        "np.array([[1, 2], (3, 4)], dtype=float)",
        "np.asarray((1, 2), dtype=float)",
    ],
)
def test_no_function_of_ours_is_entered(expression):
    assert entered_by(expression) == []


def test_references_are_given_back():
    with config.override(offload_threshold=65536):
        names = given(oxinp)
        a, b = names["a"], names["b"]
        for expression in EXPRESSIONS:
            _told(expression, names)
        seen = np.asarray(a._seen), np.asarray(b._seen)
        before = [sys.getrefcount(each) for each in (a, b, *seen, oxinp.sum, None)][:5]
        for _ in range(50):
            for expression in EXPRESSIONS:
                if re.search(r"\b[ab]\b", expression) and "np.array(" not in expression:
                    _told(expression, names)
        after = [sys.getrefcount(each) for each in (a, b, *seen, oxinp.sum, None)][:5]
    assert after == before


def test_what_may_be_written_to_is_no_argument():
    for name in calls.FUNCTIONS:
        assert most_positional(operator.attrgetter(name)(np)) >= 1
    assert most_positional(np.clip) == 3
    out = oxinp.zeros(3)
    assert np.clip(oxinp.arange(3.0), 0.5, 1.5, out) is out
    assert_same(out, np.array([0.5, 1.0, 1.5]))
    assert oxinp.cumsum(oxinp.arange(3.0), out=out) is out
    assert_same(out, np.array([0.0, 1.0, 3.0]))


@pytest.mark.parametrize("kind", [np.complex64, np.float16, np.float32, np.complex128])
def test_numbers_are_warned_of_once(kind):
    x = np.array([np.inf, -np.inf, 1.0], kind)
    told = []
    for each in (x, oxinp.array(x)):
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            each.sum()
        told.append([str(warning.message) for warning in heard])
    assert told[0] == told[1] != []


LEARNED = (
    *("L.sum()", "L.sum(axis=0)", "np.sum(L, axis=1)", "L.mean()", "np.mean(W)", "W.mean(axis=1)", "L.max(axis=1)"),
    *("np.min(L)", "L.std()", "np.var(L, axis=0)", "W.prod(axis=0)", "L.argmax()", "np.argmin(L, axis=0)", "W.any()"),
    *(
        "np.count_nonzero(W)",
        "L.cumsum()",
        "np.cumsum(L, axis=1)",
        "np.clip(L, -0.5, 0.5)",
        "L.clip(0, 1)",
        "np.diff(L)",
    ),
    *("np.tril(L)", "np.triu(L, 1)", "np.linalg.norm(L)", "np.linalg.norm(L, axis=1)", "L.trace()", "L.flatten()"),
    *("np.isclose(L, L)", "np.median(L, axis=0)", "L.round(2)", "np.average(L, axis=0)", "np.roll(L, 3)"),
    *("np.array_equal(L, L)", "np.minimum(L, W, out=L)", "np.ptp(L)", "np.nan_to_num(L)", "np.partition(L, 9)"),
    *("np.column_stack((L, W))", "np.concatenate([L, W])", "np.trapezoid(L)", "np.percentile(L, 20)"),
)


@pytest.mark.parametrize("expression", LEARNED)
def test_larger_arrays_are_the_hosts_by_what_has_been_learned(expression):
    random = np.random.default_rng(8)
    numpys = {"L": random.normal(size=(90, 120)), "W": random.integers(1, 4, (90, 120)), "np": np}
    code, entered, num_entered = compile(expression, "<program>", "eval"), [], 0
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        balance._settle(3)
        ours = {**{name: oxinp.array(numpys[name]) for name in "LW"}, "np": oxinp}
        for _ in range(40):  # one in `SAMPLED` is weighed
            entered.clear()
            sys.setprofile(lambda frame, event, _: event == "call" and entered.append(frame.f_code.co_filename))
            try:
                found = eval(code, ours)  # noqa: S307
            finally:
                sys.setprofile(None)
            num_entered += any(map(_is_ours, entered))
    assert_same(found, eval(code, numpys))  # noqa: S307
    assert num_entered <= 6  # of two arrays each is weighed


@pytest.mark.parametrize(
    "expression",
    [
        *(
            "np.unique(x)",
            "np.repeat(x, 2)",
            "np.tile(x, 2)",
            "np.pad(x, 1)",
            "np.argsort(x.reshape(100, 100), axis=1)",
        ),
        *("np.arange(9000)", "np.arange(0.0, 900.0, 0.1)", "np.eye(120)", "np.full((99, 99), 2.5)", "np.diag(x[:100])"),
        *("np.linspace(0, 1, 9000)", "x.__setitem__(x, x)", "np.arange(0, 0.5, 0.1)", "np.arange(5, 0.0, -0.5)"),
        *("np.arange(3.5)", "np.arange(2, 1.0)", "np.eye(0)", "np.full(9000, 7)", "np.linspace(0, 1, 1)"),
    ],
)
def test_numpy_computes_at_once_what_is_the_hosts_by_what_has_been_learned(expression):
    numpys = {"x": np.random.default_rng(8).integers(0, 99, 10_000), "np": np}
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        balance._settle(4)
        ours, launches = {"x": oxinp.array(numpys["x"]), "np": oxinp}, stats().launches
        assert_same(eval(expression, ours), eval(expression, numpys))  # noqa: S307
        assert stats().launches == launches


def test_larger_arrays_are_the_devices_unless_that_has_been_learned():
    with config.override(offload_threshold=65536, adaptive_placement=True):
        balance.begin(65536, is_adaptive=True)
        ours = oxinp.array(np.ones((90, 120)))
        for make in (oxinp.cumsum, oxinp.clip, oxinp.diff):
            before = stats().launches
            oxinp.evaluate(make(ours, 0, 1) if make is oxinp.clip else make(ours))
            assert stats().launches > before


def test_the_first_power_of_a_matrix_is_the_matrix():
    matrix = given(oxinp)["S"]
    for _ in range(200):
        oxinp.linalg.matrix_power(matrix, 2)
    assert oxinp.linalg.matrix_power(matrix, 1) is matrix

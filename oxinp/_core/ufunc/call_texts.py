"""Texts of calls of ufuncs, for small arrays on the host: with operands alone, and with where the result goes.

They are expanded by `inlining`; `object` makes the methods of ufuncs from them.
"""

from __future__ import annotations

CALL_TEXT = """
def make(leader, types):
    def __call__(self, a=MISSING, b=MISSING, /, *args, **kwargs):
        kind = type(a)
        if kwargs or args:
            if len(kwargs) == 1 and not args and self._arity == (1 if b is MISSING else 2):
                out = kwargs.get("out")
                if type(out) is ndarray and not REPORTS:
                    result = self._into(a, b, out)
                    if result is not NotImplemented:
                        return result
        elif b is MISSING:
            if self._arity == 1:
                if kind is ndarray:
                    x = seen(a) else return self._plain(a)
                    known = a._known
                    if known is not FEW or not self._is_light:
                        if x.size * self._reach >= config.offload_threshold:
                            return self._plain(a)
                        if known is not FEW:
                            known = None
                    if REPORTS:
                        return self._plain(a)
                    ufunc = self._numpys
                    result = called(ufunc, x) else return self._plain(a)
                    return array_of(result, known)
                if kind in NUMBERS or kind is float or (kind is int and -PLAIN_INT <= a <= PLAIN_INT):
                    ufunc = self._numpys
                    result = called(ufunc, a) else return self._call((a,), kwargs)
                    return result
                if type(kind) is types.scalar_type:
                    return self._plain(a)
        elif self._arity == 2:
            ufunc = self._numpys
            if kind is type(b) is ndarray:
                x = seen(a) else return self._plain(a, b)
                y = seen(b) else return self._plain(a, b)
                if a._known is FEW is b._known and self._is_light and not REPORTS:
                    result = called(ufunc, x, y) else return self._plain(a, b)
                    if type(result) is not NumpyArray:
                        return result
                    if result.size >= SMALL:  # from now on sizes are looked at before
                        self._is_light = False
                        return self._plain(a, b)
                    return few_elements(result)
                n = x.size
                if not 0 < n * y.size * self._reach < config.offload_threshold or REPORTS:
                    if x.shape != y.shape or not 0 < n * self._reach < config.offload_threshold or REPORTS:
                        return self._plain(a, b)
                result = called(ufunc, x, y) else return self._plain(a, b)
                return wrapped(result)
            result = NotImplemented
            if kind is ndarray:
                kind = type(b)
                if kind is float or kind is int or leader((a, b)) is None:
                    result = self._plain(a, b)
            elif type(kind) is types.scalar_type:
                return self._call((a, b), kwargs)
            elif (kind is float or kind is int or kind in NUMBERS) and type(b) is ndarray:
                result = self._reflected(b, a)
            elif (kind in NUMBERS or kind is float) and (type(b) in NUMBERS or type(b) is float):
                result = called(ufunc, a, b) else return self._call((a, b), kwargs)
                return result
            if result is not NotImplemented:
                return result
        if a is not MISSING:
            args = (a, *args) if b is MISSING else (a, b, *args)
        return self._call(args, kwargs)
    return __call__
"""


INTO_TEXT = """
def make():
    def _into(self, a, b, out):
        o = out._seen
        host = out._host
        storage = out._held
        if o is None or (storage is not None and storage.host is not host):
            if storage.host is None and self._direct is not None:
                return into_device(self, self._direct, a, b, out)
            if storage.host is None or storage.has_objects:
                return NotImplemented
            host, o = host_and_view(out)
        kind = type(a)
        if kind is ndarray:
            x = seen(a) else return NotImplemented
        elif kind is float or kind is int or kind in NUMBERS:
            x = a
        else:
            return NotImplemented
        cost = o.size * self._reach
        if cost >= config.offload_threshold and not is_recorded_on_host(cost / 2, self._row.weight):
            return NotImplemented
        ufunc = self._numpys
        kind = type(b)
        if b is MISSING:
            given = (x,)
        elif kind is ndarray:
            y = seen(b) else return NotImplemented
            given = x, y
        elif kind is float or kind is int or kind in NUMBERS:
            given = x, b
        else:
            return NotImplemented
        if storage is None:
            if out._held is None:
                write called(ufunc, *given, out=o) of out, o, and return out
            return NotImplemented
        view = out._view
        if type(view) is not tuple or view[1]:
            write called(ufunc, *given, out=o) to storage and return out
        return NotImplemented
    return _into
"""

__all__ = ["CALL_TEXT", "INTO_TEXT"]

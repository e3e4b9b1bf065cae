"""Structures, records, objects and text, of which dtypes say more than where elements lie."""

# ruff: noqa: ICN001 - oxinp is np where programs are written

import warnings

import numpy
import pytest

import oxinp

pytestmark = pytest.mark.usefixtures("offload_threshold")


def _records(np):
    a = np.zeros(2, "i4,f8")
    b = a.view(np.dtype((numpy.record, a.dtype)))
    return type(a[0]).__name__, type(b[0]).__name__, b.dtype.type.__name__


def _metadata(np):
    described = np.dtype("O", metadata={"vlen": str})
    return np.empty(3, "O").dtype.metadata, np.empty(3, described).dtype.metadata["vlen"]


def _gaps(np):
    dtype = np.dtype({"names": ["a"], "formats": ["i4"], "itemsize": 8})
    raw = np.zeros(10, "i8")
    raw.view(dtype)[...] = np.full(10, -1, "i8").view(dtype)
    return raw.view("i4").tolist()


def _field(np):
    a = np.empty(1, [("obj", "O"), ("int", "i")])
    a["obj"] = (bytearray(b"x"),)
    return a["obj"].tolist()


def _joined(np):
    a = np.ones(3, {"names": ["x"], "formats": ["i4"], "offsets": [8]})
    return str(np.concatenate([a, a]).dtype)


def _no_bytes(np):
    return np.ndarray(4, "S0").itemsize, np.ndarray(4, "S0").shape


def _text(np):
    a = np.array([""] * 10, dtype=object)
    return str(np.array(a, dtype="S").dtype), str(a.astype("S").dtype)


def _too_large(np):
    with pytest.raises(MemoryError) as raised:
        np.array(np.broadcast_to(np.array(0, "u1"), 1 << 62))
    return str(raised.value)


def _held(np):
    class Holds:
        def __array__(self, dtype=None, copy=None):
            return np.arange(4)

    holds = Holds()
    return np.array([holds, [holds]], dtype=object)[0] is holds


def _warned_once(np):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.nanmedian(np.full((2, 2), np.nan, "g"), axis=0)
    return len(caught)


def _named(np):
    a = np.arange(3)  # noqa: F841 - which the text names
    return np.asarray(np.r_["a; a"]).tolist()


_CASES = (_records, _metadata, _gaps, _field, _joined, _no_bytes, _text, _too_large, _held, _warned_once, _named)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("what", _CASES)
def test_what_dtypes_say_beside_where_elements_lie_is_numpys(what):
    assert what(oxinp) == what(numpy)

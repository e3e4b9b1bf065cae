"""Sparse objects of other libraries become ours over the same memory."""

import numpy as np
import pytest
import scipy.sparse

import oxinp
from oxinp import sparse
from tests.comparator import assert_same
from tests.interop.peer import Peer

pytestmark = pytest.mark.usefixtures("device")
MATRIX = scipy.sparse.csr_array(np.array([[0, 2.0, 0, 1], [0, 0, 0, 0], [3, 0, 4, 0]]))


class Cupys:
    """What a matrix of CuPy's shows."""

    __module__ = "cupyx.scipy.sparse._csr"

    def __init__(self, matrix):
        self.shape, self.format = matrix.shape, matrix.format
        names = {"coo": ("data", "row", "col"), "dia": ("data", "offsets")}
        for name in names.get(matrix.format, ("data", "indices", "indptr")):
            setattr(self, name, Peer(getattr(matrix, name)))


class Torchs:
    """What a tensor of PyTorch's shows."""

    is_sparse = False

    def __init__(self, matrix):
        self.layout, self.shape = f"torch.sparse_{matrix.format}", matrix.shape
        if matrix.format == "coo":
            self.parts = {"_values": matrix.data, "_indices": np.stack(matrix.coords).astype(np.int64)}
        else:
            ends = ("crow_indices", "col_indices") if matrix.format == "csr" else ("ccol_indices", "row_indices")
            self.parts = {"values": matrix.data, ends[0]: matrix.indptr, ends[1]: matrix.indices}
        self.parts = {name: Peer(part) for name, part in self.parts.items()}

    def dim(self):
        return len(self.shape)

    def dense_dim(self):
        return 0

    def __getattr__(self, name):
        return lambda: self.__dict__["parts"][name]


@pytest.mark.parametrize(
    ("kind", "format_"), [*((Cupys, each) for each in ("csr", "csc", "coo", "dia")), (Torchs, "csr"), (Torchs, "coo")]
)
def test_they_share_memory(kind, format_):
    theirs = kind(MATRIX.asformat(format_))
    made = getattr(sparse, f"{format_}_array")(theirs)
    assert made.format == format_
    assert_same(made.toarray(), MATRIX.toarray())
    data = theirs.data if kind is Cupys else next(iter(theirs.parts.values()))
    data.write(2 * data.values)
    assert_same(made.toarray(), 2 * MATRIX.toarray())
    assert_same(made @ oxinp.ones(4), 2 * MATRIX @ np.ones(4))


@pytest.mark.parametrize("format_", ["csr", "lil"])
def test_other_formats_are_made_of_them(format_):
    made = getattr(sparse, f"{format_}_matrix")(Torchs(MATRIX.tocsc()))
    assert type(made) is getattr(sparse, f"{format_}_matrix")
    assert_same(made.toarray(), MATRIX.toarray())


def test_tensors_of_other_dimensions():
    theirs = Torchs(MATRIX)
    theirs.shape = (1, *theirs.shape)
    with pytest.raises(ValueError, match="two dimensions"):
        sparse.csr_array(theirs)

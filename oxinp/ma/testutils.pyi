# Written by docs/type_stubs.py from the tables and NumPy 2.4 and SciPy 1.17; type checkers alone read it.

from numpy.ma.testutils import *
from numpy.ma.testutils import (
    TestCase as TestCase,
    almost as almost,
    approx as approx,
    assert_ as assert_,
    assert_allclose as assert_allclose,
    assert_almost_equal as assert_almost_equal,
    assert_array_almost_equal as assert_array_almost_equal,
    assert_array_almost_equal_nulp as assert_array_almost_equal_nulp,
    assert_array_approx_equal as assert_array_approx_equal,
    assert_array_compare as assert_array_compare,
    assert_array_equal as assert_array_equal,
    assert_array_less as assert_array_less,
    assert_close as assert_close,
    assert_equal as assert_equal,
    assert_equal_records as assert_equal_records,
    assert_mask_equal as assert_mask_equal,
    assert_not_equal as assert_not_equal,
    assert_raises as assert_raises,
    fail_if_array_equal as fail_if_array_equal,
)

import pytest

from _driver import errors
from tests.driver.fake_library import FakeLibrary, open_context

CLASSES = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]


@pytest.mark.parametrize("row", errors.ROWS, ids=lambda row: row.name)
def test_every_result_raises_its_type_and_says_all(row):
    context, library = open_context()
    library.results["cuCtxSynchronize"] = row.code
    with pytest.raises(errors.CudaError) as caught:
        context.synchronize()
    error = caught.value
    assert type(error) is row.type
    assert (error.code, error.name, error.call) == (row.code, f"CUDA_ERROR_{row.name}", "cuCtxSynchronize")
    for part in ("cuCtxSynchronize", f"CUDA_ERROR_{row.name} ({row.code})", row.cause, row.remedy):
        assert part in str(error)


@pytest.mark.parametrize("row", errors.ROWS, ids=lambda row: row.name)
def test_cause_and_remedy_are_sentences(row):
    for text in (row.cause, row.remedy):
        assert text[0].isupper()
        assert text.endswith(".")


def test_codes_and_names_are_unique():
    assert len({row.code for row in errors.ROWS}) == len({row.name for row in errors.ROWS}) == len(errors.ROWS)


def test_out_of_memory_is_a_memory_error():
    error = errors.from_result(2, "cuMemAlloc_v2")
    assert isinstance(error, MemoryError)
    assert isinstance(error, errors.CudaError)


def test_a_result_newer_than_the_table():
    error = errors.from_result(4711, "cuInit")
    assert type(error) is errors.InternalError
    assert "4711" in str(error)
    assert "cuInit" in str(error)


def test_detail_says_what_was_asked():
    assert str(errors.from_result(1, "cuX", "kernel k")).startswith(
        "cuX (kernel k) failed with CUDA_ERROR_INVALID_VALUE"
    )


def test_the_tree_at_the_top_names_every_class():
    assert {cls.__name__ for cls in CLASSES} == {cls.__name__ for cls in CLASSES if cls.__name__ in errors.__doc__}
    assert {cls.__name__ for cls in CLASSES} <= set(errors.__all__)


def test_every_class_can_occur():
    raised = {row.type for row in errors.ROWS} | {errors.UnsupportedPlatform, errors.ForkedProcess}
    assert {cls for cls in CLASSES if not cls.__subclasses__()} == raised


def test_faults_say_that_the_process_is_lost():
    for row in errors.ROWS:
        if row.type is errors.DeviceFault and row.name != "ECC_UNCORRECTABLE":
            assert "start it again" in row.remedy


def test_version_text():
    assert [errors.version_text(v) for v in (12000, 12040, 13010)] == ["12.0", "12.4", "13.1"]


def test_busy_device_is_named_when_the_context_is_made():
    with pytest.raises(errors.DeviceBusy, match=r"cuDevicePrimaryCtxRetain failed.*compute mode.*nvidia-smi"):
        open_context(FakeLibrary(results={"cuDevicePrimaryCtxRetain": 46}))

import ctypes
import functools
import importlib.util
import os
import re
from pathlib import Path

import pytest

from oxinp._driver import api, errors

# The newest header whose results the table is known to hold; a newer one may add some, and change none.
NEWEST_HEADER = 13050


def _include_folders():
    if "CUDA_HOME" in os.environ:
        yield Path(os.environ["CUDA_HOME"]) / "include"
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        yield from Path(folder).glob("*/include")
    yield Path("/usr/local/cuda/include")


@pytest.fixture(scope="module")
def headers():
    """The text of cuda.h and that of its typedefs, which come with the assembler the kernel tests use."""
    folder = newest_include()
    if folder is None:
        pytest.skip("cuda.h is not installed")
    prototypes, *typedefs = [(folder / name).read_text("utf-8") for name in HEADERS]
    return prototypes + "".join(typedefs), "".join(typedefs)


HEADERS = ("cuda.h", "cudaTypedefs.h", "cudaProfilerTypedefs.h")


def newest_include():
    """Return the folder of the newest headers on this machine, None where there are none."""
    folders = [folder for folder in _include_folders() if all((folder / name).exists() for name in HEADERS)]
    return max(folders, key=lambda folder: header_version((folder / "cuda.h").read_text("utf-8")), default=None)


def header_version(text):
    """Return the CUDA version that a header is of, 12040 for 12.4."""
    return int(re.search(r"#define CUDA_VERSION (\d+)", text)[1])


def _types(parameters):
    """Return parameters without their names, which change from one header to the next."""
    return [re.sub(r"\w+$", "", parameter.strip()) for parameter in parameters.split(",")]


@functools.cache
def _prototypes(text):
    found = {}
    functions = re.findall(r"CUresult\s+CUDAAPI\s+(cu\w+)\(([^;]*?)\);", text)
    functions += re.findall(r"CUresult \(CUDAAPI \*PFN_(cuProfiler\w+)_v\d+\)\(([^;]*?)\);", text)
    for name, parameters in functions:
        # The header sets its stars as it likes: ours stand with the name.
        spaced = re.sub(r"\s*((?:\*\s*)+)", lambda stars: " " + "*" * stars[1].count("*"), parameters)
        found.setdefault(name, []).append(re.sub(r"\s+", " ", spaced).strip())
    return found


@functools.cache
def _versions_by_name(typedefs):
    found = {}
    for name, version in re.findall(r"PFN_(\w+?)_v(\d+)\b", typedefs):
        found.setdefault(name, set()).add(int(version))
    return found


def _versions(name, typedefs):
    return sorted(_versions_by_name(typedefs).get(re.sub(r"_v\d+$", "", name), ()))


@functools.cache
def _renamed(text):
    return dict(re.findall(r"#\s*define (cu\w+)\s+(?:__CUDA_API_PT\w+\()?(cu\w+_v\d+)", text))


def test_prototypes_are_the_headers(headers):
    prototypes, version = _prototypes(headers[0]), header_version(headers[0])
    for name, row in api.FUNCTIONS.items():
        base = re.sub(r"_v\d+$", "", name)
        if name == "cuGraphInstantiateWithFlags":  # the header knows it by the name of what it replaced
            base = "cuGraphInstantiate"
        if row.since > version:
            continue  # it is older than the function
        found = prototypes.get(name, []) + prototypes.get(base, [])
        if version >= NEWEST_HEADER:
            assert row.parameters in found, name
        assert _types(row.parameters) in [_types(parameters) for parameters in found], name


def test_symbols_are_the_newest_that_every_accepted_driver_has(headers):
    renamed = _renamed(headers[0])
    for name, row in api.FUNCTIONS.items():
        base = re.sub(r"_v\d+$", "", name)
        if renamed.get(base, base) != name and name != "cuGraphInstantiateWithFlags":
            newer = [version for version in _versions(name, headers[1]) if version > row.since]
            assert min(newer, default=99999) > api.MINIMUM_VERSION, name


def test_since_is_a_version_of_the_function(headers):
    known = header_version(headers[0])
    rows = api.FUNCTIONS.items()
    assert [name for name, row in rows if row.since not in _versions(name, headers[1]) and row.since <= known] == []


def test_the_table_is_large_and_its_names_are_unique():
    assert len(api.FUNCTIONS) == len(api._ROWS) >= 300


def test_every_result_of_the_header_has_its_row(headers):
    body = re.search(r"typedef enum cudaError_enum \{(.*?)\} CUresult;", headers[0], re.DOTALL)[1]
    rows = {f"CUDA_ERROR_{row.name}": row.code for row in errors.ROWS}
    header = {name: int(code) for name, code in re.findall(r"^\s*(CUDA_ERROR_\w+)\s*=\s*(\d+)", body, re.MULTILINE)}
    assert len(header) > 90
    known = header.keys() & rows.keys()
    assert {name: rows[name] for name in known} == {name: header[name] for name in known}
    if header_version(headers[0]) <= NEWEST_HEADER:
        assert header.keys() <= rows.keys()


def test_pointers_handles_and_numbers():
    row = api.FUNCTIONS["cuLinkAddData_v2"]
    state, kind, data, size, name, num_options, options, values = api.argument_types(row)
    assert (state, data, options, values) == (ctypes.c_void_p,) * 4
    assert (kind, size, name, num_options) == (ctypes.c_int, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_uint)


def test_device_pointers_are_64_bits_everywhere():
    assert api.argument_types(api.FUNCTIONS["cuMemFree_v2"]) == [ctypes.c_uint64]


def test_no_parameters():
    assert api.argument_types(api.FUNCTIONS["cuCtxSynchronize"]) == []


def test_every_type_is_known():
    for name, row in api.FUNCTIONS.items():
        num_parameters = 0 if row.parameters == "void" else row.parameters.count(",") + 1
        assert len(api.argument_types(row)) == num_parameters, name

"""Enumerations and structures against cuda.h: a C program prints the header's values, sizes and offsets."""

import ctypes
import re
import shutil
import subprocess

import pytest

from oxinp._driver import api, enums, structures, work_structures
from oxinp._driver.launch import LaunchAttribute, LaunchConfig
from tests.driver.test_api import NEWEST_HEADER, header_version, newest_include

ENUMS = [vars(enums)[name] for name in enums.__all__]
STRUCTURES = [vars(module)[name] for module in (structures, work_structures) for name in module.__all__]

# Fields that the header spells differently, and structures that `oxinp._driver` has elsewhere.
SIZES = {
    "CUlaunchConfig": ctypes.sizeof(LaunchConfig),
    "CUlaunchAttribute": ctypes.sizeof(LaunchAttribute),
    "CUipcMemHandle": ctypes.sizeof(api.IpcHandle),
    "CUipcEventHandle": ctypes.sizeof(api.IpcHandle),
    "CUtensorMap": 128,
    "CUuuid": 16,
    "CUdeviceptr": 8,
    "CUdevice": 4,
    "CUmemGenericAllocationHandle": 8,
}
UNNAMED = {
    "MemPoolProps.reserved",  # begins earlier than the header's, which has named one of its bytes since
    "DevResource._rest",
}


def members(cls):
    return {name: value for name, value in vars(cls).items() if isinstance(value, int) and not name.startswith("__")}


def enumerator(cls, name):
    return cls.prefix + name


def questions():
    """Return {what: (C expression, our value)}."""
    asked = {}
    for cls in ENUMS:
        for name, value in members(cls).items():
            asked[f"{cls.__name__}.{name}"] = enumerator(cls, name), value
    for cls in STRUCTURES:
        asked[f"sizeof {cls.__name__}"] = f"sizeof({cls.c_name})", ctypes.sizeof(cls)
        for name, *_ in cls._fields_:
            if f"{cls.__name__}.{name}" not in UNNAMED:
                expression = f"offsetof({cls.c_name}, {name})"
                asked[f"{cls.__name__}.{name}"] = expression, getattr(cls, name).offset
    for c_name, nbytes in SIZES.items():
        asked[f"sizeof {c_name}"] = f"sizeof({c_name})", nbytes
    return asked


def is_known(expression, text):
    """Whether a header has all names of an expression."""
    return all(re.search(rf"\b{name}\b", text) for name in re.findall(r"CU\w+", expression))


@pytest.fixture(scope="module")
def header(tmp_path_factory):
    """What the newest header here says of each question, but for what came after it."""
    compiler, include = shutil.which("gcc") or shutil.which("cc"), newest_include()
    if compiler is None or include is None:
        pytest.skip("no C compiler, or cuda.h is not installed")
    folder = tmp_path_factory.mktemp("abi")
    text = (include / "cuda.h").read_text("utf-8")
    asked = {name: expression for name, (expression, _) in questions().items() if is_known(expression, text)}
    assert len(asked) == len(questions()) or header_version(text) < NEWEST_HEADER
    assert len(asked) > 0.9 * len(questions())
    lines = "".join(f'printf("%lld\\n", (long long)({expression}));\n' for expression in asked.values())
    source = f"#include <cuda.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n{lines}return 0;\n}}\n"
    (folder / "abi.c").write_text(source)
    command = [compiler, "-w", "-I", str(include), str(folder / "abi.c"), "-o", str(folder / "abi")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    printed = subprocess.run([str(folder / "abi")], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(asked, map(int, printed), strict=True))


@pytest.mark.parametrize("cls", ENUMS, ids=lambda cls: cls.__name__)
def test_enumerators_have_the_headers_values(cls, header):
    ours = {f"{cls.__name__}.{name}": value for name, value in members(cls).items()}
    assert ours
    known = {name: value for name, value in ours.items() if name in header}
    assert known == {name: header[name] for name in known}


@pytest.mark.parametrize("cls", STRUCTURES, ids=lambda cls: cls.__name__)
def test_structures_are_laid_out_as_the_headers(cls, header):
    ours = {name: value for name, (_, value) in questions().items() if name.split(".")[0].endswith(cls.__name__)}
    assert f"sizeof {cls.__name__}" in ours
    assert ours == {name: header[name] for name in ours}


@pytest.mark.parametrize("c_name", SIZES)
def test_sizes(c_name, header):
    assert header[f"sizeof {c_name}"] == SIZES[c_name]

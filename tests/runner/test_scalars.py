"""Scalars on the device where libraries written in C read numbers, in programs that are run."""

import pytest

from tests.runner.process import OXINP, PYTHON, run, write

JSON = """
import io, json, sys
import numpy as np
s, i = np.arange(3.0).sum(), np.arange(3).sum()
print(json.dumps(s), json.dumps({"a": [s, 1], "b": s}, default=str), json.dumps({s: [s]}, indent=1))
class Encoder(json.JSONEncoder):
    def default(self, o):
        return ["default", type(o).__name__, int(o)]
print(json.dumps({s: [s], "a": [{s + 1: {"b": s}}]}), json.dumps([i], default=lambda o: {s: int(o)}))
print(json.dumps([i, s], cls=Encoder), json.dumps([i, s], cls=Encoder, indent=1), json.dumps([1, "a"], default=str))
json.dump({"x": s * np.inf, "y": [s]}, sys.stdout)
for indent in (None, 1):
    try:
        json.dumps(i, indent=indent)
    except TypeError as error:
        print(error)
    try:
        json.dumps({i: 1}, indent=indent)
    except TypeError as error:
        print(error)
    inside = {s: 1}
    inside["itself"] = inside
    try:
        json.dumps(inside, indent=indent)
    except ValueError as error:
        print(error)
print(type(json.encoder.__loader__).__name__, json.encoder.__spec__.loader is json.encoder.__loader__)
"""

PANDAS = """
import numpy as np
import pandas as pd
s, i, b = np.arange(3.0).sum(), np.arange(3).sum(), np.arange(3).any()
print(pd.Series([s, s]).dtype, pd.Series([i, i]).dtype, pd.Series([b, b]).dtype, pd.Series([s, None]).dtype)
print(pd.Series([s, "a"]).tolist(), pd.Series(s, index=[1, 2]).dtype, pd.Series({"a": s}).dtype, pd.Index([i, i]).dtype)
for frame in ({"a": [s, s], "b": i}, [[s, i]], [{"a": s}]):
    print(pd.DataFrame(frame).dtypes.tolist())
d = pd.DataFrame({"a": [1.0, 2.0]})
d["c"] = s
d.loc[0, "a"] = s
d["e"] = [s, i]
d.loc[2] = [s, s, s]
print(d, d.dtypes.tolist(), d.a.apply(lambda x: np.array([x, 1.0]).sum()).dtype)
x = pd.Series([1.0, 2.0])
print((x * s).dtype, (x == s).tolist(), x.isin([s]).tolist(), x.fillna(s).dtype, x.clip(s).tolist(), pd.isna(s))
"""


@pytest.mark.parametrize("name", ["json", "pandas"])
def test_read_as_numbers(name, tmp_path):
    if name == "pandas":
        pytest.importorskip("pandas")
    folder = tmp_path / "program"
    write(folder, main=JSON if name == "json" else PANDAS)
    ends = [
        run([*command, "main.py"], folder, OXINP_BACKEND="emulator", OXINP_OFFLOAD_THRESHOLD="0")
        for command in (OXINP, PYTHON)
    ]
    assert ends[0].stderr == ends[1].stderr == ""
    assert ends[0].stdout == ends[1].stdout

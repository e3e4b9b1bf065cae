"""Cells of a notebook after ``%load_ext oxinp``, on a stand-in for IPython's shell; test_wheel.py has IPython's own."""

import pytest

import oxinp
from tests.runner.process import PYTHON, run, write

SHELL = """
import ast, codeop, importlib, linecache

class Shell:
    def __init__(self, name):
        self.user_ns, self.magics, self.name, self.count = {"__name__": "__main__"}, {}, name, 0

        self.custom_exceptions = ()

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions, self.handler = kinds, handler

    def showtraceback(self, found, tb_offset, running_compiled_code):
        traceback, names = found[2], []
        while traceback is not None:
            names.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        print(found[0].__name__, names)

    def register_magic_function(self, function, kind, name):
        self.magics[name] = kind, function

    def run_cell(self, text):
        if text.startswith("%load_ext "):
            importlib.import_module(text.split()[1]).load_ipython_extension(self)
        elif text.startswith("%%"):
            magic, _, cell = text[2:].partition("\\n")
            self.magics[magic][1]("", cell)
        else:
            self.count += 1
            name = self.name.format(self.count)
            linecache.cache[name] = len(text), None, text.splitlines(True), name
            try:
                exec(codeop.Compile()(ast.parse(text), name, "exec"), self.user_ns)
            except self.custom_exceptions as error:
                self.handler(self, type(error), error, error.__traceback__, tb_offset=None)

shell = None

def get_ipython():
    return shell
"""

SESSION = """
import IPython
shell = IPython.shell = IPython.Shell({name!r})
shell.run_cell("import numpy as np, numpy; from scipy import linalg")
shell.run_cell({load!r})
shell.run_cell("print(np.__name__)")
shell.run_cell("import numpy as np, beside; import installed; from numpy import *")
shell.run_cell("print(np.__name__, beside.np.__name__, installed.np.__name__, type(ones(3)) is np.ndarray)")
shell.run_cell("import importlib; print(importlib.import_module('numpy').__name__)")
shell.run_cell("def f(): return np.ones(3).reshape(2)\\nf()")
shell.run_cell("%%oxinp.profile\\nx = np.ones(20000)\\nfor i in range(20):\\n    print(float((x * i).sum()))\\n")
"""


@pytest.mark.parametrize(
    ("name", "load"),
    [("<ipython-input-{}-0a1b>", "%load_ext oxinp"), ("/none/ipykernel_17/{}.py", "import oxinp; oxinp.install()")],
    ids=["IPython", "Jupyter"],
)
def test_cells(tmp_path, name, load):
    folder = tmp_path / "notebooks"
    write(folder, session=SESSION.format(name=name, load=load), beside="import numpy as np\n")
    write(tmp_path / "lib", IPython=SHELL, installed="import numpy as np\n")
    done = run([*PYTHON, "session.py"], folder, OXINP_BACKEND="emulator")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == ["numpy", "oxinp oxinp numpy True", "oxinp"]
    assert done.stdout.splitlines()[3] == "ValueError ['run_cell', '<module>', 'f']"  # no frames of ours
    told, *report = done.stderr.splitlines()
    assert (
        told == "oxinp: np, numpy, linalg still mean what was imported before: run the cells with these imports again"
    )
    assert report[1].startswith("profile: ")
    assert "20 launches" in report[1]
    assert any("cell:3: print(float((x * i).sum()))" in line for line in report)


def test_no_notebook():
    with pytest.raises(RuntimeError, match=r"no notebook here to bind numpy in: .* `import oxinp as np`"):
        oxinp.install()

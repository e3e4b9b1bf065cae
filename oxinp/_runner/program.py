"""Running a program as Python runs it: its `__main__`, `sys.argv`, `sys.path[0]` and tracebacks."""

from __future__ import annotations

import builtins
import code
import contextlib
import os
import runpy
import sys
import zipimport
from collections.abc import Callable
from importlib.machinery import BuiltinImporter, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from oxinp._core.errors.frames import is_stand_in
from oxinp._runner import finder
from oxinp._runner.rewrite import compile_source

__all__ = ["at_end", "cut", "open_report", "run_code", "run_module", "run_script"]

at_end: list[Callable[[], object]] = []
"""Called when the program has come to its end; one may end the run with another code, by `sys.exit`."""


def open_report(path: str) -> int:
    """Open a file for what is reported at the end, before the program begins; return its descriptor.

    The program may go to another folder meanwhile, and a name that cannot be written to costs no run.

    Raises
    ------
    OSError
        It cannot be written to.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)


def run_script(path: str, arguments: list[str]) -> None:
    """Run a file, or a folder that holds a ``__main__.py``.

    Parameters
    ----------
    path : str
        As given on the command line; "-" is standard input.
    arguments : list of str
        The program's own.
    """
    sys.argv = [path, *arguments]
    if path == "-":
        if sys.stdin.isatty():
            _lead_path("", Path.cwd(), "<console>")
            _enter(code.interact, None, None, _new_main(__loader__=BuiltinImporter).__dict__)
        else:
            _run_text(sys.stdin.buffer.read(), "<stdin>")
        return
    filename = os.path.abspath(path)  # noqa: PTH100 - as Python: without following links
    if Path(path).is_dir() or _is_zip(path):
        _lead_path(filename, Path(path))
        _new_main()
        _enter(runpy._run_module_as_main, "__main__", False)  # type: ignore[attr-defined]
        return
    folder = Path(filename).resolve().parent
    try:
        source: Any = Path(path).read_bytes()
    except OSError as error:
        sys.stderr.write(f"{sys.executable}: can't open file {filename!r}: [Errno {error.errno}] {error.strerror}\n")
        sys.exit(2)
    _lead_path(str(folder), folder)
    loader: Any = finder.UsersLoader("__main__", filename)
    if source.startswith(MAGIC_NUMBER):
        loader = SourcelessFileLoader("__main__", filename)
        source = loader.get_code("__main__")
    main = _new_main(__file__=filename, __cached__=None, __loader__=loader)
    _enter(_execute, source, filename, main)


def run_module(name: str, arguments: list[str]) -> None:
    """Run a module by name, as ``python -m`` does.

    Parameters
    ----------
    name : str
        Of a module, or of a package with a ``__main__``.
    arguments : list of str
        The program's own.
    """
    sys.argv = ["-m", *arguments]
    _lead_path(str(Path.cwd()), Path.cwd())
    _new_main()
    _enter(runpy._run_module_as_main, name)  # type: ignore[attr-defined]


def run_code(text: str, arguments: list[str]) -> None:
    """Run source text, as ``python -c`` does.

    Parameters
    ----------
    text : str
    arguments : list of str
        The program's own.
    """
    sys.argv = ["-c", *arguments]
    _run_text(text, "<string>")


def _run_text(source: str | bytes, filename: str) -> None:
    _lead_path("", Path.cwd(), filename)
    _enter(_execute, source, filename, _new_main(__loader__=BuiltinImporter))


def _is_zip(path: str) -> bool:
    try:
        zipimport.zipimporter(path)
    except zipimport.ZipImportError:
        return False
    return True


def _lead_path(entry: str, root: Path, text: str | None = None) -> None:
    """Put the program's folder first on `sys.path`, where ``python -m oxinp`` has put the current one."""
    if not sys.flags.safe_path:
        sys.path[0] = entry
    finder.install(root, text)


def _new_main(**attributes: Any) -> ModuleType:
    """Make the program's `__main__` Python's, in place of that of ``python -m oxinp``."""
    main = ModuleType("__main__")
    main.__dict__.update(attributes, __builtins__=builtins)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    return main


def _execute(source: str | bytes | CodeType, filename: str, main: ModuleType) -> None:
    compiled = source if isinstance(source, CodeType) else compile_source(source, filename)
    exec(compiled, main.__dict__)  # noqa: S102 - what a runner is for


def _enter(run: Callable[..., Any], *arguments: Any) -> None:
    """Call what runs the program; what it does not catch is shown without our frames."""
    try:
        run(*arguments)
    except SystemExit:
        _finish()
        raise
    except BaseException:
        _cut_what_is_shown()
        with contextlib.suppress(SystemExit):
            _finish()
        raise
    _finish()


def _finish() -> None:
    for act in at_end:
        act()


def _cut_what_is_shown() -> None:
    """Give the hook for uncaught exceptions, the program's or Python's, the program's own frames."""
    show = sys.excepthook

    def cut_and_show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        show(kind, error, cut(error, traceback))

    sys.excepthook = cut_and_show


def cut(error: BaseException, traceback: TracebackType | None) -> TracebackType | None:
    """Return the program's own frames of an exception's traceback; those that it came from lose the others, too."""
    error.__traceback__ = traceback
    for each in _chain(error):
        each.__traceback__ = _users_part(each)
    return error.__traceback__


def _chain(error: BaseException) -> list[BaseException]:
    """Return an exception and those it came from."""
    found: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and not any(each is known for known in found):
            found.append(each)
            todo += [each.__cause__, each.__context__]
    return found


def _users_part(error: BaseException) -> TracebackType | None:
    """Return an exception's traceback from the program's first frame to the last one that is not of ours.

    Where NumPy raises, its C code leaves no frames, and so neither do we, nor SciPy where we called it. A SyntaxError
    names its line itself: there the frames of the import that compiled the module go as well.
    """
    frames, entry = [], error.__traceback__
    while entry is not None:
        frames.append(entry)
        entry = entry.tb_next
    before = [i for i, each in enumerate(frames) if each.tb_frame.f_code in _ENTRIES]
    frames = frames[before[-1] + 1 :] if before else frames
    hidden = (*_OWN, *_IMPORT) if isinstance(error, SyntaxError) else _OWN
    end = len(frames)
    libraries = tuple(_folder(sys.modules[name]) for name in ("numpy", "scipy") if name in sys.modules)
    while end and _lies_in(frames[end - 1], (*hidden, *libraries)):
        end -= 1
    # NumPy's and SciPy's own functions, called by the program itself, stay: plain Python shows them too.
    if not any(_lies_in(each, hidden) for each in frames[end:]):
        end = len(frames)
    cut = None
    for each in reversed(frames[:end]):
        cut = TracebackType(cut, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return cut


def _folder(package: ModuleType) -> str:
    return str(Path(str(package.__file__)).parent) + os.sep


def _lies_in(entry: TracebackType, prefixes: tuple[str, ...]) -> bool:
    code = entry.tb_frame.f_code
    return code.co_filename.startswith(prefixes) or is_stand_in(code)


# The last frames of ours before the program's.
_ENTRIES = {_enter.__code__, _execute.__code__}
_OWN = (str(Path(__file__).parents[1]) + os.sep,)
_IMPORT = ("<frozen importlib", "<frozen runpy")

"""Code of expanded texts: kept for one version of the module that expands them, else made anew."""

import os
import sys

import pytest

from oxinp._core.lazy.code_cache import CodeCache


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "__pycache__").mkdir()
    path = tmp_path / "module.py"
    path.write_text("")
    return path


def run(cache, expanded, text="text", name="<a text>"):
    """Return what the code of a text gives, and how often that was expanded."""
    count = []
    source, code = cache.code_of(name, text, may_warn=False, expand=lambda: count.append(1) or expanded)
    made = {}
    exec(code, made)  # noqa: S102
    return made["x"], source, len(count)


def files(module):
    return sorted(path.name for path in (module.parent / "__pycache__").iterdir())


def test_code_is_kept(module):
    cache = CodeCache(str(module))
    assert run(cache, "x = 1") == (1, "x = 1", 1)
    assert run(cache, "x = 3", "another", "<another>") == (3, "x = 3", 1)
    cache.write()
    (name,) = files(module)
    assert name.startswith("module.")
    kept = CodeCache(str(module))
    assert run(kept, "x = 2") == (1, "x = 1", 0)


def test_texts_that_have_changed_go(module):
    for text, source in (("text", "x = 1"), ("a new text", "x = 2")):
        cache = CodeCache(str(module))
        run(cache, source, text)
        if text == "text":
            run(cache, "x = 3", "another", "<another>")
        cache.write()
    cache = CodeCache(str(module))
    assert run(cache, "", "a new text") == (2, "x = 2", 0)
    assert run(cache, "", "another", "<another>") == (3, "x = 3", 0)
    assert run(cache, "x = 5") == (5, "x = 5", 1)


def test_it_is_the_modules(module):
    cache = CodeCache(str(module))
    run(cache, "x = 1")
    cache.write()
    os.utime(module, (0, 0))
    assert run(CodeCache(str(module)), "x = 2") == (2, "x = 2", 1)


@pytest.mark.parametrize("content", [b"", b"no marshal", b"\xe9\x05"])
def test_damaged_files_are_not_read(module, content):
    cache = CodeCache(str(module))
    run(cache, "x = 1")
    cache.write()
    (path,) = (module.parent / "__pycache__").iterdir()
    path.write_bytes(content)
    assert run(CodeCache(str(module)), "x = 2") == (2, "x = 2", 1)


def test_nothing_is_written_where_python_writes_nothing(module, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    cache = CodeCache(str(module))
    run(cache, "x = 1")
    cache.write()
    assert not files(module)


def test_folders_that_cannot_be_written_to_are_left(module):
    (module.parent / "__pycache__").rmdir()
    cache = CodeCache(str(module))
    run(cache, "x = 1")
    cache.write()
    assert not (module.parent / "__pycache__").exists()

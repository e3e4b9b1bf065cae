import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oxinp._runtime.cubins import CubinCache, cubin_key

KEY = cubin_key(".version 8.0", 13000, (9, 0))
CUBIN = bytes(range(256)) * 40


@pytest.fixture
def cache(tmp_path):
    return CubinCache(str(tmp_path / "cache"))


def files(cache):
    return sorted(Path(cache.directory, "cubins").iterdir())


def test_round_trip(cache):
    assert cache.load(KEY) is None
    cache.store(KEY, CUBIN)
    assert cache.load(KEY) == CUBIN
    assert CubinCache(cache.directory).load(KEY) == CUBIN
    assert cache.trouble is None
    assert [path.name for path in files(cache)] == [KEY + ".cubin"]  # no temporary file stays


def test_key_depends_on_everything():
    keys = {
        cubin_key(ptx, driver, cc) for ptx in ("a", "b") for driver in (12080, 13000) for cc in ((8, 0), (9, 0), (8, 9))
    }
    assert len(keys) == 12


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda content: content[:10],
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: content[:500] + bytes([content[500] ^ 1]) + content[501:],
        lambda content: content.replace(b"cubin 2", b"cubin 1", 1),
    ],
)
def test_damaged_file_is_deleted(cache, damage):
    cache.store(KEY, CUBIN)
    (path,) = files(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load(KEY) is None
    assert not path.exists()
    cache.store(KEY, CUBIN)
    assert cache.load(KEY) == CUBIN


def test_directory_that_cannot_be_made(tmp_path):
    # A file stands where the directory should: fails for every user, root included.
    (tmp_path / "file").write_text("")
    cache = CubinCache(str(tmp_path / "file" / "cache"))
    assert cache.load(KEY) is None
    cache.store(KEY, CUBIN)
    assert cache.load(KEY) is None
    assert cache.directory in cache.trouble
    assert "OXINP_CACHE_DIR" in cache.trouble


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_write_error_is_remembered_not_raised(cache, monkeypatch, code):
    attempts = []

    def refuse(self, _):
        attempts.append(self)
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    cache.store(KEY, CUBIN)
    cache.store(KEY, CUBIN)
    assert os.strerror(code) in cache.trouble
    assert len(attempts) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_read_only_directory_still_serves(cache):
    cache.store(KEY, CUBIN)
    directory = Path(cache.directory, "cubins")
    directory.chmod(0o500)
    try:
        other = CubinCache(cache.directory)
        other.store(cubin_key("other", 1, (8, 0)), CUBIN)
        assert other.trouble is not None
        assert other.load(KEY) == CUBIN
    finally:
        directory.chmod(0o700)


def test_no_directory():
    cache = CubinCache("")
    cache.store(KEY, CUBIN)
    assert cache.load(KEY) is None
    assert "config.cache_dir" in cache.trouble


def test_replace_refused_by_a_reader_is_no_trouble(cache, monkeypatch):
    cache.store(KEY, CUBIN)

    def refuse(_, target):
        raise PermissionError(errno.EACCES, "in use", str(target))

    monkeypatch.setattr(Path, "replace", refuse)
    cache.store(KEY, CUBIN)
    assert cache.trouble is None
    assert [path.name for path in files(cache)] == [KEY + ".cubin"]


def test_eviction_takes_the_least_recently_used(tmp_path):
    keys = [cubin_key(str(i), 1, (8, 0)) for i in range(10)]
    filling = CubinCache(str(tmp_path))
    for age, key in enumerate(keys):
        filling.store(key, bytes(1000))
        used = time.time() - 100_000 + age * 1000
        os.utime(filling._path(key), (used, used))
    assert filling.load(keys[0]) is not None  # the oldest is used again
    bounded = CubinCache(str(tmp_path), limit_nbytes=6000)
    bounded.store(KEY, bytes(1000))
    left = {path.stem for path in files(bounded)}
    assert left == {keys[0], KEY, *keys[-3:]}
    assert sum(path.stat().st_size for path in files(bounded)) <= 6000


def test_size_is_checked_again_after_many_stores(tmp_path):
    cache = CubinCache(str(tmp_path), limit_nbytes=10_000)
    for i in range(200):
        cache.store(cubin_key(str(i), 1, (8, 0)), bytes(1000))
        assert len(files(cache)) <= 10 + 64
    assert cache.trouble is None


def test_abandoned_temporary_files_are_removed(cache):
    cache.store(KEY, CUBIN)
    old, young = (Path(cache.directory, "cubins", f"{name}.part") for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"")
    os.utime(old, (1, 1))
    CubinCache(cache.directory).store(KEY, CUBIN)
    assert not old.exists()
    assert young.exists()


RACER = """
import sys
from oxinp._runtime.cubins import CubinCache, cubin_key
cache = CubinCache(sys.argv[1], limit_nbytes=60_000)
for turn in range(300):
    number = turn % 17
    key = cubin_key(str(number), 1, (8, 0))
    cubin = cache.load(key)
    expected = bytes([number]) * 5000
    if cubin is None:
        cache.store(key, expected)
    else:
        assert cubin == expected, (turn, len(cubin))
assert cache.trouble is None, cache.trouble
"""


def test_many_processes_race(cache):
    racers = [
        subprocess.Popen([sys.executable, "-c", RACER, cache.directory], stderr=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    assert [(racer.communicate()[1], racer.returncode) for racer in racers] == [("", 0)] * 6
    assert all(path.suffix == ".cubin" for path in files(cache))

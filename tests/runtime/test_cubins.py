import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oxinp._runtime import trust
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

    def refuse(path, _):
        attempts.append(path)
        raise OSError(code, os.strerror(code), path)

    monkeypatch.setattr(trust, "create", refuse)
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

    monkeypatch.setattr(os, "replace", refuse)
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


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")


@pytest.fixture
def give_away(monkeypatch):
    """Return a function that lets a file or folder be another user's, as this process sees it."""

    def give_away(path):
        inode = path.stat().st_ino

        def looking(look):
            def look_again(*args, **options):
                status = look(*args, **options)
                if status.st_ino != inode:
                    return status
                return os.stat_result((*status[:4], os.geteuid() + 12345, *status[5:]))

            return look_again

        for name in ("stat", "fstat"):
            monkeypatch.setattr(os, name, looking(getattr(os, name)))

    return give_away


def open_to(mode):
    return lambda path, _: path.chmod(mode)


DISTRUSTED = {
    "another user's": lambda path, give_away: give_away(path),
    "writable by all": open_to(0o707),
    "writable by the group": open_to(0o770),
}


@posix
@pytest.mark.parametrize("distrust", DISTRUSTED.values(), ids=DISTRUSTED)
def test_files_that_others_may_have_written_are_not_loaded(cache, give_away, distrust):
    cache.store(KEY, CUBIN)
    (path,) = files(cache)
    distrust(path, give_away)
    fresh = CubinCache(cache.directory)
    assert fresh.load(KEY) is None
    assert path.exists()  # it is not ours to remove
    assert fresh.trouble is None  # the next compiled kernel takes its place:
    fresh.store(KEY, CUBIN)
    assert fresh.load(KEY) == CUBIN


@posix
@pytest.mark.parametrize("distrust", DISTRUSTED.values(), ids=DISTRUSTED)
def test_folders_that_others_may_write_to_are_not_used(cache, give_away, distrust):
    cache.store(KEY, CUBIN)
    distrust(Path(cache.directory, "cubins"), give_away)
    fresh = CubinCache(cache.directory)
    assert fresh.load(KEY) is None
    assert cache.directory in fresh.trouble
    assert "other user" in fresh.trouble or "another user" in fresh.trouble
    assert "OXINP_CACHE_DIR" in fresh.trouble
    assert "\n" not in fresh.trouble
    fresh.store(cubin_key("other", 1, (8, 0)), CUBIN)
    assert len(files(cache)) == 1  # nothing is given to them either


@posix
@pytest.mark.parametrize("umask", [0o002, 0o000, 0o077])
def test_what_is_stored_is_loaded_whatever_the_umask(cache, umask):
    before = os.umask(umask)
    try:
        cache.store(KEY, CUBIN)
    finally:
        os.umask(before)
    assert cache.load(KEY) == CUBIN
    assert cache.trouble is None


@posix
def test_the_administrators_files_are_loaded(cache, monkeypatch):
    cache.store(KEY, CUBIN)
    (path,) = files(cache)
    owner = path.stat().st_uid
    monkeypatch.setattr(trust, "_ADMINISTRATOR", owner)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert CubinCache(cache.directory).load(KEY) == CUBIN


@posix
def test_a_file_that_is_exchanged_while_it_is_opened_is_not_loaded(cache, monkeypatch):
    cache.store(KEY, CUBIN)
    (path,) = files(cache)
    look = os.stat

    def look_and_exchange(name, **options):
        status = look(name, **options)
        path.chmod(0o666)
        return status

    monkeypatch.setattr(os, "stat", look_and_exchange)
    assert CubinCache(cache.directory).load(KEY) is None


@posix
def test_ignored_files_are_counted(cache):
    for number in range(3):
        cache.store(cubin_key(str(number), 1, (8, 0)), CUBIN)
    assert cache.num_ignored() == 0
    for path in files(cache)[:2]:
        path.chmod(0o666)
    assert cache.num_ignored() == 2


def test_on_windows_the_users_own_folder_alone_is_trusted(cache, monkeypatch, tmp_path):
    cache.store(KEY, CUBIN)
    monkeypatch.delattr(os, "geteuid", raising=False)
    home = Path(cache.directory).parent
    for folder, loaded, trouble in ((home, CUBIN, False), (tmp_path / "another", None, True)):
        monkeypatch.setattr(os.path, "expanduser", lambda _, folder=folder: str(folder))
        fresh = CubinCache(cache.directory)
        assert fresh.load(KEY) == loaded
        assert (fresh.trouble is not None) == trouble
    assert "it is outside of the user's own folder, where other users may write; set config.cache_dir" in fresh.trouble

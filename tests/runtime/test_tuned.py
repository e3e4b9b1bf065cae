"""The database of choices: round trips, damage, who wins, how near is near, and how long an answer takes."""

import json
import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from oxinp._kernels.gemm import select
from oxinp._kernels.gemm.multistage.spec import TileConfig
from oxinp._ptx.types import f64
from oxinp._runtime import tuned
from oxinp._runtime.tuned import Database, Row, TuningWarning


class Question(NamedTuple):
    family: str = "matmul/multistage"
    key: tuple = ("f64", "f64")
    layout: tuple = ("k", "mn")
    shape: tuple = (1, 1024, 1024, 1024)


def row(shape=(1, 1024, 1024, 1024), layout=("k", "mn"), key=("f64", "f64"), **answer):
    return Row("matmul/multistage", key, layout, shape, answer or {"tile_m": 64}, 1e-4, 2e-4, "a device")


@pytest.fixture
def shipped(tmp_path):
    folder = tmp_path / "shipped"
    folder.mkdir()
    (folder / "sm_80.json").write_text(tuned.dump((8, 0), [row(tile_m=1), row((1, 8192, 8192, 8192), tile_m=2)]))
    return folder


@pytest.fixture
def data(tmp_path, config, shipped):
    config.cache_dir = str(tmp_path / "cache")
    return Database((8, 6), shipped)


def test_round_trip(data):
    rows = [row(tile_m=64, name="x", scale=0.5, is_split=True), row((1, 256, 256, 256), ("mn", "k"), tile_m=32)]
    path = data.store(rows)
    assert path == data.path
    assert path.name == "sm_86.json"
    assert sorted(tuned.load(path)) == sorted(rows)
    assert data(Question()) == rows[0].answer
    # What is stored later replaces what was stored for the same problem, and nothing else.
    data.store([row(tile_m=128)])
    assert data(Question()) == {"tile_m": 128}
    assert len(tuned.load(path)) == 2
    assert not [each for each in path.parent.iterdir() if each != path]


def test_the_users_file_comes_before_the_shipped_one(data):
    assert data(Question()) == {"tile_m": 1}
    assert data.find(Question()).source == "shipped"
    data.store([row(tile_m=3)])
    assert data(Question()) == {"tile_m": 3}
    assert data.find(Question()).source == str(data.path)
    assert data(Question(shape=(1, 8192, 8192, 8192))) == {"tile_m": 2}


def test_whether_anything_is_known_does_not_depend_on_extents(data, config):
    assert data.knows(Question(shape=(1, 1, 1, 1)))
    assert data.knows(Question(layout=("x", "y")))
    unknown = Question(family="matmul/other"), Question(key=("f32", "f32")), Question(shape=(1024,))
    assert not any(map(data.knows, unknown))
    version = config.version
    data.store([row((7,))])
    assert data.knows(Question(shape=(1024,)))
    assert config.version > version


def test_the_nearest_is_found(data):
    sizes = (512, 1024, 2048, 4096)
    data.store([row((1, size, size, size), tile_m=size) for size in sizes])
    for m, n, depth, expected in ((1100, 1000, 1024, 1024), (2048, 2048, 1500, 2048), (500, 520, 600, 512)):
        assert data(Question(shape=(1, m, n, depth))) == {"tile_m": expected}
    found = data.find(Question(shape=(1, 1024, 1024, 1448)))
    assert found.row.shape[1] == 1024
    assert found.distance == pytest.approx(0.5, abs=1e-3)
    # Nothing is known of what is far away: a batch, long K, other dtypes and families.
    for question in (
        Question(shape=(64, 1024, 1024, 1024)),
        Question(shape=(1, 1024, 1024, 16384)),
        Question(key=("f32", "f32")),
        Question(family="matmul/other"),
        Question(shape=(1024,)),
    ):
        assert data(question) is None


def test_another_layout_is_further_away(data):
    data.store([row((1, 256, 256, 256), ("mn", "mn"), tile_m=5), row((1, 290, 256, 256), ("k", "mn"), tile_m=6)])
    assert data(Question(shape=(1, 256, 256, 256))) == {"tile_m": 6}
    assert data(Question(layout=("mn", "mn"), shape=(1, 256, 256, 256))) == {"tile_m": 5}
    assert data.find(Question(layout=("mn", "k"), shape=(1, 256, 256, 256))).distance == tuned.LAYOUT_DISTANCE


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "Expecting"),
        ("[]", "not of format 1"),
        ('{"format": 9, "rows": []}', "not of format 1"),
        ('{"format": 1, "rows": [{"family": "x"}]}', "a row of it is damaged: 'shape'"),
        (json.dumps({"format": 1, "rows": [row((1, 0))._asdict()]}), "a row of it is damaged: shape"),
        ("\xff", "decode"),
    ],
)
def test_a_damaged_file_is_told_of_and_the_defaults_are_used(data, text, why):
    data.path.parent.mkdir(parents=True)
    data.path.write_bytes(text.encode("latin-1"))
    with pytest.warns(TuningWarning, match=f"are not used: .*{why}.*remove the file, or run `python -m oxinp tune`"):
        assert data(Question()) == {"tile_m": 1}
    assert data(Question()) == {"tile_m": 1}  # told of once
    with pytest.warns(TuningWarning):
        data.store([row(tile_m=7)])
    assert data(Question()) == {"tile_m": 7}


posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners here")


@posix
@pytest.mark.parametrize("of_folder", [False, True], ids=["file", "folder"])
def test_what_others_may_have_written_is_not_used(data, of_folder):
    path = data.store([row(tile_m=3)])
    assert tuned.ignored() == []
    (path.parent if of_folder else path).chmod(0o777)
    fresh = Database(data.cc, data._shipped)
    assert fresh(Question()) == {"tile_m": 1}
    (told,) = tuned.ignored()
    assert str(path) in told
    assert "other users may write to" in told
    if of_folder:
        with pytest.raises(PermissionError, match="other users may write to it"):
            fresh.store([row(tile_m=4)])
    else:
        fresh.store([row(tile_m=4)])  # in its place
        assert fresh(Question()) == {"tile_m": 4}
        assert tuned.ignored() == []


@posix
@pytest.mark.parametrize("umask", [0o002, 0o000])
def test_what_is_stored_is_used_whatever_the_umask(data, umask):
    before = os.umask(umask)
    try:
        data.store([row(tile_m=3)])
    finally:
        os.umask(before)
    assert data(Question()) == {"tile_m": 3}


def test_where_the_planner_was_right_it_is_asked(data):
    data.store([row(tile_m=64)._replace(seconds=2e-4), row((1, 4096, 4096, 4096), tile_m=128)])
    assert data(Question()) is None
    assert data.find(Question()).row.is_default
    assert data(Question(shape=(1, 3000, 4096, 4096))) == {"tile_m": 128}


def test_without_a_folder(data, config):
    config.cache_dir = ""
    assert data(Question()) == {"tile_m": 1}
    with pytest.raises(FileNotFoundError, match="OXINP_CACHE_DIR"):
        data.store([row()])


def test_another_folder_is_read_anew(data, config, tmp_path):
    data.store([row(tile_m=3)])
    assert data(Question()) == {"tile_m": 3}
    config.cache_dir = str(tmp_path / "other")
    assert data(Question()) == {"tile_m": 1}


def test_two_that_write_keep_each_others_rows(data, shipped):
    def write(number):
        Database((8, 6), shipped).store([row((1, number, 1, 1), tile_m=number)])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.shape[1] for each in tuned.load(data.path)} == set(range(1, 9))


def test_a_lock_whose_owner_died_is_taken(data):
    data.path.parent.mkdir(parents=True)
    lock = data.path.with_name(data.path.name + ".lock")
    lock.touch()
    os.utime(lock, (0, 0))
    data.store([row(tile_m=3)])
    assert not lock.exists()


def test_newer_devices_take_the_newest_shipped_file(shipped, config, tmp_path):
    config.cache_dir = str(tmp_path / "none")
    (shipped / "sm_90.json").write_text(tuned.dump((9, 0), [row(tile_m=90)]))
    found = {cc: Database(cc, shipped)(Question()) for cc in ((8, 0), (8, 9), (9, 0), (12, 0), (7, 5))}
    old, new = {"tile_m": 1}, {"tile_m": 90}
    assert found == {(8, 0): old, (8, 9): old, (9, 0): new, (12, 0): new, (7, 5): None}


def turns(count):
    """Return the seconds that so many turns of an empty loop take on this machine."""
    began = time.thread_time()
    for _ in range(count):
        pass
    return time.thread_time() - began


def test_answers_take_less_than_ten_microseconds(data):
    limit = max(10e-6, min(turns(600) for _ in range(400)))  # a slow machine has as long as such turns take
    data.store([row((count, m, m, k)) for count in (1, 64) for m in (64, 256, 1024, 4096) for k in range(64, 1000, 64)])
    data(Question())
    first, again = [], []
    for i in range(4000):  # on a busy machine most are slow
        question = Question(shape=(1, 64 + i, 64 + 3 * i, 900 + i))
        for times in (first, again):
            began = time.thread_time()
            data(question)
            times.append(time.thread_time() - began)
        if min(first) < limit and min(again) < limit / 5:
            break
    assert min(first) < limit
    assert min(again) < limit / 5


FILES = sorted((Path(tuned.__file__).with_name("measured")).glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_shipped_files_are_whole(path):
    rows = tuned.load(path)
    assert rows
    number = int(path.stem.removeprefix("sm_"))
    assert path.read_text(encoding="utf-8") == tuned.dump(divmod(number, 10), rows)
    assert len({each.problem for each in rows}) == len(rows)
    assert all(0 < each.seconds <= each.default_seconds for each in rows)


def test_hoppers_choices_are_shipped(config):
    config.cache_dir = ""
    data = Database((9, 0))
    near = Question(shape=(1, 500, 512, 530))
    answer = data(near)
    assert TileConfig(**answer).tile_m * TileConfig(**answer).tile_n == 32 * 64
    asked = []
    device = SimpleNamespace(
        num_sms=132, cc=(9, 0), max_shared_nbytes=227 << 10, tuned=lambda c: asked.append(c) or data(c)
    )
    a, b = (select.Matrices(f64, (512, 1), 256) for _ in range(2))
    plan = select.plan((512, 512), 512, a, b, f64, f64, device)
    assert asked[0].is_legal(TileConfig(**answer))
    assert plan.steps[0].grid == (512 // 32 * 512 // 64, 1, 1)


def test_the_wheel_has_them(tmp_path):
    pytest.importorskip("hatchling")
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.endswith(".json")}
        assert names == {f"oxinp/_runtime/measured/{path.name}" for path in FILES}
        assert all(archive.read(f"oxinp/_runtime/measured/{path.name}") == path.read_bytes() for path in FILES)

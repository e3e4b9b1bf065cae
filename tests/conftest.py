"""Which backend the suite runs on, and the fixtures every folder shares.

The suite runs on the emulator unless OXINP_BACKEND says otherwise, so it means the same on every machine. With
OXINP_REQUIRE_GPU=1 it runs on the GPU, and what would be skipped for want of one fails instead. On the emulator the
whole suite runs a quarter of the cases of tests that have many; folders, modules and tests that are named run all. With
``--full`` it runs everything: all cases, tests marked `slow`, every Spec through ptxas, and programs of the fuzzer that
nobody has run before.
"""

import gc
import importlib
import os
import random
import sys
import time

import pytest

from tests.thinned import a_share
from tests.turns import taking_turns

REQUIRE_GPU = os.environ.get("OXINP_REQUIRE_GPU", "") == "1"
LONG_SECONDS = 1.0  # a module that took less has left little
# Hundreds of processes that tests start would compile the same modules, each for itself.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Before anything imports oxinp: the environment is read once, at import.
os.environ.setdefault("OXINP_BACKEND", "cuda" if REQUIRE_GPU else "emulator")


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="run what takes long, too")
    parser.addoption("--share", type=int, metavar="N", help="run one in N cases of tests that have many")


def pytest_configure(config):
    """Say what ``--full`` means, before test modules are imported, and to the processes of xdist."""
    if config.option.share is None:  # these are given what is found here
        is_whole = config.args_source is not pytest.Config.ArgsSource.ARGS
        config.option.share = 4 if is_whole and not (config.option.full or REQUIRE_GPU) else 1
    if config.option.full:
        os.environ["OXINP_EVERY_SPEC"] = "1"
        os.environ.setdefault("OXINP_FUZZ_SEED", str(random.SystemRandom().randrange(10**9)))


def pytest_report_header(config):
    seed = os.environ.get("OXINP_FUZZ_SEED")
    return f"fuzzer: new programs, OXINP_FUZZ_SEED={seed} repeats them" if config.option.full else None


def pytest_collection_finish():
    """Spare the garbage collector the thousands of tests, which are there to the end, and most of its rounds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session", autouse=True)
def machine_code():
    """Have slots in machine code from the first call on, where any test imports oxinp."""
    if "oxinp" in sys.modules:
        importlib.import_module("tests.machine_code").write_all()


@pytest.fixture(scope="module", autouse=True)
def forget_kernels():
    """Let go of what a module compiled: the kernels of thousands of tests would take gigabytes."""
    began = time.monotonic()
    yield
    for name, module in tuple(sys.modules.items()):
        if name.startswith("oxinp._kernels.") and hasattr(getattr(module, "make", None), "cache_clear"):
            module.make.cache_clear()
    expr = sys.modules.get("oxinp._core.lazy.expr")
    for table in () if expr is None else (*expr._TABLES, expr._STRUCTURES):
        table.clear()
        table.old.clear()
    # What stays, stays to the end: looking for storages, and for garbage, would go through all of it each time.
    if time.monotonic() - began > LONG_SECONDS:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def forget_balance():
    """Let no test learn from others where arrays belong."""
    balance = sys.modules.get("oxinp._core.lazy.balance")
    if balance is not None:
        config = importlib.import_module("oxinp._config").config
        balance.balance.begin(config.offload_threshold, is_adaptive=config.adaptive_placement)
    placement = sys.modules.get("oxinp._core.lazy.placement")
    if placement is not None:
        placement.alike.clear()


def _devices():
    """Return the compute capability of every CUDA device, and why there is none."""
    device_module = importlib.import_module("oxinp._driver.device")
    errors = importlib.import_module("oxinp._driver.errors")
    try:
        return [device.compute_capability for device in device_module.list_devices()], ""
    except errors.Unavailable as error:
        return [], str(error)


def pytest_collection_modifyitems(config, items):
    """Leave out what is slow but with ``--full``, and skip what this machine cannot run."""
    quick = [item for item in items if config.option.full or not item.get_closest_marker("slow")]
    kept = a_share(quick, config.option.share)
    kept_items = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept_items])
    items[:] = kept
    # The longest tests first: at the end they would run alone.
    items.sort(key=lambda item: item.path.name != "test_benchmarks.py")
    _skip_impossible(items)


def _skip_impossible(items):
    """Skip what wants a GPU that is not there or not asked for; under OXINP_REQUIRE_GPU=1 let it run and fail."""
    needs = {"gpu", "hopper", "multi_gpu"}
    wanting = [item for item in items if any(mark.name in needs for mark in item.iter_markers())]
    if not wanting:
        return
    capabilities, reason = _devices() if os.environ["OXINP_BACKEND"] == "cuda" else ([], "set OXINP_REQUIRE_GPU=1")
    if not capabilities and REQUIRE_GPU:
        return
    conditions = {
        "gpu": (bool(capabilities), f"no GPU: {reason}"),
        "hopper": (any(cc == (9, 0) for cc in capabilities), f"no device of compute capability 9.0: {reason}"),
        "multi_gpu": (len(capabilities) >= 2, "fewer than two GPUs"),
    }
    for item in wanting:
        for name, (is_met, why) in conditions.items():
            if item.get_closest_marker(name) and not is_met:
                item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session", autouse=REQUIRE_GPU)
def required_gpu():
    """Fail at once, with the driver's reason, where OXINP_REQUIRE_GPU=1 and there is no GPU."""
    capabilities, reason = _devices()
    if not capabilities:
        pytest.fail(f"OXINP_REQUIRE_GPU=1, but there is no GPU: {reason}", pytrace=False)


@pytest.fixture
def config():
    """Return `oxinp.config`; whatever the test sets is put back."""
    module = importlib.import_module("oxinp._config")
    settings = {row.name: getattr(module.config, row.name) for row in module.SETTINGS}
    # To set this looks at every place that machine code has, which takes longer than most tests.
    is_used = settings.pop("machine_code")
    with module.config.override(**settings):
        yield module.config
    if module.config.machine_code != is_used:
        module.config.machine_code = is_used


DEFAULT = pytest.param(65536, marks=pytest.mark.slow, id="threshold-64K")  # of small arrays it is infinity


@pytest.fixture(params=[pytest.param(0, id="threshold-0"), DEFAULT, pytest.param(float("inf"), id="threshold-inf")])
def offload_threshold(request, config):
    """Run the test with everything on the device, the default placement, and everything on the host."""
    config.offload_threshold = request.param
    return request.param


@pytest.fixture
def on_device(config):
    """Place every array on the device, whatever its size."""
    config.offload_threshold = 0


@pytest.fixture
def stats():
    """Return `oxinp.cuda.stats` after a reset: calling it gives the counts since the test began."""
    cuda = importlib.import_module("oxinp.cuda")
    cuda.reset_stats()
    return cuda.stats


@pytest.fixture
def takes_turns():
    """Have threads take turns every few bytecodes; see `turns`."""
    with taking_turns():
        yield


@pytest.fixture
def one_stream(monkeypatch):
    """Forget that a stream or a device was ever chosen; what the test chooses is forgotten, too."""
    here = importlib.import_module("oxinp._runtime.here")
    schedule = importlib.import_module("oxinp._core.lazy.schedule")
    timeline = importlib.import_module("oxinp._runtime.timeline")
    monkeypatch.setattr(timeline._elsewhere, "uses", None)
    for pool in tuple(timeline.POOLS):  # where each backend takes memory from: whatever changes it is undone
        monkeypatch.setattr(pool.owner, "allocate", pool.owner.allocate)
    monkeypatch.setattr(here, "are_several", False)
    # Memory goes on coming from the timeline that there has been, if a test before has asked for streams on a real GPU.
    monkeypatch.setattr(here._Thread, "timeline", getattr(here._Thread, "timeline", None), raising=False)
    monkeypatch.setattr(here, "thread", here._Thread())
    recorders = list(schedule.RECORDERS)
    while schedule._note_origin in schedule.RECORDERS:  # of a stream that a test before has chosen on a real GPU
        schedule.unwatch(schedule._note_origin)
    yield
    schedule.RECORDERS[:] = recorders
    schedule._follow_recorders()

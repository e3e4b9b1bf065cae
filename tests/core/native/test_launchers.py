"""Launches with any grid by machine code: what the driver is told, and what the launcher knows of it, as by Python."""

import ctypes
import functools
import sys

import pytest

import oxinp
from oxinp._core.native import launchers, objects
from oxinp._core.native.given import GIVEN, ROOM
from oxinp._core.native.making import COST, NUMBER, Making
from oxinp._core.native.pages import mapped
from oxinp._driver import errors
from oxinp._driver.launch import Launcher
from oxinp._driver.module import Module
from oxinp._runtime.counters import Stats
from oxinp._runtime.launches import Launching
from tests.driver.fake_library import open_context

pytestmark = pytest.mark.skipif(objects.VECTORCALL is None, reason="calls of functions have no other code")
MOST = 8


@functools.cache
def code():
    """Return the code of a launch as a function of the launching function, how many arguments there are and these."""
    call = Making(oxinp.ndarray, None, ROOM)
    code = call.code
    call.begin()
    code.load("r12", "rsp", 0)
    call.begin_made()
    call.keep_at(COST, "rbx")
    code.store("rsp", NUMBER, "rbp")
    for place in range(MOST):
        code.load("rax", "r12", 8 * place)
        code.store("rsp", GIVEN + 8 * place, "rax")
    launchers.launch_given(call, GIVEN)
    code.set("r14", id(None))
    code.jump("give back")
    code.label("raised")
    code.set("r14", 0)
    code.label("give back")
    call.drop_made()
    code.move("rax", "r14")
    call.end_body()
    (address,) = mapped([code.assembled()])
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_ssize_t, ctypes.c_void_p)
    return kind(address)


def launch(function, *given):
    items = (ctypes.py_object * MOST)(*given, *[None] * (MOST - len(given)))
    assert code()(function, len(given), ctypes.addressof(items)) is None


@pytest.fixture
def made():
    """A launcher, the library that it is of, what counts and where its stream is."""
    context, fake = open_context()
    function = Module.from_ptx(context, "x").function("axpy")
    counter, current = Stats(), Launching()
    launcher = Launcher(function, (1, 1, 1), (256, 2, 1), 0, "<QQI", 3, (), current=current, counter=counter)
    return launcher, fake, counter, current


def test_launches_are_what_python_makes(made):
    launcher, fake, counter, _ = made
    for grid in ((5, 1, 1), (5, 1, 1), (6, 2, 3), (2**30 - 1, 65535, 65535), (1, 1, 1), (2**31 - 1, 1, 1)):
        for call in (launch, lambda function, *given: function(*given)):
            before = counter.launches
            call(launcher.anywhere, grid, 2**62, 9, 7)
            assert fake.launches[-1].grid == grid
            assert fake.launches[-1].unpack("<QQI") == (2**62, 9, 7)
            assert counter.launches == before + 1
    assert len(fake.launches) == 12


def test_pythons_launches_know_of_the_grid(made):
    launcher, fake, _, _ = made
    for _ in range(3):
        launcher.anywhere((5, 1, 1), 1, 2, 3)
        launch(launcher.anywhere, (7, 1, 1), 4, 5, 6)
        assert [each.grid for each in fake.launches[-2:]] == [(5, 1, 1), (7, 1, 1)]


def test_streams_are_followed(made):
    launcher, fake, _, current = made
    for stream in (0, 0x10, 0x10, 0x1_0000_0077):
        current.stream = stream
        for _ in range(2):
            launch(launcher.anywhere, (5, 1, 1), 1, 2, 3)
            assert fake.launches[-1].stream == stream


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 65536, 1), (1, 1, -1), (2**31, 1, 1), (1, 1)])
def test_grids_that_no_device_takes_are_refused(made, grid):
    launcher, fake, counter, _ = made
    with pytest.raises((errors.LaunchError, ValueError)):
        launch(launcher.anywhere, grid, 1, 2, 3)
    assert not fake.launches
    assert not counter.launches


def test_what_the_driver_refuses_is_raised(made):
    launcher, fake, counter, _ = made
    launch(launcher.anywhere, (5, 1, 1), 1, 2, 3)
    fake.results["cuLaunchKernelEx"] = [701, 0]
    with pytest.raises(errors.LaunchError, match="grid \\(6, 1, 1\\)"):
        launch(launcher.anywhere, (6, 1, 1), 1, 2, 3)
    assert counter.launches == 1
    launch(launcher.anywhere, (6, 1, 1), 1, 2, 3)
    assert counter.launches == 2


def test_a_context_that_is_not_current_is_made_so(made):
    launcher, fake, counter, _ = made
    fake.results["cuLaunchKernelEx"] = [201, 0]
    launch(launcher.anywhere, (6, 1, 1), 1, 2, 3)
    assert counter.launches == 1


def test_parameters_that_do_not_fit_are_refused(made):
    launcher, fake, _, _ = made
    with pytest.raises(Exception, match=r"argument|range|required"):
        launch(launcher.anywhere, (6, 1, 1), "x", 2, 3)
    assert not fake.launches


def test_the_log_has_the_number_of_the_launch(made):
    launcher, _, counter, _ = made
    counter.launches = 40
    launch(launcher.anywhere, (6, 1, 1), 1, 2, 3)
    ((_, last, _),) = launcher.function.module.context.launches._launchers.values()
    assert last() == counter.launches == 41


def test_other_functions_are_called():
    given = []
    launch(lambda *parameters: given.append(parameters), (5, 1, 1), 1, 2.5)
    assert given == [((5, 1, 1), 1, 2.5)]


def test_references_are_given_back(made):
    launcher, _, _, _ = made
    grid, large = (6, 1, 1), 2**60 + 1
    launch(launcher.anywhere, grid, large, 2, 3)
    before = [sys.getrefcount(each) for each in (grid, large, launcher.anywhere, launcher)]
    for _ in range(50):
        launch(launcher.anywhere, grid, large, 2, 3)
    assert [sys.getrefcount(each) for each in (grid, large, launcher.anywhere, launcher)] == before

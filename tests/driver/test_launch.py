import ctypes
import gc
import itertools
import struct
import threading
from functools import partial

import pytest

from oxinp._driver import errors
from oxinp._driver.launch import LaunchAttribute, LaunchConfig, Launcher, split_format
from oxinp._driver.module import Module


@pytest.fixture
def function(opened):
    return Module.from_ptx(opened[0], "x").function("axpy")


def make(function, param_format="<QQI", num_varying=2, constants=(7,), **options):
    return Launcher(function, (3, 4, 5), (256, 2, 1), 0, param_format, num_varying, constants, **options)


def test_structures_are_the_headers():
    assert ctypes.sizeof(LaunchConfig) == 56
    offsets = {name: getattr(LaunchConfig, name).offset for name, *_ in LaunchConfig._fields_}
    assert offsets == {
        "grid": 0,
        "block": 12,
        "shared_nbytes": 24,
        "stream": 32,
        "attributes": 40,
        "num_attributes": 48,
    }
    assert ctypes.sizeof(LaunchAttribute) == 72
    assert (LaunchAttribute.id.offset, LaunchAttribute.value.offset) == (0, 8)


def test_a_launch_hands_over_everything(function, fake):
    launcher = Launcher(function, (3, 4, 5), (256, 2, 1), 70_000, "<QQI4xd", 3, (2.5,), stream=0x1_0000_0077)
    launcher(1 << 63, 2, 3)
    (launch,) = fake.launches
    assert (launch.grid, launch.block, launch.shared_nbytes) == ((3, 4, 5), (256, 2, 1), 70_000)
    assert launch.stream == 0x1_0000_0077
    assert launch.function == function.handle
    assert launch.kernel_params is None
    assert launch.attributes == {}
    assert (launch.extra[0], launch.extra[2], launch.extra[4]) == (1, 2, None)
    assert launch.unpack("<QQI4xd") == (1 << 63, 2, 3, 2.5)
    assert launcher.nbytes == len(launch.params) == 32


def test_only_the_leading_parameters_change(function, fake):
    launcher = make(function, "<QIBxH", 1, (5, 6, 7))
    for ptr in (10, 20):
        launcher.launch(ptr)
    assert [launch.unpack("<QIBxH") for launch in fake.launches] == [(10, 5, 6, 7), (20, 5, 6, 7)]


@pytest.mark.parametrize("num_varying", range(4))
def test_any_number_of_parameters_may_vary(num_varying, function, fake):
    values = (11, 22, 33)
    launcher = make(function, "<QQI", num_varying, values[num_varying:])
    launcher(*values[:num_varying])
    assert fake.launches[0].unpack("<QQI") == values


def test_no_parameters_at_all(function, fake):
    make(function, "<", 0, ())()
    assert fake.launches[0].params == b""


@pytest.mark.parametrize("arguments", [(), (1,), (1, 2, 3), ("x", 1), (-1, 0)])
def test_wrong_arguments_launch_nothing(arguments, function, fake):
    with pytest.raises(struct.error):
        make(function)(*arguments)
    assert not fake.launches


@pytest.mark.parametrize("constants", [(), (1, 2), (-1,)])
def test_wrong_constants_make_no_launcher(constants, function):
    with pytest.raises(struct.error):
        make(function, constants=constants)


def test_every_scalar_type_travels(function, fake):
    param_format = "<bBhHiIqQefd?"
    values = (-1, 2, -3, 4, -5, 6, -7, 8, 0.5, 1.5, 2.5, True)
    for num_varying in (0, 5, 12):
        make(function, param_format, num_varying, values[num_varying:])(*values[:num_varying])
        assert fake.launches[-1].unpack(param_format) == values


@pytest.mark.parametrize("num_varying", range(4))
def test_with_a_block_by_value_parameters_go_one_by_one(num_varying, function, fake):
    # A packed buffer has them where `struct` puts them; the compiler aligns blocks within the constant bank.
    values, codes = (9, bytes(range(128)), 5), ("<Q", "<128s", "<I")
    make(function, "<Q56x128sI", num_varying, values[num_varying:])(*values[:num_varying])
    (launch,) = fake.launches
    assert launch.extra is None
    addresses = (ctypes.c_void_p * len(codes)).from_address(launch.kernel_params)
    given = (ctypes.string_at(address, struct.calcsize(code)) for address, code in zip(addresses, codes, strict=True))
    assert tuple(struct.unpack(code, data)[0] for code, data in zip(codes, given, strict=True)) == values


def test_buffers_are_aligned_and_apart(function, fake):
    launchers = [make(function, "<Q" + "B" * n, 1, (0,) * n) for n in range(20)]
    for launcher in launchers:
        launcher(1)
    addresses = {launch.param_address for launch in fake.launches}
    assert len(addresses) == 20
    assert all(address % 64 == 0 for address in addresses)


def test_cluster(function, fake):
    make(function, cluster=(2, 1, 1))(1, 2)
    assert fake.launches[0].attributes == {4: (2, 1, 1, *(0,) * 13)}
    assert "cuFuncSetAttribute" not in fake.names()


def test_a_large_cluster_is_allowed_first(function, fake):
    make(function, cluster=(16, 1, 1))(1, 2)
    assert fake.arguments("cuFuncSetAttribute") == (function.handle, 14, 1)


def test_dynamic_shared_memory_is_allowed_first(function, fake):
    Launcher(function, (1, 1, 1), (32, 1, 1), 200_000, "<", 0, ())()
    assert fake.arguments("cuFuncSetAttribute") == (function.handle, 8, 200_000)


@pytest.mark.parametrize("varying", [(), (1,), (1, 2)])
def test_the_counter_counts_launches_that_happened(varying, function, fake):
    class Counter:
        launches = 0

    counter, told = Counter(), []
    constants = (1, 2)[len(varying) :]
    launcher = make(
        function, "<QQ", len(varying), constants, counter=counter, after=lambda: told.append(counter.launches)
    )
    launcher(*varying)
    launcher.launch(*varying)
    fake.results["cuLaunchKernelEx"] = 701
    with pytest.raises(errors.LaunchError):
        launcher(*varying)
    assert counter.launches == 2
    assert told == [1, 2]


def test_the_stream_is_fixed_or_followed(function, fake):
    class Current:
        stream = 0x10

    current = Current()
    fixed, following = make(function, stream=0x77), make(function, current=current)
    bound = make(function, num_varying=0, constants=(1, 2, 7), current=current)
    for stream in (0x10, 0x20, 0x20, 0, 0x1_0000_0000):
        current.stream = stream
        following(1, 2)
        bound()
        assert [launch.stream for launch in fake.launches[-2:]] == [stream, stream]
    fixed(1, 2)
    assert fake.launches[-1].stream == 0x77


def test_the_stream_may_change_while_a_launcher_is_made(function, fake):
    """Another thread launches elsewhere meanwhile, and then this one there."""

    class Current:
        streams = itertools.chain([0x10], itertools.repeat(0x20))
        stream = property(lambda self: next(self.streams))

    make(function, current=Current())(1, 2)
    assert fake.launches[-1].stream == 0x20


class Interrupting:
    """A parameter that has something done while it is packed, as the garbage collector may have at any time."""

    def __init__(self, value, work):
        self.value, self.work = value, work

    def __index__(self):
        self.work()
        return self.value


def test_a_launch_in_the_middle_of_another_leaves_that_one_as_it_was(function, fake):
    launcher = make(function)
    there, elsewhere = (partial(launcher.anywhere, grid) for grid in ((5, 1, 1), (6, 1, 1)))
    cases = [
        (launcher.launch, (3, 4, 5), lambda: launcher.launch(8, 9)),
        (there, (5, 1, 1), lambda: elsewhere(8, 9)),
        (partial(launcher.anywhere, (4, 2, 1)), (4, 2, 1), lambda: there(8, 9)),
    ]
    for launch, grid, inner in cases:
        launch(1, Interrupting(2, inner))
        within, whole = fake.launches[-2:]
        assert within.unpack("<QQI") == (8, 9, 7)
        assert (whole.unpack("<QQI"), whole.grid) == ((1, 2, 7), grid)


def test_grids_take_turns(function, fake):
    launcher = make(function)
    for grid in ((5, 1, 1), (5, 1, 1), (6, 2, 1), (3, 4, 5), (5, 1, 1)):
        launcher.anywhere(grid, 1, 2)
        assert fake.launches[-1].grid == grid
        with pytest.raises(errors.LaunchError, match="cannot be launched"):
            launcher.anywhere((0, 1, 1), 1, 2)
        launcher.anywhere(grid, 1, 2)
        assert fake.launches[-1].grid == grid


def test_a_failed_launch_says_what_was_launched(function, fake):
    fake.results["cuLaunchKernelEx"] = 701
    launcher = Launcher(function, (3, 4, 5), (256, 2, 1), 100, "<", 0, (), cluster=(3, 1, 1))
    with pytest.raises(errors.LaunchError) as caught:
        launcher()
    assert str(caught.value).startswith(
        "cuLaunchKernelEx (kernel axpy, grid (3, 4, 5), block (256, 2, 1), 100 bytes of dynamic shared memory, "
        "cluster (3, 1, 1)) failed with CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701). "
    )


def test_a_failed_launch_can_be_tried_again(function, fake):
    launcher = make(function)
    fake.results["cuLaunchKernelEx"] = [2, 0]
    with pytest.raises(MemoryError, match="cuLaunchKernelEx"):
        launcher(1, 2)
    launcher(3, 4)
    assert fake.launches[-1].unpack("<QQI") == (3, 4, 7)


def test_a_new_thread_gets_the_context_with_its_first_launch(function, fake):
    launcher, failures = make(function), []

    def work():
        try:
            launcher(1, 2)
            launcher(3, 4)
        except errors.CudaError as error:
            failures.append(error)

    fake.calls.clear()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failures
    assert fake.names() == ["cuLaunchKernelEx", "cuCtxSetCurrent", "cuLaunchKernelEx", "cuLaunchKernelEx"]
    assert [launch.unpack("<QQI") for launch in fake.launches] == [(1, 2, 7), (1, 2, 7), (3, 4, 7)]


def test_an_invalid_context_is_tried_again_once(function, fake):
    fake.results["cuLaunchKernelEx"] = 201
    with pytest.raises(errors.InvalidHandle, match="kernel axpy"):
        make(function)(1, 2)
    assert fake.count()["cuLaunchKernelEx"] == 2


def test_a_fault_after_the_context_was_set_is_the_one_reported(function, fake):
    fake.results["cuLaunchKernelEx"] = [201, 700]
    with pytest.raises(errors.DeviceFault, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        make(function)(1, 2)


def test_in_a_forked_child(function, fake):
    launcher = make(function)
    fake.is_forked = True
    fake.results["cuLaunchKernelEx"] = 3
    with pytest.raises(errors.ForkedProcess, match="'spawn'"):
        launcher(1, 2)


def test_launch_alone_keeps_all_it_needs(opened, fake):
    launch = make(Module.from_ptx(opened[0], "x").function("axpy"), cluster=(2, 1, 1)).launch
    gc.collect()
    assert "cuModuleUnload" not in fake.names()
    launch(1, 2)
    assert fake.launches[0].unpack("<QQI") == (1, 2, 7)
    assert fake.launches[0].attributes[4][:3] == (2, 1, 1)


def test_an_old_driver_cannot_launch(function, fake):
    fake.missing.add("cuLaunchKernelEx")
    with pytest.raises(errors.DriverTooOld, match=r"cuLaunchKernelEx needs a driver for CUDA 11\.6"):
        make(function)


@pytest.mark.parametrize(
    ("param_format", "num_varying", "leading", "whole"),
    [
        ("<QQI", 0, "<", "<QQI"),
        ("<QQI", 2, "<QQ", "<QQI"),
        ("<I4xQ", 1, "<I", "<I4xQ"),
        ("<I4xQ", 2, "<I4xQ", "<I4xQ"),
        ("<3Q2I", 4, "<QQQI", "<QQQII"),
        ("<Q56x128sI", 2, "<Q56x128s", "<Q56x128sI"),
        ("QI", 1, "<Q", "<QI"),
        ("@QI", 1, "<Q", "<QI"),
        ("<?e", 1, "<?", "<?e"),
        ("<", 0, "<", "<"),
    ],
)
def test_split_format(param_format, num_varying, leading, whole):
    assert split_format(param_format, num_varying) == (leading, whole)


def test_more_varying_parameters_than_there_are():
    with pytest.raises(ValueError, match=r"2 parameters in '<QI', too few for 3"):
        split_format("<QI", 3)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ({"grid": (0, 1, 1)}, r"grid \(0, 1, 1\)"),
        ({"grid": (1 << 31, 1, 1)}, "grid"),
        ({"grid": (1 << 32, 1, 1)}, "grid"),
        ({"grid": (1, 65536, 1)}, "grid"),
        ({"grid": (1, 1)}, "three numbers"),
        ({"block": (1025, 1, 1)}, r"block \(1025, 1, 1\)"),
        ({"block": (1, 1, 65)}, "block"),
        ({"block": (-1, 1, 1)}, "block"),
        ({"block": (32, 32, 2)}, "at most 1024 threads"),
        ({"cluster": (0, 1, 1)}, "cluster"),
    ],
)
def test_impossible_shapes_are_refused_before_the_driver_sees_them(shapes, words, function, fake):
    shapes = {"grid": (1, 1, 1), "block": (32, 1, 1), **shapes}
    grid, block = shapes.pop("grid"), shapes.pop("block")
    with pytest.raises(errors.LaunchError, match=words):
        Launcher(function, grid, block, 0, "<Q", 1, (), **shapes)
    assert not fake.launches


def test_attributes_of_cooperative_and_programmatic_launches(function, fake):
    make(function, cluster=(2, 1, 1), is_cooperative=True, is_programmatic=True)(1, 2)
    attributes = {number: value[:3] for number, value in fake.launches[0].attributes.items()}
    assert attributes == {4: (2, 1, 1), 2: (1, 0, 0), 6: (1, 0, 0)}

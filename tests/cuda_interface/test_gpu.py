"""`oxinp.cuda` on real GPUs."""

import gc
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import oxinp
from oxinp import _runtime, cuda
from oxinp._ptx import InOut, kernel
from oxinp._ptx.types import f32, u32
from tests.cuda_interface.evaluated import evaluated
from tests.driver.ptx_samples import PTX

pytestmark = pytest.mark.gpu


@kernel(block=128)
def increment(k, x: InOut[f32], n: u32):
    with k.grid_stride(n) as i:
        x[i] = x[i] + 1


@pytest.fixture(autouse=True)
def _on_gpu(config):
    config.backend = "cuda"
    config.offload_threshold = 0


# Own kernels


def test_kernels_in_both_languages():
    x = oxinp.arange(100_000, dtype="f4")
    cuda.RawKernel(increment)(64, args=(x, x.size))
    out = oxinp.empty(100_000, "f4")
    cuda.RawKernel(PTX, "vadd")(391, 256, (out, x, x, x.size))
    assert np.asarray(out).tolist() == (2 * (np.arange(100_000, dtype="f4") + 1)).tolist()


def test_order_with_pending_work_and_on_another_stream():
    x = oxinp.zeros(100_000, "f4")
    before = x + 10
    launch, stream = cuda.RawKernel(increment), cuda.Stream()
    launch(64, args=(x, x.size))
    with stream:
        launch(64, args=(x, x.size))
    assert (float(before[5]), float((x + 10)[5])) == (10, 12)
    launch(64, args=(x, x.size), stream=stream)
    stream.synchronize()
    assert float(x[99_999]) == 3
    stream.close()


def test_a_fault_of_a_kernel_is_refused_before_it_happens():
    with pytest.raises(cuda.LaunchError, match="grid"):
        cuda.RawKernel(PTX, "add")(0, 1, (oxinp.zeros(4, "u4"), 1))
    with pytest.raises(TypeError, match="argument counter"):
        cuda.RawKernel(PTX, "add")(1, 1, ("text", 1))


# Copies


def test_copies_through_pinned_memory():
    stream, values = cuda.Stream(), np.random.default_rng(0).random(1_000_000)
    pinned, back = cuda.pinned_array(values), cuda.pinned_empty(values.size)
    x = oxinp.empty(values.size)
    stream.copy(x, pinned)
    stream.copy(back, x)
    stream.synchronize()
    assert (back == values).all()


# Graphs


def test_a_graph_of_array_operations():
    x, y = oxinp.zeros(100_000), oxinp.ones(100_000)
    with cuda.Graph.capture(x, y) as graph:
        x += 1
        y[:50_000] = x[:50_000] * 2
    assert graph.num_kernels >= 2
    for _ in range(10):
        graph.launch()
    assert (float(x[7]), float(y[7]), float(y[-1])) == (10, 20, 1)
    x += 5
    graph.launch()
    assert (float(x[7]), float(y[7])) == (16, 32)
    graph.close()
    assert float((x * 2).sum()) == 3_200_000


def test_a_graph_that_goes_while_another_is_captured():
    x = oxinp.zeros(100_000)
    for _ in range(3):
        with cuda.Graph.capture(x) as graph:
            x += 1
        graph.launch()
    assert float(x[3]) == 3


def test_a_graph_captured_anew():
    x, y = oxinp.zeros(100_000), oxinp.zeros(100_000)
    with cuda.Graph.capture(x) as graph:
        x += 1
    graph.launch()
    with graph.recapture(y):
        y += 2
    graph.launch()
    graph.launch()
    assert (float(x[3]), float(y[3])) == (1, 4)


def test_the_memory_of_a_graph_is_safe_from_others():
    x = oxinp.ones(100_000)
    with cuda.Graph.capture(x) as graph:
        made = evaluated(x * 3)
        x += oxinp.sqrt(made * made) - made
    cuda.trim()
    others = [evaluated(oxinp.ones(100_000) * i) for i in range(20)]
    graph.launch()
    cuda.trim()
    assert float(x[3]) == 1
    assert [float(other[5]) for other in others] == list(range(20))
    del graph, made
    gc.collect()
    assert float((x + 1)[0]) == 2


def test_what_cannot_be_captured_leaves_everything_usable():
    x = evaluated(oxinp.ones(100_000) + 1)
    with pytest.raises(cuda.CaptureError), cuda.Graph.capture(x):
        float(x[0])
    with pytest.raises(KeyError), cuda.Graph.capture(x):
        raise KeyError("inside")
    assert float(x[0] + 1) == 3
    assert _runtime.current().stream == 0


# Memory


def test_a_limit_holds():
    cuda.trim()
    held = _runtime.current().pool.held_nbytes
    cuda.limit_memory(held + (64 << 20))
    try:
        with pytest.raises(MemoryError, match="pool may hold"):
            evaluated(oxinp.ones(100_000_000) + 1)
    finally:
        cuda.limit_memory(None)
    assert float(evaluated(oxinp.ones(10_000_000) + 1)[3]) == 2


def test_threads_share_the_device():
    failures = []

    def work(number):
        try:
            for turn in range(20):
                x = oxinp.ones(50_000) * number
                assert float((x + turn).sum()) == 50_000 * (number + turn)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_on_streams_of_their_own_share_arrays():
    """Each thread works on its stream with what others made on theirs, and writes where others read."""
    failures, shared = [], [evaluated(oxinp.zeros(200_000) + number) for number in range(4)]

    def work(number):
        try:
            with cuda.Stream():
                total = oxinp.zeros(200_000)
                for turn in range(30):
                    total = total + shared[(number + turn) % 4]
                    made = oxinp.ones(200_000) * turn
                    made[1000:2000] = number
                    assert float(made[1500]) == number
                    assert float(made[-1]) == turn
                expected = sum((number + turn) % 4 for turn in range(30))
                assert np.unique(np.asarray(total)).tolist() == [expected]
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.hopper
def test_products_whose_blocks_wait_for_each_other_on_streams():
    """They share flags, so those of one stream wait for those of another."""
    rng = np.random.default_rng(0)
    operands = [[rng.integers(-1, 2, shape).astype("f2") for shape in ((192, 11008), (11008, 4096))] for _ in range(2)]
    expected = [oxinp.asarray(a) @ oxinp.asarray(b) for a, b in operands]
    arrays = [[evaluated(oxinp.asarray(x)) for x in pair] for pair in operands]
    expected = [np.asarray(x) for x in expected]
    streams = [cuda.Stream() for _ in arrays]
    for _ in range(30):
        results = []
        for stream, (a, b) in zip(streams, arrays, strict=True):
            with stream:
                results.append(evaluated(a @ b))
        for result, right in zip(results, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(result), right)


@pytest.mark.exclusive
@pytest.mark.parametrize("num_streams", [2, 8])
def test_array_operations_on_streams_run_at_once(num_streams):
    """H10 through arrays: products whose few tiles occupy few multiprocessors."""
    arrays = [evaluated(oxinp.ones((32, 200_000), "i8")) for _ in range(num_streams)]
    streams = [cuda.Stream() for _ in arrays]

    def seconds(streams):
        cuda.synchronize()
        start = time.perf_counter()
        for turn in range(16):
            with streams[turn % len(streams)]:
                oxinp.evaluate(arrays[turn % num_streams] @ arrays[turn % num_streams].T)
        cuda.synchronize()
        return time.perf_counter() - start

    one, several = (min(seconds(chosen) for _ in range(5)) for chosen in (streams[:1], streams))
    sys.stdout.write(f"\nH10 through arrays: {one / several:.2f}x with {num_streams} streams\n")
    assert one / several > 1.5


# Two devices


@pytest.mark.multi_gpu
def test_arrays_on_two_devices():
    first = evaluated(oxinp.arange(1_000_000.0) * 2)
    with cuda.Device(1):
        assert cuda.current_device() == cuda.Device(1)
        second = evaluated(oxinp.arange(1_000_000.0) * 3)
        on_second = evaluated(first + second)  # reads the other's memory
        used = cuda.memory_stats().used_nbytes
        assert used >= 16_000_000
    on_first = evaluated(first + second)
    expected = np.arange(1_000_000.0) * 5
    assert (np.asarray(on_second) == expected).all()
    assert (np.asarray(on_first) == expected).all()
    del first, second, on_first, on_second
    with cuda.Device(1):
        cuda.trim()


@pytest.mark.multi_gpu
def test_many_changes_of_device():
    x = oxinp.zeros(100_000)
    for turn in range(30):
        with cuda.Device(turn % 2):
            x = x + 1
    assert float(x[17]) == 30
    total = sum(float(evaluated(oxinp.ones(100_000) * turn)[0]) for turn in range(5))
    assert total == 10


@pytest.mark.multi_gpu
def test_each_thread_works_on_its_device():
    """Each thread makes, changes and reads arrays on its device, and reads what the other made on the other one."""
    failures, shared = [], []
    for ordinal in range(2):
        with cuda.Device(ordinal):
            shared.append(evaluated(oxinp.zeros(300_000) + ordinal + 1))

    def work(number):
        try:
            with cuda.Device(number % 2), cuda.Stream():
                total = oxinp.zeros(300_000)
                for turn in range(50):
                    total = total + shared[turn % 2]
                    made = oxinp.ones(300_000) * turn
                    made[1000:2000] = number
                    assert float(made[1500]) == number
                    assert float(made[-1]) == turn
                assert np.unique(np.asarray(total)).tolist() == [75.0]
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.exclusive
@pytest.mark.multi_gpu
def test_two_devices_work_at_the_same_time():
    arrays = []
    for ordinal in range(2):
        with cuda.Device(ordinal):
            arrays.append(evaluated(oxinp.ones(200_000_000, "f4")))

    def seconds(ordinals):
        cuda.synchronize()
        start = time.perf_counter()
        for turn in range(20):
            ordinal = ordinals[turn % len(ordinals)]
            with cuda.Device(ordinal):
                oxinp.evaluate(arrays[ordinal] * 2)
        cuda.synchronize()
        return time.perf_counter() - start

    one, both = (min(seconds(ordinals) for _ in range(5)) for ordinals in ([0], [0, 1]))
    sys.stdout.write(f"\ntwo devices: {one / both:.2f}x\n")
    assert one / both > 1.5


@pytest.mark.multi_gpu
def test_other_libraries_are_told_the_device():
    with cuda.Device(1):
        x = evaluated(oxinp.arange(100_000.0))
    assert x.__dlpack_device__() == (2, 1)
    torch = pytest.importorskip("torch")
    theirs = torch.from_dlpack(x)
    assert theirs.device.index == 1
    assert float(theirs.sum()) == float(x.sum())


# Plans of many launches


RECORDED = """
import numpy, oxinp
from oxinp import _runtime, cuda

def check(name):
    backend, recorded = _runtime.current(), []
    record = backend.record
    backend.record = lambda queue: recorded.append(record(queue)) or recorded[-1]
    a = oxinp.array(numpy.random.default_rng(1).standard_normal((3000, 3000)))
    oxinp.evaluate(a)
    found = []
    for _ in range(10):
        launches = cuda.stats().launches
        result = getattr(oxinp.linalg, name)(a)
        bits = [numpy.asarray(part).tobytes() for part in (result if isinstance(result, tuple) else (result,))]
        found.append((bits, cuda.stats().launches - launches))
        del result
    assert all(each == found[0] for each in found[1:])
    assert found[0][1] > 32
    assert recorded and None not in recorded

check("inv")
check("qr")
"""


def test_long_plans_that_come_again_are_recorded_and_give_the_same():
    # In a process of its own, that has one stream.
    done = subprocess.run([sys.executable, "-c", RECORDED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Two GPUs on one problem, each with half of the data, reading the other's over the link between them.

python examples/cuda/two_gpus.py --size 40000000
"""

import argparse
import time

import oxinp as np


def main():
    """Normalise a vector whose halves are on two devices."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=40_000_000)
    half = parser.parse_args().size // 2
    devices = np.cuda.list_devices()
    if len(devices) < 2:
        print(f"two GPUs are needed, here are {len(devices)}")
        return
    print(*devices[:2], sep="\n")

    halves, sums = [], []
    for number, device in enumerate(devices[:2]):
        with device:
            halves.append(np.sin(np.arange(number * half, (number + 1) * half, dtype="f4")))
            sums.append((halves[-1] ** 2).sum(dtype="f8"))
    norm = np.sqrt(sums[0] + sums[1])
    print(f"norm {float(norm):.6f}")

    # The second device reads the half of the first, over the link.
    np.cuda.synchronize()
    with devices[1]:
        difference = halves[1] - halves[0]
        np.evaluate(difference)
        np.cuda.synchronize()
        before = time.perf_counter()
        for _ in range(10):
            np.evaluate(halves[1] - halves[0])
        np.cuda.synchronize()
        seconds = (time.perf_counter() - before) / 10
    print(f"peer reads at {halves[0].nbytes / seconds / 1e9:.0f} GB/s")
    for device in devices[:2]:
        print(f"device {device.ordinal}: {device.memory_info().free_nbytes / 1e9:.1f} GB free")
    expected = np.sin(np.arange(half, 2 * half, dtype="f4")) - np.sin(np.arange(half, dtype="f4"))
    print("exact" if (np.asarray(difference) == expected).all() else "WRONG")


if __name__ == "__main__":
    main()

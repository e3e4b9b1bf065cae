"""Copies and kernels at the same time: data that does not fit goes through the device in pieces, on two streams.

While one stream computes on a piece, the other brings in the next one and takes out the one before.

    python examples/cuda/overlap.py --pieces 16 --size 8000000
"""

import argparse
import time

import oxinp as np
from oxinp.cuda.kernel import InOut, f32, jit, u32


@jit(block=256)
def iterate(k, x: InOut[f32], times: u32, n: u32):
    """Apply x <- x * 0.999 + 0.5 so often to each element."""
    with k.grid_stride(n) as i:
        value = k.var(x[i])
        with k.range(0, times, 1) as _:
            value.set(k.fma(value.get(), 0.999, 0.5))
        x[i] = value.get()


def run(pieces, num_streams, times):
    """Let every piece go up, be computed and come down; return the seconds it took."""
    streams = [np.cuda.Stream() for _ in range(num_streams)]
    devices = [np.zeros(pieces[0].size, "f4") for _ in streams]
    np.cuda.synchronize()
    before = time.perf_counter()
    for number, piece in enumerate(pieces):
        stream, x = streams[number % num_streams], devices[number % num_streams]
        stream.copy(x, piece)
        iterate[264, 256, stream](x, times, x.size)
        stream.copy(piece, x)
    np.cuda.synchronize()
    seconds = time.perf_counter() - before
    for stream in streams:
        stream.close()
    return seconds


def main():
    """Run on one stream and on several; compare."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--pieces", type=int, default=16)
    parser.add_argument("--size", type=int, default=8_000_000)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--streams", type=int, default=3)
    arguments = parser.parse_args()
    if not np.cuda.is_available():
        print("overlapping needs a GPU")
        return
    figures = {}
    for num_streams in (1, arguments.streams):
        pieces = [np.cuda.pinned_empty(arguments.size, "f4") for _ in range(arguments.pieces)]
        for piece in pieces:
            piece[:] = 0.5
        run(pieces[:2], num_streams, 1)  # the kernel is made here
        seconds = figures[num_streams] = run(pieces, num_streams, arguments.times)
        nbytes = 2 * sum(piece.nbytes for piece in pieces)
        print(f"{num_streams} streams: {seconds * 1e3:.1f} ms, {nbytes / seconds / 1e9:.1f} GB/s up and down")
    print(f"{figures[1] / figures[arguments.streams]:.2f}x faster")


if __name__ == "__main__":
    main()

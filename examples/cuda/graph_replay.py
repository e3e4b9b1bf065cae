"""A time-stepping loop recorded once as a graph, and launched again and again: heat flowing through a plate.

Small steps spend their time on being launched. A graph of many steps is launched as a whole.

    python examples/cuda/graph_replay.py --size 512 --steps 2000
"""

import argparse
import time

import oxinp as np

STEPS_PER_GRAPH = 20


def step(old, new, rate):
    """Advance the inside of the plate by one time step; the edges stay as they are."""
    inside = old[1:-1, 1:-1]
    neighbours = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    new[1:-1, 1:-1] = inside + rate * (neighbours - 4 * inside)


def steps(plate, other, count):
    """Advance by an even number of steps, back and forth between two plates."""
    for _ in range(count // 2):
        step(plate, other, 0.2)
        step(other, plate, 0.2)


def start(size):
    """Return a plate with one warm square, and another for every second step."""
    plate = np.zeros((size, size), "f4")
    plate[size // 4 : size // 2, size // 4 : size // 2] = 100
    return plate, plate.copy()


def timed(work):
    """Return how long work takes until the device is done."""
    np.cuda.synchronize()
    before = time.perf_counter()
    work()
    np.cuda.synchronize()
    return time.perf_counter() - before


def main():
    """Step with and without a graph; compare times and results."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=2000)
    arguments = parser.parse_args()
    if not np.cuda.is_available():
        print("graphs need a GPU")
        return
    count = arguments.steps // STEPS_PER_GRAPH

    plate, other = start(arguments.size)
    steps(plate, other, STEPS_PER_GRAPH)  # kernels are made here
    plate, other = start(arguments.size)
    plain = timed(lambda: steps(plate, other, count * STEPS_PER_GRAPH))

    replayed, spare = start(arguments.size)
    with np.cuda.Graph.capture(replayed, spare) as graph:
        steps(replayed, spare, STEPS_PER_GRAPH)

    def replay():
        for _ in range(count):
            graph.launch()

    fast = timed(replay)
    same = "the same" if (plate == replayed).all() else "OTHER"
    print(
        f"{count * STEPS_PER_GRAPH} steps: {plain * 1e3:.1f} ms, as graphs of {graph.num_kernels} {fast * 1e3:.1f} ms"
    )
    print(f"{plain / fast:.1f}x faster, {same} temperatures, warmest {float(replayed.max()):.2f}")


if __name__ == "__main__":
    main()

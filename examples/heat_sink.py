"""Heat from a chip through a finned copper heat sink into the air: the heat equation with materials, by finite volumes.

python examples/heat_sink.py --size 256 --steps 20000
python -m oxinp examples/heat_sink.py --size 4096 --steps 2000
"""

import argparse
import time

import numpy as np
from picture import Axis, write_picture
from progress import progress

WIDTH = 0.04  # of the square, m
CONDUCTIVITY = {"air": 0.1, "copper": 400.0, "silicon": 150.0}  # W/(m K); the air's raised by its own motion
HEAT_CAPACITY = {"air": 1.2e3, "copper": 3.4e6, "silicon": 1.7e6}  # J/(m^3 K)
POWER = 5.0e8  # of the chip, W/m^3
AMBIENT = 25.0  # degrees Celsius, kept at the top and the sides
NUM_FINS = 5


def materials(size):
    """Return a map of where chip, copper and air lie, (size, size) each: three arrays of booleans."""
    across = (np.arange(size) + 0.5) / size
    up = across[:, np.newaxis]
    chip = (abs(across - 0.5) < 0.15) & (up < 0.06)
    base = (abs(across - 0.5) < 0.4) & (up >= 0.06) & (up < 0.2)
    phase = (across - 0.1) / 0.8 * (2 * NUM_FINS - 1)
    fins = (abs(across - 0.5) < 0.4) & (phase.astype(np.int64) % 2 == 0) & (up >= 0.2) & (up < 0.7)
    copper = base | fins
    return chip, copper, ~(chip | copper)


def by_material(values, chip, copper):
    """Return the value of each cell's material."""
    return np.where(chip, values["silicon"], np.where(copper, values["copper"], values["air"]))


def simulate(size, steps):
    """Return the temperatures (size, size) after `steps` time steps, and how many seconds those are."""
    chip, copper, _ = materials(size)
    spacing = WIDTH / size
    conductivity = by_material(CONDUCTIVITY, chip, copper)
    capacity = by_material(HEAT_CAPACITY, chip, copper)
    # Between two cells heat goes through half of each: the harmonic mean.
    across_x = 2 / (1 / conductivity[:, 1:] + 1 / conductivity[:, :-1])
    across_y = 2 / (1 / conductivity[1:, :] + 1 / conductivity[:-1, :])
    step = 0.2 * spacing**2 * float((capacity / conductivity).min())
    gain = step / (capacity * spacing**2)
    heating = np.where(chip, POWER, 0.0) * step / capacity

    temperature = np.full((size, size), AMBIENT)
    for _ in progress(steps, "heat sink"):
        flow_x = across_x * (temperature[:, 1:] - temperature[:, :-1])
        flow_y = across_y * (temperature[1:, :] - temperature[:-1, :])
        inflow = flow_x[1:-1, 1:] - flow_x[1:-1, :-1] + flow_y[1:, 1:-1] - flow_y[:-1, 1:-1]
        temperature[1:-1, 1:-1] += gain[1:-1, 1:-1] * inflow + heating[1:-1, 1:-1]
        temperature[0, 1:-1] = temperature[1, 1:-1]  # nothing leaves through the board below
    return temperature, step * steps


def main():
    """Simulate, print the temperatures, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--size", type=int, default=128, help="cells along each edge (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=5000, help="time steps (default: %(default)s)")
    parser.add_argument("--picture", default="heat_sink.png", help="PNG to write, '' for none (default: %(default)s)")
    options = parser.parse_args()
    if options.size < 2 or options.steps < 1:
        parser.error("the square needs at least 2 cells along each edge, and one step")

    began = time.perf_counter()
    temperature, after = simulate(options.size, options.steps)
    hottest, mean = float(temperature.max()), float(temperature.sum()) / temperature.size
    seconds = time.perf_counter() - began
    print(f"after {after:.3e} s: hottest {hottest:.6f}, mean {mean:.6f} degrees Celsius")
    print(f"{options.size} x {options.size} cells, {options.steps} steps in {seconds:.3f} s")
    across, up = (Axis(f"{name}, mm", 0, 1e3 * WIDTH) for name in ("across", "up"))
    write_picture(options.picture, temperature[::-1], f"Heat sink after {after:.3g} s", across, up, "degrees Celsius")


if __name__ == "__main__":
    main()

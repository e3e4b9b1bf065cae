"""The lengths that `fft` sweeps, 200 from 16 to 2^22 by classes, and what their ratios to a peer's times come to."""

import numpy as np

NUM_ELEMENTS = 1 << 24  # of all transforms of a length together
LEAST_RATIO = 0.9

# The classes in turn hold 19, 11, 8, 6, 104 and 52 lengths.
CLASSES = {
    "powers of 2": tuple(1 << k for k in range(4, 23)),
    "powers of 3": tuple(3**k for k in range(3, 14)),
    "powers of 5": tuple(5**k for k in range(2, 10)),
    "powers of 7": tuple(7**k for k in range(2, 8)),
    "mixed": (
        *(18, 20, 24, 30, 36, 40, 48, 60, 72, 80, 96, 100, 108, 112, 120, 144, 150, 160, 168, 180, 192, 200, 210, 216),
        *(240, 250, 270, 288, 300, 320, 336, 360, 384, 400, 420, 448, 480, 500, 504, 576, 592, 600, 640, 648, 675, 720),
        *(750, 768, 800, 840, 900, 960, 999, 1000, 1080, 1152, 1200, 1280, 1440, 1500, 1536, 1680, 1800, 1920, 1961),
        *(2000, 2160, 2400, 2520, 2880, 3000, 3003, 3072, 3600, 3922, 4000, 4095, 4800, 5000, 5040, 6000, 6144, 7200),
        *(8000, 9216, 10000, 12000, 12288, 15000, 16000, 20000, 24576, 30030, 37888, 44100, 48000, 65520, 100000),
        *(250000, 606208, 720720, 1000000, 2000000, 3000000),
    ),
    "primes": (
        *(17, 19, 23, 29, 31, 37, 41, 43, 53, 61, 67, 73, 83, 97, 101, 103, 127, 131, 157, 181, 199, 211, 251, 257),
        *(331, 401, 509, 541, 769, 1009, 1021, 1153, 1499, 2003, 2053, 3001, 4093, 4099, 5003, 7001, 8191, 10007),
        *(16381, 20011, 32771, 65537, 100003, 262147, 524287, 1000003, 2097143, 4194301),
    ),
}


def chosen(part):
    """Yield the lengths of a part, ``"2/3"`` for every third from the second on, so that all classes are in each."""
    number, count = map(int, part.split("/"))
    every = [n for lengths in CLASSES.values() for n in lengths]
    yield from every[number - 1 :: count]


def summary(ratios, copies):
    """Yield lines: per class the mean of ratios, and of what a copy would have, then the lengths that fall short.

    Parameters
    ----------
    ratios, copies : dict of int to float
        By length: the peer's time over ours, and over that of a copy of the data.
    """
    for name, lengths in CLASSES.items():
        own = [n for n in lengths if n in ratios]
        if own:
            mean, limit = (np.exp(np.mean(np.log([each[n] for n in own]))) for each in (ratios, copies))
            least = min(own, key=ratios.get)
            yield (
                f"{name:12s} {len(own):3d} lengths, mean {mean:.3f}, least {ratios[least]:.3f} ({least}); "
                f"a copy's {limit:.3f}"
            )
    short = sorted((n for n in ratios if ratios[n] < LEAST_RATIO), key=ratios.get)
    yield f"below {LEAST_RATIO}: {', '.join(f'{n} {ratios[n]:.3f}' for n in short) or 'none'}"

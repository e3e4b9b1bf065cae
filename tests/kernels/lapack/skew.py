"""Warps of a launch on the emulator one by one, at speeds of their own: as a rule all go through a kernel together."""

import numpy as np

from oxinp._ptx import emulate

ROUNDS = 40  # after which other warps are the slow ones


def warp_of(lanes):
    """The numbers of the warps that lanes of a launch are in."""
    return lanes // emulate.WARP


def skew(monkeypatch, kernel, seed):
    """Have the warps of a kernel's launches get on by chance, some of them seldom.

    What a block leaves for others has to last until the slowest warp has read it, and must not come too early for one
    that has yet to read what was there before.

    Parameters
    ----------
    monkeypatch : MonkeyPatch
    kernel : str
        Its name.
    seed : int
    """
    rng, usual = np.random.default_rng(seed), emulate.Scheduler

    class Skewed(usual):
        """Fibers of one warp each, and parts of a warp that get on together."""

        def __init__(self, machine, root):
            super().__init__(machine, root)
            self.speeds, self.held = {}, {}
            for warp in np.unique(warp_of(root.lanes))[1:]:
                self.fibers.append(root.part(warp_of(root.lanes) == warp))

        def _merged(self):
            if rng.random() < 1 / ROUNDS:
                self.speeds.clear()
            warps = {warp_of(fiber.lanes[0]) for fiber in self.fibers}
            speeds = {warp: self.speeds.setdefault(warp, rng.random() ** 3) for warp in sorted(warps)}
            self.held = {warp: rng.random() > speed for warp, speed in speeds.items()}
            order = dict(zip(speeds, rng.permutation(len(speeds)), strict=True))
            return sorted(super()._merged(), key=lambda fiber: order[warp_of(fiber.lanes[0])])

        def _groups(self):
            groups = {}
            for fiber in self.fibers:
                place = (id(fiber),) if fiber.waiting is not None else (warp_of(fiber.lanes[0]), *fiber.place())
                groups.setdefault(place, []).append(fiber)
            return list(groups.values())

        def _advance(self, fiber, spawned):
            is_held = self.held[warp_of(fiber.lanes[0])]
            return emulate.SPUN if is_held else super()._advance(fiber, spawned)

    def chosen(machine, root):
        return (Skewed if machine.kernel.name == kernel else usual)(machine, root)

    monkeypatch.setattr(emulate, "Scheduler", chosen)


__all__ = ["skew"]

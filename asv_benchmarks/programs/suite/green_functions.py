"""Self-energies by many small products, accumulated over indices (scattering)."""

import numpy as np

SIZES = {"tiny": (2, 2, 2, 2, 2), "small": (2, 3, 6, 4, 3), "medium": (3, 4, 16, 6, 4), "large": (4, 6, 32, 12, 8)}


def make(rng, nk, nq, ne, na, no):
    def complex_(*shape):
        return rng.random(shape) + 1j * rng.random(shape)

    return complex_(na, 4, 3, no, no), complex_(nk, ne, na, no, no), complex_(nq, na, 4, 3, 3)


def run(dH, G, D):
    sigma = np.zeros_like(G)
    nk, ne = G.shape[:2]
    for k in range(nk):
        for q in range(len(D)):
            for e in range(ne):
                for i in range(3):
                    for j in range(3):
                        hg = G[(k - q) % nk, e, :, :, :] @ dH[:, q % 4, i]
                        hd = dH[:, q % 4, j] * D[q, :, q % 4, i, j][:, None, None]
                        sigma[k, e] += hg @ hd
    return sigma

# SPDX-License-Identifier: Apache-2.0
"""Matrices of the relaxation bench, and the numbers that the paper has for them.

The paper: Anzt, Tomov, Dongarra, Heuveline, A block-asynchronous relaxation method for graphics processing
units (J. Parallel Distrib. Comput. 73, 2013). fv1 to fv3 and Trefethen_N are made here; Chem97ZtZ and s1rmt3m1
come from files (--matrices DIR)."""
import os

import numpy as np
import scipy.io
import scipy.sparse as sp


def stencil(size, diagonal):
    """Nine points of a size x size grid: -0.5 to the sides, -0.25 to the corners."""
    line = sp.diags([np.ones(size - 1), np.ones(size), np.ones(size - 1)], [-1, 0, 1])
    eye = sp.eye(size)
    sides = sp.kron(eye, line) + sp.kron(line, eye) - 2 * sp.eye(size * size)
    corners = sp.kron(line, line) - sides - sp.eye(size * size)
    return (diagonal * sp.eye(size * size) - 0.5 * sides - 0.25 * corners).tocsr()


def trefethen(n):
    """The primes on the diagonal, ones at distances that are powers of two."""
    sieve = np.ones(300000, bool)
    sieve[:2] = False
    for i in range(2, 548):
        if sieve[i]:
            sieve[i * i::i] = False
    ones = [2 ** k for k in range(20) if 2 ** k < n]
    off = sp.diags([np.ones(n - d) for d in ones], ones, shape=(n, n))
    return (sp.diags(np.flatnonzero(sieve)[:n].astype(float)) + off + off.T).tocsr()


MADE = {"fv1": lambda: stencil(98, 3.510152), "fv2": lambda: stencil(99, 3.51005), "fv3": lambda: stencil(99, 3.0),
        "Trefethen_2000": lambda: trefethen(2000), "Trefethen_20000": lambda: trefethen(20000)}
FILES = {"Chem97ZtZ (rebuilt)": "Chem97ZtZ_rebuilt.mtx.gz", "s1rmt3m1": "s1rmt3m1.mtx.gz"}


def load(folder):
    """name: matrix, of all that can be had."""
    found = {}
    for name, file in FILES.items():
        path = os.path.join(folder or "", file)
        if folder and os.path.exists(path):
            found[name] = scipy.io.mmread(path).tocsr()
        else:
            print(f"left out: {name}: give the folder of {file} with --matrices")
    return {**found, **{name: make() for name, make in MADE.items()}}


# Tables 2 and 3: iteration: average residual, relative variation
SPREAD = {
    "fv1": {10: (7.8284e-02, None), 20: (6.3243e-03, 3.1782e-04), 30: (5.1392e-04, 3.1716e-04),
            40: (4.1902e-05, 4.2002e-04), 50: (3.4238e-06, 3.7969e-04), 60: (2.8019e-07, 4.7467e-04),
            70: (2.2956e-08, 4.2254e-04), 80: (1.8825e-09, 5.0995e-04), 90: (1.5449e-10, 5.4372e-04),
            100: (1.2685e-11, 5.2025e-04), 110: (1.0422e-12, 6.9082e-04), 120: (8.5725e-14, 6.6724e-04),
            130: (7.1399e-15, 1.5823e-03), 140: (9.2748e-16, 1.1608e-02), 150: (6.5579e-16, 1.8243e-02)},
    "Trefethen_2000": {5: (8.02e-04, None), 10: (8.43e-06, None), 15: (8.8600e-08, 1.4462e-01),
                       20: (9.3022e-10, 1.6309e-01), 25: (9.7817e-12, 1.8524e-01), 30: (1.0260e-13, 2.1747e-01),
                       35: (1.0906e-15, 2.0818e-01), 40: (1.1012e-16, 0.9880e-01), 45: (1.0811e-16, 3.2261e-02),
                       50: (1.0811e-16, 3.0875e-02)},
}
# Table 4, fv3: seconds of async-(k) after 100, 200, ... 500 iterations
SWEEPS = {1: (1.376425, 2.437521, 3.501462, 4.563519, 5.624792), 2: (1.431110, 2.546361, 3.660030, 4.773864, 5.891870),
          3: (1.482574, 2.654470, 3.819478, 4.987472, 6.156434), 4: (1.532940, 2.749808, 3.972644, 5.191812, 6.410378),
          5: (1.577105, 2.838185, 4.099068, 5.363081, 6.655686), 6: (1.629628, 2.938897, 4.255335, 5.569045, 6.879329),
          7: (1.680975, 3.044979, 4.412199, 5.778823, 7.144304), 8: (1.736295, 3.148895, 4.571684, 5.990520, 7.409536),
          9: (1.786658, 3.259132, 4.730689, 6.202893, 7.676786)}
# Table 5: seconds of an iteration of Gauss-Seidel (CPU), Jacobi and async-(5) (GPU)
ITERATION = {"Chem97ZtZ (rebuilt)": (0.008448, 0.002051, 0.001742), "fv1": (0.120191, 0.019449, 0.012964),
             "fv2": (0.125572, 0.020997, 0.014729), "fv3": (0.125577, 0.021009, 0.014737),
             "s1rmt3m1": (0.039530, 0.006442, 0.004967), "Trefethen_2000": (0.007603, 0.001494, 0.001305)}
# Table 6: extra time in % when a quarter of the components rests for 10, 20, 30 iterations from iteration 10 on
RECOVER = {"fv1": {10: 8.16, 20: 19.50, 30: 31.66}, "Trefethen_2000": {10: 8.16, 20: 11.45, 30: 16.61}}

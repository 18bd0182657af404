# SPDX-License-Identifier: Apache-2.0
"""Write the sparse .npz files of this folder with SciPy itself: a 3 x 4 matrix, [[1, 0, 2, 0], [0, 0, 0, -3], [4.5, 5, 0, 6]]."""
import pathlib

import numpy as np
import scipy.sparse as sp

here = pathlib.Path(__file__).parent
a = sp.csr_matrix(np.array([[1, 0, 2, 0], [0, 0, 0, -3], [4.5, 5, 0, 6]]))
sp.save_npz(here / "scipy_csr.npz", a, compressed=False)
sp.save_npz(here / "scipy_csc.npz", a.tocsc(), compressed=True)
sp.save_npz(here / "scipy_coo.npz", sp.coo_array(a), compressed=True)
sp.save_npz(here / "scipy_bsr.npz", a.tobsr((3, 2)), compressed=True)

# SPDX-License-Identifier: Apache-2.0
"""Write the .npy and .npz files of this folder with NumPy itself: the numbers 0 to 11 as 4 rows of 3."""
import pathlib

import numpy as np

here = pathlib.Path(__file__).parent
a = np.arange(12).reshape(4, 3)
for code in ("f2", "f4", "f8", "u1", "i2", "i4", "i8"):
    np.save(here / f"numpy_{code}.npy", a.astype(code))
np.save(here / "numpy_b1.npy", a % 2 == 1)
np.save(here / "numpy_f4f.npy", np.asfortranarray(a.astype("f4")))
np.save(here / "numpy_f4big.npy", a.astype(">f4"))
for version in (2, 3):
    with open(here / f"numpy_f4v{version}.npy", "wb") as f:
        np.lib.format.write_array(f, a.astype("f4"), version=(version, 0))
np.savez(here / "numpy_savez.npz", a=a.astype("f4"), b=a)
np.savez_compressed(here / "numpy_savez_compressed.npz", a=a.astype("f4"), b=a)

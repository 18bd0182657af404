# SPDX-License-Identifier: Apache-2.0
"""Where the elements of a NumPy array lie.

``a.ctypes.data`` passes through code written in Python, which takes 20 us where a fit has emptied
the caches; the struct that NumPy gives for ``__array_struct__`` takes half of that.
"""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np


class _Interface(C.Structure):
    """PyArrayInterface."""

    _fields_ = [
        ("two", C.c_int),
        ("dimensions", C.c_int),
        ("kind", C.c_char),
        ("item_bytes", C.c_int),
        ("flags", C.c_int),
        ("shape", C.c_void_p),
        ("strides", C.c_void_p),
        ("data", C.c_void_p),
        ("description", C.c_void_p),
    ]


_pointer = C.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [C.py_object, C.c_char_p], C.c_void_p
_at = _Interface.from_address


def address_of(a: np.ndarray[Any, Any]) -> int:
    """The address of the first element."""
    capsule = a.__array_struct__
    return _at(_pointer(capsule, None)).data  # type: ignore[no-any-return]

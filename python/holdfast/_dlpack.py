# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries by DLPack: https://dmlc.github.io/dlpack/latest."""

from __future__ import annotations

import ctypes as C
from typing import Any

from .errors import InvalidArgumentError, UnsupportedError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13


class _Tensor(C.Structure):
    _fields_ = [
        ("data", C.c_void_p),
        ("device_type", C.c_int32),
        ("device_id", C.c_int32),
        ("ndim", C.c_int32),
        ("code", C.c_uint8),
        ("bits", C.c_uint8),
        ("lanes", C.c_uint16),
        ("shape", C.POINTER(C.c_int64)),
        ("strides", C.POINTER(C.c_int64)),
        ("byte_offset", C.c_uint64),
    ]


class _Managed(C.Structure):
    pass


_Deleter = C.CFUNCTYPE(None, C.c_void_p)
_Managed._fields_ = [("tensor", _Tensor), ("context", C.c_void_p), ("deleter", _Deleter)]


class _Versioned(C.Structure):
    _fields_ = [
        ("major", C.c_uint32),
        ("minor", C.c_uint32),
        ("context", C.c_void_p),
        ("deleter", _Deleter),
        ("flags", C.c_uint64),
        ("tensor", _Tensor),
    ]


_api = C.pythonapi
_is_valid = _api.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [C.py_object, C.c_char_p], C.c_int
_pointer = _api.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [C.py_object, C.c_char_p], C.c_void_p
_set_name = _api.PyCapsule_SetName
_set_name.argtypes, _set_name.restype = [C.py_object, C.c_char_p], C.c_int

# (code, bits): element type of the C library. Codes: 0 int, 1 uint, 2 float, 4 bfloat.
_TYPES = {(2, 32): 1, (2, 64): 2, (2, 16): 3, (4, 16): 4, (1, 8): 5, (0, 32): 6}
_USED = (b"used_dltensor", b"used_dltensor_versioned")  # a capsule keeps the address of its name


class Tensor:
    """A consumed capsule: the tensor lives as long as this object."""

    def __init__(self, capsule: Any) -> None:
        self._release: Any = None
        versioned = bool(_is_valid(capsule, b"dltensor_versioned"))
        name = b"dltensor_versioned" if versioned else b"dltensor"
        if not _is_valid(capsule, name):
            raise InvalidArgumentError(
                "this DLPack capsule was consumed already, or holds no tensor: pass the array "
                "itself, or a new capsule of it"
            )
        address = _pointer(capsule, name)
        kind = _Versioned if versioned else _Managed
        managed: Any = kind.from_address(address)
        if versioned and managed.major > 1:
            raise UnsupportedError(
                f"DLPack {managed.major}.{managed.minor} is newer than 1.x: pass a NumPy array"
            )
        _set_name(capsule, _USED[versioned])
        self._managed = managed
        self._release = (managed.deleter, address)
        self._check(managed.tensor)

    def _check(self, t: Any) -> None:
        self.device_type, self.device_id = t.device_type, t.device_id
        if self.device_type not in (CPU, CUDA, CUDA_HOST, CUDA_MANAGED):
            raise UnsupportedError(
                f"a DLPack tensor on a device of type {self.device_type}: only host memory and "
                "CUDA are supported; copy it to the host first"
            )
        self.code = _TYPES.get((t.code, t.bits), 0) if t.lanes == 1 else 0
        if self.code == 0:
            raise InvalidArgumentError(
                f"a DLPack tensor of type code {t.code} with {t.bits} bits: give float32, "
                "float64, float16, bfloat16 or uint8"
            )
        self.shape = tuple(t.shape[i] for i in range(t.ndim))
        self.strides = tuple(t.strides[i] for i in range(t.ndim)) if t.strides else None
        self.data = (t.data or 0) + t.byte_offset

    def __del__(self) -> None:
        if self._release is not None:
            deleter, address = self._release
            self._release = None
            if deleter:
                deleter(address)

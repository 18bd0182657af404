# SPDX-License-Identifier: Apache-2.0
"""Arrays of torch, CuPy, Numba, JAX and others, on the host or on an NVIDIA GPU."""

from __future__ import annotations

import ctypes as C
import sys
from typing import Any

import numpy as np

from . import _abi, _dlpack, _library, _rows
from ._sources import NUMPY, code_of
from .errors import InvalidArgumentError

# cudaStreamLegacy: the default stream, whose number 0 means "one of its own" to the C library.
LEGACY = 1
_TORCH_TYPES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "uint8": 5}


class _Torch:
    """What is used of torch, of which the module itself has a thousand names to look through."""

    def __init__(self, torch: Any) -> None:
        self.codes = {getattr(torch, word): code for word, code in _TORCH_TYPES.items()}
        self.strided = torch.strided
        self.from_numpy = torch.from_numpy
        self.current_stream = torch.cuda.current_stream
        # the short way to the number of a stream, which torch's own compiler takes
        self.raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        self.gpus: dict[int, tuple[str, Any]] = {}  # those of which tensors came

    def gpu(self, device: Any) -> tuple[str, Any]:
        """The name of a GPU, and what makes tensors there."""

        def like(a: Any) -> Any:
            return self.from_numpy(a).to(device, non_blocking=True)

        found = self.gpus[device.index] = f"cuda:{device.index}", like
        return found


_torch: _Torch | None = None


def of_torch(x: Any, name: str) -> _rows.Rows:
    """Rows of a torch tensor."""
    global _torch
    torch = _torch
    if torch is None:
        torch = _torch = _Torch(sys.modules["torch"])
    shape, original = x.shape, x
    if len(shape) != 2:
        _rows.check_2d(tuple(shape), name, x)
    code = torch.codes.get(x.dtype)
    if code is None:
        if x.is_complex():
            raise InvalidArgumentError(f"Complex data not supported\n{x}\n")
        x, code = x.detach().double(), 2
    if x.layout is not torch.strided:
        raise InvalidArgumentError(f"a tensor of layout {x.layout}: give x.to_dense()")
    n, d = shape
    if not x.is_cuda:
        return _host_torch(torch, x, code, name, original)
    row, column = x.stride()
    if (column != 1 and d > 1) or row < d:
        x = x.detach().contiguous()
        row = d
    number = x.get_device()
    rows = _rows.Rows(n, d, code, _abi.Array(x.data_ptr(), code, n, d, row), None, x)
    rows.device, rows.like = torch.gpus.get(number) or torch.gpu(x.device)
    raw = torch.raw_stream
    rows.stream = int(raw(number) if raw else torch.current_stream(number).cuda_stream) or LEGACY
    if rows.stream not in _library.lasting:
        note_stream(torch.current_stream(number))
    rows.original = original
    return rows


def note_stream(stream: Any) -> None:
    """Note a stream of torch's own: it destroys none. The id of another's is its address."""
    if stream.stream_id != stream.cuda_stream:
        _library.lasting.add(int(stream.cuda_stream))


def _host_torch(torch: _Torch, x: Any, code: int, name: str, original: Any) -> _rows.Rows:
    if x.device.type != "cpu":
        raise InvalidArgumentError(
            f"a tensor on {x.device}: only host memory and NVIDIA GPUs are supported; give x.cpu()"
        )
    x = x.detach()
    if code != 4:
        rows = _rows.of_array(x.numpy(), name)
    else:
        if not x.is_contiguous():
            x = x.contiguous()  # bfloat16 has no NumPy type to read panels by
        n, d = x.shape
        rows = _rows.Rows(n, d, code, _abi.Array(x.data_ptr(), code, n, d, d), None, x)
    rows.like, rows.original = torch.from_numpy, original
    return rows


def _stream(x: Any, given: Any) -> int:
    """Of a library that has a current one, else the one that the interface names."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(x, cupy.ndarray):
        return int(cupy.cuda.get_current_stream().ptr) or LEGACY
    return int(given) if given else LEGACY


def _place(x: Any) -> str:
    """The device of an array by the attributes that libraries have for it."""
    device = getattr(x, "device", None)
    number = getattr(device, "id", device)
    return f"cuda:{number}" if isinstance(number, int) else "cuda"


def _maker(x: Any, device: str) -> Any:
    """Makes arrays of the library that x is of; None: not known."""
    library = type(x).__module__.partition(".")[0]
    number = int(device.partition(":")[2] or 0)
    if library == "cupy":
        cupy = sys.modules["cupy"]

        def like(a: Any) -> Any:
            with cupy.cuda.Device(number):
                return cupy.asarray(a)

        return like
    if library == "numba":
        return sys.modules["numba"].cuda.to_device
    if library in ("jax", "jaxlib"):
        return sys.modules["jax"].numpy.asarray
    return None


def of_interface(x: Any, name: str) -> _rows.Rows:
    """Rows of an object with __cuda_array_interface__ (versions 2 and 3)."""
    try:
        form = x.__cuda_array_interface__
        shape, strides = tuple(form["shape"]), form.get("strides")
        address, kind = form["data"][0], np.dtype(form["typestr"])
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidArgumentError(
            f"__cuda_array_interface__ of {type(x).__name__} cannot be read: {error!r}"
        ) from None
    if form.get("mask") is not None:
        raise InvalidArgumentError("a masked device array: fill the masked values first")
    _rows.check_2d(shape, name, f"<{type(x).__name__} on a GPU>")
    code = code_of(kind) if kind.kind == "f" or kind == np.uint8 else 0
    if code == 0 or kind != NUMPY[code]:
        raise InvalidArgumentError(
            f"a device array of type {kind}: convert it to float32, float64, float16 or uint8"
        )
    n, d = int(shape[0]), int(shape[1])
    step = _row_step(strides, kind.itemsize, d)
    rows = _rows.Rows(n, d, code, _abi.Array(address, code, n, d, step), None, x)
    rows.device, rows.stream = _place(x), _stream(x, form.get("stream"))
    rows.like = _maker(x, rows.device)
    rows.original = x
    return rows


def _row_step(strides: Any, item: int, d: int) -> int:
    """Elements from a row to the next; strides in bytes, None: no gaps."""
    if strides is None:
        return d
    row, column = strides
    if (column != item and d > 1) or row < d * item or row % item:
        raise InvalidArgumentError(
            f"a device array with strides {tuple(strides)}: its rows must be contiguous; make a "
            "C-contiguous copy of it"
        )
    return int(row) // item


def of_dlpack(x: Any, name: str) -> _rows.Rows:
    """Rows of an object with __dlpack__, or of a capsule."""
    if hasattr(x, "__dlpack__"):
        place = x.__dlpack_device__()[0] if hasattr(x, "__dlpack_device__") else _dlpack.CPU
        on_gpu = place in (_dlpack.CUDA, _dlpack.CUDA_MANAGED)
        capsule = x.__dlpack__(stream=LEGACY) if on_gpu else x.__dlpack__()
    else:
        capsule = x
    t = _dlpack.Tensor(capsule)
    _rows.check_2d(t.shape, name, f"<{type(x).__name__}>")
    n, d = t.shape
    if t.device_type in (_dlpack.CPU, _dlpack.CUDA_HOST):
        rows = _host_tensor(t, n, d, name)
    else:
        if t.code == 6:
            raise InvalidArgumentError("a device array of type int32: convert it to float64")
        item = NUMPY[t.code].itemsize
        strides = None if t.strides is None else tuple(s * item for s in t.strides)
        step = _row_step(strides, item, d)
        rows = _rows.Rows(n, d, t.code, _abi.Array(t.data, t.code, n, d, step), None, t)
        rows.device, rows.stream = f"cuda:{t.device_id}", LEGACY
        rows.like = _maker(x, rows.device)
    rows.original = x
    return rows


def _host_tensor(t: _dlpack.Tensor, n: int, d: int, name: str) -> _rows.Rows:
    contiguous = t.strides is None or ((t.strides[1] == 1 or d == 1) and t.strides[0] >= d)
    if contiguous and t.code != 6:
        step = d if t.strides is None or n == 1 else t.strides[0]
        return _rows.Rows(n, d, t.code, _abi.Array(t.data, t.code, n, d, step), None, t)
    kind = np.dtype("i4") if t.code == 6 else NUMPY[t.code]
    strides = t.strides or (d, 1)
    if min(strides) < 0 or t.code == 4:
        raise InvalidArgumentError("a DLPack tensor that is not C-contiguous: make a copy of it")
    span = ((n - 1) * strides[0] + (d - 1) * strides[1] + 1) * kind.itemsize if n and d else 0
    memory: Any = (C.c_char * span).from_address(t.data) if span else b""
    flat: np.ndarray[Any, Any] = np.frombuffer(memory, kind)
    a = np.lib.stride_tricks.as_strided(flat, (n, d), [s * kind.itemsize for s in strides])
    rows = _rows.of_array(a, name)
    rows.keep = (rows.keep, t)
    return rows


def lies_on_gpu(x: Any) -> bool:
    """Is x an array of a GPU that tells its address?"""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return bool(x.is_cuda)
    return hasattr(x, "__cuda_array_interface__")


def empty_like(x: Any) -> Any:
    """An array of the same shape by the library that x is of."""
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    if library is None or not hasattr(library, "empty_like"):
        raise InvalidArgumentError(f"give x: no array like b, a {type(x).__name__}, can be made")
    return library.empty_like(x)


def vectors(x: Any, name: str, n: int, stream: int) -> _abi.Array:
    """A view of float64 vectors (n,) or (n, columns) on a GPU; work on them is on `stream`."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        x = x.detach()
        current = torch.cuda.current_stream(x.device).cuda_stream or LEGACY
    else:
        current = _stream(x, x.__cuda_array_interface__.get("stream"))
    form = x.__cuda_array_interface__
    shape, strides = tuple(form["shape"]), form.get("strides")
    cols = int(shape[1]) if len(shape) == 2 else 1
    if len(shape) not in (1, 2) or shape[0] != n:
        raise InvalidArgumentError(f"{name} has shape {shape}: it must be ({n},) or ({n}, columns)")
    if np.dtype(form["typestr"]) != np.dtype("f8") or (
        strides is not None and tuple(strides) != ((8,) if len(shape) == 1 else (8 * cols, 8))
    ):
        raise InvalidArgumentError(f"{name} must be a contiguous array of float64 on the GPU")
    if current != stream:
        raise InvalidArgumentError(
            f"{name} is used on stream {current}, but the smoother works on stream {stream}: make "
            f"it with stream={current}"
        )
    return _abi.Array(form["data"][0], 2, n, cols, cols)

# SPDX-License-Identifier: Apache-2.0
"""Where the matrices of a product lie, and how they are handled there: NumPy, torch and CuPy."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ._devices import LEGACY, note_stream
from .errors import InvalidArgumentError


class Home:
    """Host memory, by NumPy."""

    device = b"cpu"
    stream = 0

    def name(self, x: Any) -> str:
        return str(x.dtype.name)

    def strides(self, x: Any) -> tuple[int, ...]:
        return tuple(x.strides)

    def pointer(self, x: Any) -> int:
        return int(x.ctypes.data)

    def contiguous(self, x: Any) -> Any:
        return np.ascontiguousarray(x)

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        return np.broadcast_to(x, shape)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        """Of this type, which may be that of `like`, to which NumPy need not know the name."""
        return np.empty(shape, like.dtype if like.dtype.name == dtype else dtype)


class _Torch(Home):
    """Tensors on one GPU, or on the host, where NumPy has no bfloat16."""

    def __init__(self, x: Any) -> None:
        self._torch, self._device = sys.modules["torch"], x.device
        if x.device.type == "cpu":
            return
        self.device = f"cuda:{x.device.index}".encode()
        stream = self._torch.cuda.current_stream(x.device)
        note_stream(stream)
        self.stream = stream.cuda_stream or LEGACY

    def name(self, x: Any) -> str:
        return str(x.dtype).rpartition(".")[2]

    def strides(self, x: Any) -> tuple[int, ...]:
        return tuple(step * x.element_size() for step in x.stride())

    def pointer(self, x: Any) -> int:
        return int(x.data_ptr())

    def contiguous(self, x: Any) -> Any:
        return x.contiguous()

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self._torch.broadcast_to(x, shape)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device=self._device)


class _CuPy(Home):
    """Arrays on one GPU."""

    def __init__(self, x: Any) -> None:
        self._cupy, self._device = sys.modules["cupy"], x.device
        self.device = f"cuda:{x.device.id}".encode()
        self.stream = int(self._cupy.cuda.get_current_stream().ptr) or LEGACY

    def pointer(self, x: Any) -> int:
        return int(x.data.ptr)

    def contiguous(self, x: Any) -> Any:
        with self._device:
            return self._cupy.ascontiguousarray(x)

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        return self._cupy.broadcast_to(x, shape)

    def empty(self, shape: tuple[int, ...], dtype: str, like: Any) -> Any:
        with self._device:
            return self._cupy.empty(shape, dtype)


def _own(x: Any) -> Home | None:
    """That of a tensor, or of an array on a GPU; None: it becomes a NumPy array."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(x, torch.Tensor) and x.device.type in ("cuda", "cpu"):
        return _Torch(x)
    if cupy is not None and isinstance(x, cupy.ndarray):
        return _CuPy(x)
    return None


def home_of(a: Any, b: Any) -> Home:
    """That of both operands."""
    first, second = _own(a), _own(b)
    if all(h is None or h.device == Home.device for h in (first, second)):
        return first if first is not None and second is not None else Home()
    if (
        first is None
        or second is None
        or (type(first), first.device) != (type(second), second.device)
    ):
        places = [
            "the host" if h is None or h.device == Home.device else h.device.decode()
            for h in (first, second)
        ]
        raise InvalidArgumentError(
            f"matmul: a is a {type(a).__name__} on {places[0]}, b a {type(b).__name__} on "
            f"{places[1]}: give both as arrays of one library on one device"
        )
    return first


def detached(x: Any) -> Any:
    """A tensor without its gradient."""
    return x.detach() if hasattr(x, "detach") else x

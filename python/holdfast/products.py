# SPDX-License-Identifier: Apache-2.0
"""Products of matrices whose bits do not depend on what is computed beside them."""

from __future__ import annotations

import ctypes as C
import math
from typing import Any

import numpy as np

from . import _abi, _homes, _library, _params, errors
from ._library import lib

# Types of matrices: code, and the code of what a product of them is.
_CODES = {
    "float32": (1, 1),
    "float64": (2, 2),
    "float16": (3, 3),
    "bfloat16": (4, 4),
    "int8": (7, 6),
}
_GUARDS = {
    name: _abi.ENUMS["hf_guard"][f"HF_GUARD_{name.upper()}"]
    for name in ("off", "detect", "correct")
}
_SUMS = {6: "int32"}
_Array = np.ndarray[Any, Any]


def _at_home(a: Any, b: Any, home: _homes.Home) -> tuple[Any, Any]:
    """Both operands as they are, tensors or arrays on a GPU, of one type that can be multiplied."""
    x, y = _homes.detached(a), _homes.detached(b)
    kinds = home.name(x), home.name(y)
    if kinds[0] != kinds[1] or kinds[0] not in _CODES:
        raise errors.InvalidArgumentError(
            f"matrices of {kinds[0]} and {kinds[1]} cannot be multiplied: give both as "
            "float32, float64, float16, bfloat16 or int8"
        )
    if x.ndim == 0 or y.ndim == 0:
        raise errors.InvalidArgumentError("matmul needs arrays of at least one dimension")
    return x, y


def _matrices(a: Any, b: Any) -> tuple[_Array, _Array]:
    """Both operands as NumPy arrays of one type that can be multiplied."""
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype != y.dtype:
        try:
            wide = np.promote_types(x.dtype, y.dtype)
        except TypeError:
            raise errors.InvalidArgumentError(
                f"matrices of {x.dtype} and {y.dtype} have no common type: convert one of them"
            ) from None
        x, y = x.astype(wide, copy=False), y.astype(wide, copy=False)
    if x.dtype.name not in _CODES:
        raise errors.InvalidArgumentError(
            f"matrices of {x.dtype} cannot be multiplied: give float32, float64, float16, bfloat16 "
            "or int8"
        )
    if x.ndim == 0 or y.ndim == 0:
        raise errors.InvalidArgumentError("matmul needs arrays of at least one dimension")
    native = x.dtype.newbyteorder("=")
    return np.require(x, native, "A"), np.require(y, native, "A")


class _Operand:
    """The last two dimensions as BLAS sees them, and the batch before them."""

    __slots__ = ("array", "home", "ld", "stride", "trans")

    def __init__(self, a: Any, batch: tuple[int, ...], home: _homes.Home) -> None:
        size, self.home = a.dtype.itemsize, home
        rows, cols = a.shape[-2:]
        steps = home.strides(a)
        down, across = (s // size if s % size == 0 else -1 for s in steps[-2:])
        if across == 1 and down >= max(1, cols):
            self.trans, self.ld = 0, down
        elif down == 1 and across >= max(1, rows):
            self.trans, self.ld = 1, across
        else:
            a, self.trans, self.ld = home.contiguous(a), 0, max(1, cols)
        self.array = a
        self.stride = self._spread(batch, size)

    def _spread(self, batch: tuple[int, ...], size: int) -> int:
        """Elements between matrices of the batch; those that have no regular places are copied."""
        lead = tuple(self.array.shape[:-2])
        if math.prod(lead) == 1:
            return 0
        step, odd = divmod(self.home.strides(self.array)[-3], size)
        if lead == batch and len(lead) == 1 and step >= 0 and odd == 0:
            return int(step)
        whole = self.home.spread(self.array, (*batch, *self.array.shape[-2:]))
        self.array, self.trans = self.home.contiguous(whole), 0
        self.ld = max(1, self.array.shape[-1])
        return int(self.array.shape[-2] * self.ld)


def _shapes(x: _Array, y: _Array) -> tuple[int, ...]:
    """The batch, and a message that names both shapes where they do not fit."""
    if x.shape[-1] != y.shape[-2]:
        raise errors.InvalidArgumentError(
            f"matmul: a has shape {x.shape} and b has shape {y.shape}: the {x.shape[-1]} columns "
            f"of a must be as many as the {y.shape[-2]} rows of b"
        )
    try:
        return np.broadcast_shapes(tuple(x.shape[:-2]), tuple(y.shape[:-2]))
    except ValueError:
        raise errors.InvalidArgumentError(
            f"matmul: the batches of a, of shape {x.shape}, and b, of shape {y.shape}, cannot be "
            "broadcast to each other"
        ) from None


def _type_of_product(name: str, dtype: Any) -> tuple[str, int]:
    """The type of the product of matrices of type `name`, and its code."""
    code = _CODES[name][1]
    kind = _SUMS.get(code, name)
    if dtype is None:
        return kind, code
    text = str(dtype)
    wanted = text[6:] if text.startswith("torch.") else np.dtype(dtype).name
    if wanted == kind:
        return kind, code
    if code not in (3, 4) or wanted != "float32":
        raise errors.InvalidArgumentError(
            f"dtype={wanted}: a product of {name} is {kind}"
            + (" or float32" if code in (3, 4) else "")
        )
    return "float32", 1


def matmul(
    a: Any,
    b: Any,
    *,
    dtype: Any = None,
    guard: str = "off",
    portable: bool = False,
    return_report: bool = False,
) -> Any:
    """Multiply matrices as ``numpy.matmul`` does.

    An element of the product has bits that depend on its row of `a` and its column of `b` alone: a
    row gives the same bits alone and in any batch, with any number of threads, on AVX2, AVX-512
    and NVIDIA GPUs.

    Parameters
    ----------
    a, b : array-like of shape (..., m, k) and (..., k, n)
        Matrices, or stacks of them that are broadcast to each other, of float32, float64, float16,
        bfloat16 or int8. A vector is a row in `a`, a column in `b`. Tensors of torch and arrays of
        CuPy are multiplied where they lie, on a GPU on the current stream, and give one of the same
        kind; a tensor and a NumPy array give an array.
    dtype : dtype, default=None
        Type of the product: that of the matrices, int32 for int8; float32 is possible for float16
        and bfloat16, too, which are summed in float32.
    guard : {"off", "detect", "correct"}, default="off"
        Compare the sum of each row and column of the product with what those of `a` and `b` make
        it, and compute a line that contradicts again by another kernel. "detect" raises
        :class:`errors.CorruptError` where that has other bits, "correct" puts the line right.
    portable : bool, default=False
        Sum float16 and bfloat16 on a GPU as CPUs do, with the same bits, by its float32 units. Else
        tensor cores do it, many times as fast, with roundings of their own, which `arithmetic` of
        the report names; a row gives the same bits alone and in any batch there, too.
    return_report : bool, default=False
        Return a dict too: the `arithmetic` (equal names, equal bits), the `kernel`, `seconds`, and
        the bound of the error of an element: `error` times (abs(a) @ abs(b)), plus `tiny`; with
        `guard` how many `lines` were checked, `suspected` and `confirmed`, and elements `repaired`.

    Returns
    -------
    product : ndarray of shape (..., m, n)
        The product; of tensors a tensor, of CuPy arrays a CuPy array.
    report : dict
        Only with `return_report`.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import matmul
    >>> a, b = np.arange(6.0).reshape(2, 3), np.ones((3, 2))
    >>> matmul(a, b)
    array([[ 3.,  3.],
           [12., 12.]])
    >>> x = np.random.default_rng(0).normal(size=(1000, 300)).astype("f4")
    >>> y = np.random.default_rng(1).normal(size=(300, 50)).astype("f4")
    >>> bool((matmul(x[7:8], y) == matmul(x, y)[7:8]).all())
    True
    """
    if guard not in _GUARDS:
        raise _params.refuse("guard", f"one of {', '.join(_GUARDS)}", guard, "matmul")
    home = _homes.home_of(a, b)
    x, y = _matrices(a, b) if type(home) is _homes.Home else _at_home(a, b, home)
    row, column = x.ndim == 1, y.ndim == 1
    x = x[None, :] if row else x
    y = y[:, None] if column else y
    batch = _shapes(x, y)
    (m, k), n = x.shape[-2:], y.shape[-1]
    name = home.name(x)
    kind, code = _type_of_product(name, dtype)
    out = home.empty((*batch, m, n), kind, x)
    report = _abi.GemmReport(arithmetic=b"none", kernel=b"none")
    faults = _abi.GemmFaults(row=-1, column=-1)
    if math.prod(out.shape):
        left, right = _Operand(x, batch, home), _Operand(y, batch, home)
        args = _abi.GemmArgs(
            trans_a=left.trans,
            trans_b=right.trans,
            m=m,
            n=n,
            k=k,
            dtype=_CODES[name][0],
            dtype_c=code,
            alpha=1.0,
            a=home.pointer(left.array),
            b=home.pointer(right.array),
            c=home.pointer(out),
            lda=left.ld,
            ldb=right.ld,
            ldc=n,
            batch=math.prod(batch),
            stride_a=left.stride,
            stride_b=right.stride,
            stride_c=m * n,
            portable=portable,
        )
        with _library.Lease(home.device, 0, home.stream) as context:
            at = C.addressof
            status = lib.hf_gemm_guarded(context, at(args), _GUARDS[guard], at(faults), at(report))
            if status:
                raise _library.fail(status, context)
    if row:
        out = out[..., 0, :]
    if column:
        out = out[..., 0]
    if not return_report:
        return out
    parts = [report] if guard == "off" else [report, faults]
    fields = {field[0]: getattr(part, field[0]) for part in parts for field in part._fields_}
    texts = {name: v.decode() if isinstance(v, bytes) else v for name, v in fields.items()}
    return out, texts

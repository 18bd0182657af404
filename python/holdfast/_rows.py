# SPDX-License-Identifier: Apache-2.0
"""What callers pass as rows, as the C library takes them: a view of their memory, or a source."""

from __future__ import annotations

import ctypes as C
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import _abi, _library, _sources
from ._sources import CODES, NUMPY, RowSource
from .errors import InvalidArgumentError

PANEL_BYTES = 64 << 20  # less is converted as a whole: panels are converted in each iteration
_F32, _F64, _F16, _U8 = (np.dtype(t) for t in ("f4", "f8", "f2", "u1"))
_DIRECT = {_F32: 1, _F64: 2, _F16: 3, _U8: 5}


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
    """The address of the first element of a NumPy array.

    ``a.ctypes.data`` passes through code written in Python, which takes 20 us where a fit has
    emptied the caches; the struct that NumPy gives for ``__array_struct__`` takes half of that.
    """
    capsule = a.__array_struct__
    return _at(_pointer(capsule, None)).data  # type: ignore[no-any-return]


class Rows:
    """Rows of a call. Exactly one of `view` and `source` is set.

    Attributes
    ----------
    n, d, code
        Rows, columns, and element type of the C library.
    view
        Memory of the caller, of `keep`, or of a device.
    source
        Rows read on demand.
    keep
        What must live as long as `view`.
    device, stream
        Where device memory lies ("" for the host), and the stream of the caller.
    like
        Makes an array of the caller's library, on the device, of a NumPy array.
    original
        What the caller gave, for functions of the caller.
    """

    __slots__ = ("code", "d", "device", "keep", "like", "n", "original", "source", "stream", "view")

    def __init__(self, n: int, d: int, code: int, view: Any, source: Any, keep: Any) -> None:
        self.n, self.d, self.code = n, d, code
        self.view: _abi.Array | None = view
        self.source: RowSource | _abi.Source | None = source
        self.keep = keep
        self.device = ""
        self.stream = 0
        self.like: Callable[[Any], Any] | None = None
        self.original: Any = None


def _memory(address: int, code: int, n: int, d: int, step: int, keep: Any) -> Rows:
    return Rows(n, d, code, _abi.Array(address, code, n, d, step), None, keep)


def _of_source(source: RowSource) -> Rows:
    rows = Rows(source.shape[0], source.shape[1], source.code, None, source, source)
    rows.original = source
    return rows


_known: dict[type, Callable[[Any, str], Rows]] = {}  # the ways of types that came before


def take(x: Any, name: str) -> Rows:
    """`x` as rows; messages call the taker `name`."""
    if type(x) is np.ndarray:
        code = _DIRECT.get(x.dtype)
        if code is not None and x.ndim == 2 and x.flags.c_contiguous and x.size:
            n, d = x.shape
            rows = _memory(address_of(x), code, n, d, d, x)
            rows.original = x
            return rows
    of = _known.get(type(x))
    rows = _take_other(x, name) if of is None else of(x, name)
    if rows.n < 1 or rows.d < 1:
        what = "sample" if rows.n < 1 else "feature"
        raise InvalidArgumentError(
            f"Found array with 0 {what}(s) (shape=({rows.n}, {rows.d})) while a minimum of 1 is "
            f"required by {name}."
        )
    return rows


@functools.cache
def _devices() -> Any:
    """The module for arrays of other libraries, which is loaded when such come."""
    from . import _devices as module

    return module


def _of_device(function: str, x: Any, name: str) -> Rows:
    rows: Rows = getattr(_devices(), function)(x, name)
    return rows


def _take_other(x: Any, name: str) -> Rows:
    if isinstance(x, RowSource):
        native = getattr(x, "_holdfast_rows", None)  # an open file
        return _of_source(x) if native is None else native()
    if isinstance(x, np.ndarray):
        return of_array(x, name)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        _known[type(x)] = of_torch = _devices().of_torch
        return of_torch(x, name)  # type: ignore[no-any-return]
    if hasattr(x, "__cuda_array_interface__"):
        return _of_device("of_interface", x, name)
    if _is_sparse(x):
        return _of_sparse(x)
    if _is_table(x):
        from . import _tables

        return _tables.of_table(x, name)
    if hasattr(x, "__dlpack__") or type(x).__name__ == "PyCapsule":
        return _of_device("of_dlpack", x, name)
    if hasattr(x, "read") and callable(x.read) and not hasattr(x, "__array__"):
        return _of_source(_sources.Reader(x, None, None))
    if isinstance(x, Iterator):
        return _of_source(_sources.spooled(x))
    return of_array(as_array(x), name)


def as_array(x: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of what is none."""
    try:
        return np.asarray(x)
    except ValueError as error:
        raise InvalidArgumentError(
            f"these data cannot be made an array: {error}: give rows of equal length"
        ) from None


def _is_sparse(x: Any) -> bool:
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(x)


def _is_table(x: Any) -> bool:
    return (
        hasattr(x, "__dataframe__")
        or hasattr(x, "__arrow_c_stream__")
        or hasattr(x, "__arrow_c_array__")
        or (hasattr(x, "columns") and hasattr(x, "dtypes"))
    )


def check_2d(shape: tuple[int, ...], name: str, shown: Any = "") -> None:
    """scikit-learn's words for arrays of another number of dimensions."""
    if len(shape) == 2:
        return
    if len(shape) < 2:
        kind = "scalar" if len(shape) == 0 else "1D"
        raise InvalidArgumentError(
            f"Expected 2D array, got {kind} array instead:\narray={shown}.\nReshape your data "
            "either using array.reshape(-1, 1) if your data has a single feature or "
            "array.reshape(1, -1) if it contains a single sample."
        )
    raise InvalidArgumentError(f"Found array with dim {len(shape)}. {name} expected <= 2.")


def _check_type(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Refuse what holds no numbers."""
    if a.dtype.kind == "c":
        raise InvalidArgumentError(f"Complex data not supported\n{a}\n")
    if a.dtype.kind == "O":
        try:
            return a.astype(np.float64)
        except (ValueError, OverflowError) as error:
            raise InvalidArgumentError(f"{error}: the data must be numbers") from None
    if a.dtype.kind in "US":
        raise InvalidArgumentError(
            "dtype='numeric' is not compatible with arrays of bytes/strings. Convert your data to "
            "numeric values explicitly instead."
        )
    if a.dtype.kind not in "biuf" and a.dtype.name not in CODES:
        raise InvalidArgumentError(f"elements of type {a.dtype}: the data must be numbers")
    return a


def of_array(a: np.ndarray[Any, Any], name: str) -> Rows:
    """Rows of a NumPy array of any type and order."""
    if isinstance(a, np.matrix):
        raise TypeError(
            "np.matrix is not supported. Please convert to a numpy array with np.asarray."
        )
    if isinstance(a, np.ma.MaskedArray) and np.ma.getmaskarray(a).any():
        raise InvalidArgumentError(
            "Input contains NaN: the mask of a masked array hides values; fill them or leave these "
            "rows out"
        )
    original = a
    a = _check_type(np.asarray(a))
    check_2d(a.shape, name, a)
    code = _sources.code_of(a.dtype)
    rows = in_place(a, code)
    if rows is None:
        small = a.size * NUMPY[code].itemsize <= PANEL_BYTES
        if small:
            a = np.ascontiguousarray(a, a.dtype if code == 4 else NUMPY[code])
            rows = in_place(a, code)
        if rows is None:
            rows = _of_source(_sources.Strided(a.view("u2") if code == 4 else a, code))
    rows.original = original
    return rows


def in_place(a: np.ndarray[Any, Any], code: int) -> Rows | None:
    """A view, where rows are C-contiguous and of a type that needs no conversion."""
    item = NUMPY[code].itemsize
    same = a.dtype == NUMPY[code] or (code == 4 and a.dtype.name == "bfloat16")
    if not same or not a.flags.aligned:
        return None
    n, d = a.shape
    if a.flags.c_contiguous:
        return _memory(address_of(a), code, n, d, d, a)
    row, column = a.strides
    if (column == item or d == 1) and row >= d * item and row % item == 0:
        return _memory(address_of(a), code, n, d, row // item, a)
    return None


def _of_sparse(x: Any) -> Rows:
    if x.dtype.kind == "c":
        raise InvalidArgumentError(f"Complex data not supported\n{x}\n")
    if x.ndim != 2:
        check_2d(x.shape, "KMeans", x)
    m = x if x.format == "csr" else x.tocsr()
    _check_csr(m)
    code = _sources.code_of(m.dtype)
    if code in (3, 5):  # scipy makes only float32 and float64 dense in one go
        code = 1
    if m.shape[0] * m.shape[1] * NUMPY[code].itemsize <= PANEL_BYTES:
        dense = m.astype(NUMPY[code], copy=False).toarray(order="C")
        rows = of_array(dense, "KMeans")
    else:
        rows = _of_source(_sources.Sparse(m, code))
    rows.original = m
    return rows


def _check_csr(m: Any) -> None:
    """SciPy would write to where a wrong index points."""
    starts, columns = m.indptr, m.indices
    if len(starts) != m.shape[0] + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
        what = "indptr does not ascend from 0"
    elif starts[-1] > min(len(columns), len(m.data)):
        what = (
            f"indptr ends at {starts[-1]}, there are {len(columns)} indices, {len(m.data)} values"
        )
    elif len(columns) and not (columns.min() >= 0 and columns.max() < m.shape[1]):
        what = f"there are indices that are not below {m.shape[1]}, the number of its columns"
    else:
        return
    raise InvalidArgumentError(f"this sparse matrix is damaged: {what}")


def weights(w: Any, n: int) -> tuple[_abi.Array, Any] | None:
    """Sample weights as the C library takes them, and what must live as long."""
    if w is None:
        return None
    if isinstance(w, (int, float)):
        w = np.full(n, w, np.float64)
    if type(w) is not np.ndarray and (
        hasattr(w, "__cuda_array_interface__") or "torch" in sys.modules
    ):
        rows = _device_vector(w)
        if rows is not None:
            _check_weights(rows.n, n, 1)
            return rows.view, rows  # type: ignore[return-value]
    a = _check_type(np.asarray(w))
    if a.ndim != 1:
        raise InvalidArgumentError("Sample weights must be 1D array or scalar")
    _check_weights(a.shape[0], n, a.ndim)
    if a.dtype not in (_F32, _F64) or not a.flags.c_contiguous or not a.flags.aligned:
        a = np.ascontiguousarray(a, _F64)
    return _abi.Array(address_of(a), _DIRECT[a.dtype], n, 1, 1), a


def beside(weights: tuple[_abi.Array, Any], place: tuple[str, int]) -> tuple[str, int]:
    """Device and memory limit of a call with these weights, which may lie on a GPU."""
    device = weights[1].device if isinstance(weights[1], Rows) else ""
    return (device, place[1]) if device and place[0] == "auto" else place


def _check_weights(given: int, n: int, _: int) -> None:
    if given != n:
        raise InvalidArgumentError(f"sample_weight.shape == ({given},), expected ({n},)!")


def _device_vector(w: Any) -> Rows | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(w, torch.Tensor):
        if not w.is_cuda:
            return None
    elif not hasattr(w, "__cuda_array_interface__"):
        return None
    return take(w.reshape(-1, 1), "sample_weight")


def to_host(x: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of small data wherever they lie."""
    if type(x) is np.ndarray:
        return x
    if hasattr(x, "detach") and hasattr(x, "cpu"):
        x = x.detach().cpu()
        if str(x.dtype) == "torch.bfloat16":
            x = x.float()
        return np.asarray(x)
    if hasattr(x, "__cuda_array_interface__") and hasattr(x, "get"):
        return np.asarray(x.get())
    if _is_sparse(x):
        return np.asarray(x.toarray())
    return np.asarray(x)


def address(struct: C.Structure | None) -> int | None:
    """Of a struct, or NULL."""
    return None if struct is None else C.addressof(struct)


def device_of(rows: Rows, asked: str, work: float, same_bits: bool) -> bytes:
    """The device of a call of `work` products: where the data lie, else the one asked for.

    same_bits: does each device give the same?
    """
    if not rows.device:
        if asked != "auto":
            return asked.encode()
        return _library.choose(work) if same_bits else _library.choose_always(work)
    if asked not in ("auto", rows.device) and not (
        asked == "cuda" and rows.device.startswith("cuda")
    ):
        raise InvalidArgumentError(
            f"the data lie on {rows.device}, but device={asked!r}: leave device='auto', or copy "
            "the data"
        )
    return rows.device.encode()

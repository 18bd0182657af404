# SPDX-License-Identifier: Apache-2.0
"""Data files of the C readers, and rows that are not in memory."""

from __future__ import annotations

import ctypes as C
import os
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import _abi, _library, _rows, _sources, errors
from ._library import lib
from ._sources import NUMPY, RowSource

_SCALES = {"none": 0, "standard": 1, "robust": 2, "minmax": 3}
_HEADERS = {None: 0, True: 1, False: 2}


def _options(stream: bool, options: dict[str, Any]) -> _abi.OpenOpts:
    opts = _abi.OpenOpts(stream=int(stream))
    known = {"columns", "skip_columns", "missing", "scale", "header", "float64", "memory_limit"}
    for name in options:
        if name not in known:
            raise TypeError(f"unknown option {name!r}: there are {', '.join(sorted(known))}")
    for name in ("columns", "skip_columns", "missing"):
        if options.get(name) is not None:
            setattr(opts, name, str(options[name]).encode())
    from . import _params

    opts.scale = _params.one_of("scale", _SCALES, options.get("scale", "none"))
    opts.header = _HEADERS[options.get("header")]
    opts.float64 = int(bool(options.get("float64", False)))
    opts.memory_bytes = _params.memory_bytes(options.get("memory_limit"))
    return opts


class File(RowSource):
    """An open data file; from :func:`holdfast.source`.

    Rows that fit into memory are there, others are read in chunks where the format allows it.
    """

    def __init__(self, path: Any, stream: bool, options: dict[str, Any]) -> None:
        self.path = os.fspath(path)
        handle = C.c_void_p()
        opts = _options(stream, options)
        with _library.Lease(b"cpu", 0, 0) as context:
            status = lib.hf_dataset_open(
                context, os.fsencode(self.path), C.addressof(opts), C.addressof(handle)
            )
            if status:
                raise _library.fail(status, context)
        address = handle.value
        self._handle = address
        self.close = weakref.finalize(self, lib.hf_dataset_close, address)
        array = lib.hf_dataset_array(address)
        self._array = array.contents if array else None
        self._source = None if array else lib.hf_dataset_source(address).contents
        about: Any = self._array or self._source
        self.shape, self.code = (about.rows, about.cols), about.dtype
        self.format = lib.hf_dataset_format(address).decode()
        warning = _library.words(lib.hf_dataset_warning(address).decode())
        if warning:
            warnings.warn(f"{self.path}: {warning}", UserWarning, stacklevel=3)

    def _holdfast_rows(self) -> _rows.Rows:
        """For the calls of this package: C reads the file itself."""
        if not self.close.alive:
            raise errors.FileError(f"{self.path} is closed")
        rows = _rows.Rows(*self.shape, self.code, self._array, self._source, self)
        rows.original = self
        return rows

    def bind(self, failure: list[BaseException]) -> _abi.Source:
        raise errors.InvalidArgumentError("a file is read by C itself")

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        if not self.close.alive:
            raise errors.FileError(f"{self.path} is closed")
        if self._array is not None:
            out[...] = self.array()[first : first + count]
            return
        assert self._source is not None
        text = C.create_string_buffer(512)
        status = self._source.read(
            self._source.user, first, count, out.ctypes.data, C.addressof(text), len(text)
        )
        if status:
            raise errors.of_status(status, text.value.decode("utf-8", "replace"))

    def array(self) -> np.ndarray[Any, Any]:
        """The rows, which lie in memory; they live as long as the array."""
        a = self._array
        if a is None:
            return self.read(0, self.shape[0])
        dtype = NUMPY[self.code]
        size = a.rows * a.cols * dtype.itemsize
        memory = (C.c_char * size).from_address(a.data)
        memory._owner = self  # NumPy keeps `memory`
        rows: np.ndarray[Any, Any] = np.frombuffer(memory, dtype).reshape(a.rows, a.cols)
        return rows

    @property
    def columns(self) -> list[str] | None:
        """Names of the columns, where the file has a header."""
        names = []
        for j in range(self.shape[1]):
            name = C.c_char_p()
            lib.hf_dataset_column(self._handle, j, C.addressof(name))
            if name.value is None:
                return None
            names.append(name.value.decode("utf-8", "replace"))
        return names


def load(path: Any, **options: Any) -> np.ndarray[Any, Any]:
    """Read a data file into an array.

    Parameters
    ----------
    path : str or path
        A file of the formats .npy, .npz, .fvecs, .bvecs, IDX, CSV or TSV; all but the vecs may be
        compressed with gzip.
    **options
        `columns`, `skip_columns`: which to keep or to leave out, such as ``"2,5-9,age"``;
        `missing`: values that mean NaN, such as ``"-9999,?"``; `scale`: 'standard', 'robust' or
        'minmax'; `header`: True, False, or None to guess; `float64`: for text; `memory_limit`.

    Returns
    -------
    rows : ndarray of shape (n_samples, n_features)
        float32, float64, float16 or uint8; bfloat16 becomes float32.

    Examples
    --------
    >>> import os, tempfile
    >>> import holdfast
    >>> path = os.path.join(tempfile.mkdtemp(), "points.csv")
    >>> with open(path, "w") as f:
    ...     _ = f.write("x,y\\n1,2\\n3,4\\n")
    >>> holdfast.load(path, columns="y")
    array([[2.],
           [4.]], dtype=float32)
    """
    options.setdefault("memory_limit", 1 << 62)
    rows = File(path, False, options).array()
    if rows.dtype == np.uint16:  # bfloat16
        return (rows.astype(np.uint32) << 16).view(np.float32)
    return rows


def source(what: Any, shape: Any = None, dtype: Any = None, **options: Any) -> RowSource:
    """Rows that need not be in memory.

    Parameters
    ----------
    what : str, path, object, function or iterator
        A data file, see :func:`load`; an object with ``read(first, count)`` that returns those
        rows; a function that returns a new iterator of chunks of rows each time; or an iterator,
        whose rows are kept in a temporary file.
    shape : (int, int), default=None
        Rows and columns, for objects without an attribute `shape`; saves functions a pass.
    dtype : dtype, default=None
        Type of the elements, likewise.
    **options
        For files, see :func:`load`.

    Returns
    -------
    source : RowSource
        ``KMeans`` takes it in the place of an array.

    Examples
    --------
    >>> import numpy as np
    >>> import holdfast
    >>> def chunks():
    ...     for i in range(10):
    ...         yield np.full((100, 2), i % 2, np.float32)
    >>> km = holdfast.KMeans(2, random_state=0).fit(holdfast.source(chunks))
    >>> km.inertia_, km.labels_.shape
    (0.0, (1000,))
    """
    if isinstance(what, RowSource):
        return what
    if isinstance(what, (str, os.PathLike)):
        return File(what, True, options)
    if options:
        raise TypeError(f"options {sorted(options)} are for files, not for {type(what).__name__}")
    if hasattr(what, "read") and callable(what.read):
        return _sources.Reader(what, shape, dtype)
    if isinstance(what, Iterator):
        return _sources.spooled(what)
    if callable(what):
        return _sources.Restarted(what, shape, dtype)
    if hasattr(what, "__array__") or hasattr(what, "shape"):
        a = np.asarray(what)
        return _sources.Strided(a, _sources.code_of(a.dtype))
    raise errors.InvalidArgumentError(
        f"{type(what).__name__} is no source: give a path, an object with read(first, count), a "
        "function that returns an iterator of chunks, or an iterator"
    )

# SPDX-License-Identifier: Apache-2.0
"""Rows that are brought into the form that the C library reads, some at a time."""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from . import _abi
from ._progress import deliver
from .errors import InvalidArgumentError

# Element types of the C library and of NumPy. Rows of bfloat16 are handled as their 16 bits.
CODES = {"float32": 1, "float64": 2, "float16": 3, "bfloat16": 4, "uint8": 5}
NUMPY: dict[int, np.dtype[Any]] = dict(enumerate(map(np.dtype, ("f4", "f8", "f2", "u2", "u1")), 1))


class RowSource:
    """Rows that are read on demand, any of them and more than once.

    ``KMeans`` takes one wherever it takes an array. `shape` and `dtype` are what they are for
    an array.
    """

    shape: tuple[int, int]
    code: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements; bfloat16 is shown as its 16 bits."""
        return NUMPY[self.code]

    def __len__(self) -> int:
        return self.shape[0]

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        """Write rows ``first`` to ``first + count`` to `out`."""
        raise NotImplementedError

    def read(self, first: int, count: int) -> np.ndarray[Any, Any]:
        """Rows ``first`` to ``first + count`` as an array."""
        first = min(max(first, 0), self.shape[0])
        out = np.empty((min(count, self.shape[0] - first), self.shape[1]), self.dtype)
        self.read_into(first, len(out), out)
        return out

    def bind(self, failure: list[BaseException]) -> _abi.Source:
        """The struct for C. What `read_into` raises goes to `failure`."""
        rows, cols = self.shape
        dtype, read_into = NUMPY[self.code], self.read_into
        row_bytes = cols * dtype.itemsize

        def read(_: Any, first: int, count: int, dst: int, message: int, room: int) -> int:
            try:
                deliver()
                memory = (C.c_char * (count * row_bytes)).from_address(dst)
                panel: Any = np.frombuffer(memory, dtype)  # type: ignore[call-overload]
                read_into(first, count, panel.reshape(count, cols))
                return 0
            except BaseException as error:  # raised again where C returns
                failure.append(error)
                text = f"{type(error).__name__}: {error}".encode()[: room - 1] + b"\0"
                C.memmove(message, text, len(text))
                return 3

        return _abi.Source(rows, cols, self.code, _abi.Read(read), None)


class Strided(RowSource):
    """An array in any order or type, a panel at a time."""

    def __init__(self, array: Any, code: int) -> None:
        self.array, self.code, self.shape = array, code, array.shape

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        out[...] = self.array[first : first + count]


class Columns(RowSource):
    """Columns of a table, each an array of its own."""

    def __init__(self, columns: list[np.ndarray[Any, Any]], code: int) -> None:
        self.columns, self.code = columns, code
        self.shape = (len(columns[0]), len(columns))

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        for j, column in enumerate(self.columns):
            out[:, j] = column[first : first + count]


class Sparse(RowSource):
    """A CSR matrix, made dense a panel at a time."""

    def __init__(self, matrix: Any, code: int) -> None:
        self.matrix, self.code, self.shape = matrix, code, matrix.shape
        self._whole = matrix.data.dtype == NUMPY[code]

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        m = self.matrix
        begin, end = int(m.indptr[first]), int(m.indptr[first + count])
        indptr = m.indptr[first : first + count + 1] - begin
        data = m.data[begin:end]
        panel = type(m)(
            (data if self._whole else data.astype(out.dtype), m.indices[begin:end], indptr),
            shape=(count, m.shape[1]),
            copy=False,
        )
        panel.toarray(out=out)


def _put(rows: np.ndarray[Any, Any], out: np.ndarray[Any, Any], code: int) -> None:
    """Rows of the caller's into memory of the library, whose type they must fit."""
    if rows.dtype.name == "bfloat16":
        rows = rows.view("u2")
    fits = rows.dtype == out.dtype
    if not fits and code != CODES["bfloat16"]:
        fits = bool(np.can_cast(rows.dtype, out.dtype, "same_kind"))
        if not fits and rows.dtype.kind in "biuf":
            with np.errstate(all="ignore"):
                fits = np.array_equal(rows, rows.astype(out.dtype))
    if not fits:
        kind = "bfloat16" if code == CODES["bfloat16"] else out.dtype
        raise InvalidArgumentError(
            f"a source of {kind} gave rows of {rows.dtype}, which do not fit: give all rows in one "
            "type, or say with dtype= which type holds them all"
        )
    out[...] = rows


class Reader(RowSource):
    """An object with ``read(first, count)``."""

    def __init__(self, reader: Any, shape: tuple[int, int] | None, dtype: Any) -> None:
        self.reader = reader
        if shape is None:
            shape = getattr(reader, "shape", None)
        if shape is None or len(shape) != 2:
            raise InvalidArgumentError(
                "a source needs shape=(rows, columns): set the attribute `shape` of the object, "
                "or pass it to holdfast.source()"
            )
        self.shape = (int(shape[0]), int(shape[1]))
        if dtype is None:
            dtype = getattr(reader, "dtype", None)
        if dtype is None and self.shape[0] > 0:
            dtype = np.asarray(reader.read(0, 1)).dtype
        self.code = code_of(dtype)

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        rows = np.asarray(self.reader.read(first, count))
        if rows.shape != out.shape:
            raise InvalidArgumentError(
                f"read({first}, {count}) of {type(self.reader).__name__} gave an array of shape "
                f"{rows.shape} where {out.shape} is needed"
            )
        _put(rows, out, self.code)


class Restarted(RowSource):
    """Chunks of rows from a function that returns a new iterator of them each time."""

    def __init__(self, make: Callable[[], Iterable[Any]], shape: Any, dtype: Any) -> None:
        self.make = make
        self._at = 0
        self._chunks: Iterator[Any] | None = None
        self._rest: np.ndarray[Any, Any] | None = None
        rows, cols = 0, None
        kinds: set[Any] = set()
        if shape is None or dtype is None:  # a pass that counts
            for chunk in make():
                a = np.asarray(chunk)
                if a.ndim != 2 or (cols is not None and a.shape[1] != cols):
                    raise InvalidArgumentError(
                        f"chunk of shape {a.shape} at row {rows}: chunks must be arrays of rows "
                        "with the same number of columns"
                    )
                rows, cols = rows + a.shape[0], a.shape[1]
                kinds.add(a.dtype)
            shape = (rows, cols or 0)
            if dtype is None:  # that of all chunks
                dtype = kinds.pop() if len(kinds) == 1 else np.result_type(*kinds, np.uint8)
        self.shape, self.code = (int(shape[0]), int(shape[1])), code_of(dtype)

    def _next(self) -> np.ndarray[Any, Any]:
        if self._chunks is None:
            self._chunks = iter(self.make())
        try:
            chunk = np.asarray(next(self._chunks))
        except StopIteration:
            raise InvalidArgumentError(
                f"the iterator ended at row {self._at}, but {self.shape[0]} rows were promised: "
                "it must give the same rows each time"
            ) from None
        if chunk.ndim != 2 or chunk.shape[1] != self.shape[1]:
            raise InvalidArgumentError(
                f"chunk of shape {chunk.shape} at row {self._at}: {self.shape[1]} columns were "
                "promised"
            )
        return chunk

    def read_into(self, first: int, count: int, out: np.ndarray[Any, Any]) -> None:
        if first < self._at:
            self._at, self._chunks, self._rest = 0, None, None
        done = 0
        while done < count:
            chunk = self._rest if self._rest is not None else self._next()
            self._rest = None
            skip = min(max(first + done - self._at, 0), len(chunk))
            take = min(len(chunk) - skip, count - done)
            if take > 0:
                _put(chunk[skip : skip + take], out[done : done + take], self.code)
            done += take
            self._at += skip + take
            if skip + take < len(chunk):
                self._rest = chunk[skip + take :]


def spooled(chunks: Iterable[Any]) -> RowSource:
    """A source of the rows of an iterator that runs once."""
    rows = spool(chunks)
    return Strided(rows, code_of(rows.dtype))


def spool(chunks: Iterable[Any]) -> np.ndarray[Any, Any]:
    """The rows of an iterator that runs once, kept in a temporary file that has no name."""
    import tempfile

    file = tempfile.TemporaryFile()
    rows, cols, dtype = 0, -1, None
    for chunk in chunks:
        a = np.ascontiguousarray(chunk)
        dtype = a.dtype if dtype is None else dtype
        if a.ndim != 2 and cols < 0:
            raise InvalidArgumentError(
                f"chunk of shape {a.shape}: an iterator must give arrays of several rows each, of "
                "shape (rows, columns)"
            )
        cols = a.shape[1] if cols < 0 else cols
        if a.ndim != 2 or a.shape[1] != cols or a.dtype != dtype:
            raise InvalidArgumentError(
                f"chunk of shape {a.shape} and type {a.dtype} at row {rows}: chunks must be arrays "
                f"of rows with {cols} columns of {dtype}"
            )
        file.write(a.tobytes() if not a.dtype.isbuiltin else a.data)
        rows += a.shape[0]
    file.flush()
    if rows == 0 or cols <= 0:
        raise InvalidArgumentError("the iterator gave no rows")
    return np.memmap(file, dtype, "r", shape=(rows, cols))  # type: ignore[no-any-return, call-overload]


def code_of(dtype: Any) -> int:
    """Element type of the C library for rows of a NumPy type: itself, or float64."""
    name = str(getattr(dtype, "name", dtype))
    if name in CODES:
        return CODES[name]
    kind = np.dtype(dtype)
    if kind.name in CODES and kind.isnative:
        return CODES[kind.name]
    if kind.kind in "biuf":
        return CODES[kind.name] if kind.kind == "f" and kind.itemsize < 8 else CODES["float64"]
    raise InvalidArgumentError(
        f"elements of type {kind}: give float32, float64, float16, bfloat16, uint8 or integers"
    )

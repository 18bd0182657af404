# SPDX-License-Identifier: Apache-2.0
"""Rows of DataFrames and Arrow tables: columns are read where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _rows, _sources
from .errors import InvalidArgumentError, UnsupportedError


def of_table(x: Any, name: str) -> _rows.Rows:
    """Rows of a DataFrame of pandas or polars, or of an Arrow table."""
    library = type(x).__module__.partition(".")[0]
    if library == "pandas":
        return _of_pandas(x, name)
    if library == "polars":
        pairs = [(column.name, column.to_numpy()) for column in x.get_columns()]
        return _of_columns(pairs, x, name)
    return _of_arrow(x, name)


def _of_pandas(x: Any, name: str) -> _rows.Rows:
    if getattr(x, "ndim", 2) == 1:
        _rows.check_2d((len(x),), name, x)
    if not x.shape[1]:
        return _rows.of_array(np.empty(x.shape), name)
    kinds = set(x.dtypes)
    if len(kinds) == 1 and isinstance(next(iter(kinds)), np.dtype):
        kind = next(iter(kinds)).kind
        if kind in "biuf":
            rows = _rows.of_array(x.to_numpy(), name)
            rows.original = x
            return rows
    if all(getattr(kind, "sparse", None) or type(kind).__name__ == "SparseDtype" for kind in kinds):
        return _rows._of_sparse(x.sparse.to_coo())
    pairs = [(label, _pandas_column(x.iloc[:, j], label)) for j, label in enumerate(x.columns)]
    return _of_columns(pairs, x, name)


def _pandas_column(column: Any, label: Any) -> np.ndarray[Any, Any]:
    """Missing values of the nullable types become NaN, which the fit refuses."""
    if not isinstance(column.dtype, np.dtype):
        try:
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"{_named(label, column.dtype)} ({error})") from None
    return np.asarray(column.to_numpy())


def _named(label: Any, kind: Any) -> str:
    return (
        f"could not convert string to float: column {label!r} of the table is of type {kind}; "
        "leave it out or encode it as numbers"
    )


def _of_columns(pairs: list[tuple[Any, Any]], original: Any, name: str) -> _rows.Rows:
    columns = []
    for label, a in pairs:
        if a.dtype.kind == "O":
            try:
                a = a.astype(np.float64)
            except (TypeError, ValueError):
                raise InvalidArgumentError(_named(label, a.dtype)) from None
        if a.dtype.kind not in "biuf":
            raise InvalidArgumentError(_named(label, a.dtype))
        columns.append(a)
    if not columns or not len(columns[0]):
        rows = _rows.of_array(np.empty((len(original), len(columns))), name)
    else:
        code = _sources.code_of(np.result_type(*[a.dtype for a in columns]))
        source = _sources.Columns(columns, code)
        size = len(columns) * len(columns[0]) * source.dtype.itemsize
        if size <= _rows.PANEL_BYTES:
            rows = _rows.of_array(source.read(0, len(columns[0])), name)
        else:
            rows = _rows._of_source(source)
    rows.original = original
    return rows


def _of_arrow(x: Any, name: str) -> _rows.Rows:
    try:
        import pyarrow as pa
    except ImportError:
        raise UnsupportedError(
            f"{type(x).__name__} is read through pyarrow, which is not installed: pip install "
            "pyarrow, or pass a NumPy array"
        ) from None
    table = x
    if isinstance(x, (pa.Array, pa.ChunkedArray)):
        table = pa.table({"0": x})
    elif not isinstance(x, (pa.Table, pa.RecordBatch)):
        table = pa.table(x)
    if table.num_columns == 1 and pa.types.is_fixed_size_list(table.schema.field(0).type):
        return _of_lists(table.column(0), x, name)
    pairs = []
    for field, column in zip(table.schema, table.columns):
        if not (
            pa.types.is_integer(field.type)
            or pa.types.is_floating(field.type)
            or pa.types.is_boolean(field.type)
        ):
            raise InvalidArgumentError(_named(field.name, field.type))
        pairs.append((field.name, _arrow_column(_one_chunk(column))))
    rows = _of_columns(pairs, table, name)
    rows.original = x
    return rows


def _one_chunk(column: Any) -> Any:
    """An array of a column; several chunks are put together."""
    if not hasattr(column, "num_chunks"):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    return whole.chunk(0) if hasattr(whole, "num_chunks") else whole


def _arrow_column(column: Any) -> np.ndarray[Any, Any]:
    a: np.ndarray[Any, Any] = column.to_numpy(zero_copy_only=False)
    return a.astype(np.float64) if a.dtype.kind == "O" else a


def _of_lists(column: Any, original: Any, name: str) -> _rows.Rows:
    """A column of lists of one length, as tables hold embeddings: rows that lie together."""
    column = _one_chunk(column)
    if column.null_count:
        raise InvalidArgumentError("Input contains NaN: some lists of the column are missing")
    values = column.flatten()
    if values.null_count:
        raise InvalidArgumentError("Input contains NaN: some numbers of the lists are missing")
    a = values.to_numpy(zero_copy_only=False).reshape(len(column), column.type.list_size)
    rows = _rows.of_array(a, name)
    rows.original = original
    return rows


def names_of(x: Any) -> np.ndarray[Any, Any] | None:
    """Names of the columns of a table if all are strings, else None."""
    if hasattr(x, "column_names"):
        labels = x.column_names
    elif hasattr(x, "columns") and not isinstance(x, np.ndarray):
        labels = x.columns
    else:
        return None
    labels = list(labels)
    if not labels or not all(isinstance(label, str) for label in labels):
        return None
    return np.asarray(labels, dtype=object)

# SPDX-License-Identifier: Apache-2.0
"""Calls of the C library: what they take from Python, and what they give back."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np

from . import _abi, _library, _rows
from ._library import lib
from ._progress import Interrupts, deliver
from ._rows import address_of

HISTORY = np.dtype(
    [(field[0], "f8" if field[1] is C.c_double else "i8") for field in _abi.Iteration._fields_]
)
STOPS = ("none", "labels", "tol", "max_iter", "cancelled")
_addressof = C.addressof
_memmove = C.memmove


def copy_of(address: int | None, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """An array of its own of memory of the library."""
    a = np.empty(shape, dtype)
    if a.nbytes:
        _memmove(address_of(a), address, a.nbytes)  # type: ignore[arg-type]
    return a


def _raise_first(failure: list[BaseException]) -> None:
    if failure:
        raise failure[0]


def guard_report(scheme: bytes, checks: int, faults: _abi.GuardCounts) -> dict[str, Any]:
    """What was checked and found, as report.json of the command has it."""
    names = [lib.hf_guard_check_name(i) for i in range(32)]
    made = [checks >> i & 1 for i in range(32)]
    return {
        "scheme": scheme.decode(),
        **{field[0]: getattr(faults, field[0]) for field in faults._fields_},
        "checks": [n.decode() for n, m in zip(names, made) if n and m],
        "not_made": [n.decode() for n, m in zip(names, made) if n and not m],
    }


class Inputs:
    """Rows as the two arguments of a call, of which one is NULL."""

    __slots__ = ("array", "failure", "source", "struct")

    def __init__(self, rows: _rows.Rows) -> None:
        self.failure: list[BaseException] = []
        self.array: int | None = None
        self.source: int | None = None
        if rows.view is not None:
            self.struct: Any = rows.view
            self.array = _addressof(self.struct)
        else:
            given: Any = rows.source
            self.struct = given if isinstance(given, _abi.Source) else given.bind(self.failure)
            self.source = _addressof(self.struct)


class _Result(_abi.KMeansResult):
    """A result that frees what the library holds for it."""

    def __del__(self, _clear: Any = lib.hf_kmeans_result_clear, _at: Any = _addressof) -> None:
        _clear(_at(self))


class _Memory:
    """Memory of a result as NumPy sees it; arrays of it keep the result alive."""

    __slots__ = ("__array_interface__", "owner")
    __array_interface__: dict[str, Any]
    owner: Any


def _own(owner: _Result, address: int | None, shape: tuple[int, ...], kind: str) -> Any:
    """An array of memory of the library, which `owner` frees once the array is gone."""
    memory = _Memory()
    memory.owner = owner
    memory.__array_interface__ = {
        "shape": shape,
        "typestr": kind,
        "data": (address, False),
        "version": 3,
    }
    return np.asarray(memory)


_TOGETHER = 1 << 18  # so many labels and fewer are freed with the rest of their result


class Fit:
    """A result as Python objects. Labels and centroids stay where the library wrote them."""

    __slots__ = ("_centers", "context", "r", "restart")

    def __init__(self, r: _Result, context: _library.Context) -> None:
        self.r, self.context, self.restart = r, context, r.restart
        self._centers: Any = None

    def centers(self) -> np.ndarray[Any, Any]:
        """The centroids."""
        if self._centers is None:
            c = self.r.centroids
            kind = "<f8" if c.dtype == 2 else "<f4"
            self._centers = _own(self.r, c.data, (c.rows, c.cols), kind)
        return self._centers  # type: ignore[no-any-return]

    def labels(self) -> np.ndarray[Any, Any]:
        """The labels, once: many have an owner of their own and do not live on with centroids."""
        r = owner = self.r
        address = r.labels
        if r.n > _TOGETHER:
            owner = _Result()
            owner.labels, r.labels = address, None
        return _own(owner, address, (r.n,), "<i4")  # type: ignore[no-any-return]

    def report(self) -> dict[str, Any]:
        """What KMeans shows as `report_`."""
        r, w = self.r, self.r.widest
        return {
            "rows": r.n,
            "columns": r.d,
            "k": r.k,
            "device": self.context.device,
            "threads": self.context.threads,
            "inertia": r.inertia,
            "iterations": r.iterations,
            "restart": self.restart,
            "stop": STOPS[r.stop],
            "converged": bool(r.converged),
            "clusters_found": r.clusters_found,
            "sizes": copy_of(r.sizes, r.k, "i8"),
            "history": copy_of(r.history, r.iterations, HISTORY),
            "seconds": {
                "init": r.seconds_init,
                "iterate": r.seconds_iterate,
                "finish": r.seconds_finish,
                "total": r.seconds_total,
            },
            "workspace_bytes": r.workspace_bytes,
            "chunk_rows": r.chunk_rows,
            "kernels": {"assign": r.kernel_assign.decode(), "update": r.kernel_update.decode()},
            "guard": guard_report(r.guard, r.checks, r.faults),
            "widest_column": {
                "column": w.column,
                "min": w.min,
                "max": w.max,
                "deviation": w.deviation,
                "typical": w.typical,
            },
        }


# A context keeps the workspace that its largest call took: those of large calls are closed at once.
_KEEP_WORKSPACE = 64 << 20
_KEEP_VALUES = 1 << 22
_USUAL_STEPS = 30  # iterations that most fits need
_PASS = 32  # products that a CPU makes while it reads a value


def _work(rows: _rows.Rows, k: int) -> float:
    """Products of two numbers that a pass over the rows is worth."""
    return float(rows.n) * rows.d * (k + _PASS)


def fit(rows: _rows.Rows, opts: _abi.KMeansOpts, place: tuple[str, int], watch: Any) -> Fit:
    """Run a fit; place: device and memory limit; watch: None for rows in memory, untold."""
    result = _Result()
    device = rows.device
    if device and place[0] == "auto":
        key = device.encode()
    else:
        steps = min(opts.max_iter, _USUAL_STEPS) * (opts.n_init or 1)
        work = _work(rows, opts.k) * steps
        key = _rows.device_of(rows, place[0], work, opts.precision == 0)
    lease = _library.Lease(key, place[1], rows.stream)
    with lease as context:
        if watch is None:
            assert rows.view is not None
            status = lib.hf_kmeans_fit(
                context, _addressof(rows.view), _addressof(opts), _addressof(result)
            )
        else:
            status = _fit_watched(lease, rows, opts, result, watch)
        if status:
            lease.keep = False
            raise _library.fail(status, context)
        lease.keep = result.workspace_bytes <= _KEEP_WORKSPACE
        return Fit(result, lease.held)


def _fit_watched(
    lease: _library.Lease, rows: _rows.Rows, opts: _abi.KMeansOpts, result: _Result, watch: Any
) -> int:
    """With functions of Python that C calls. The status; what they raised is raised here."""
    inputs = Inputs(rows)
    wanted = watch.wanted(lease.held.device != "cpu")
    if wanted:
        opts.progress = watch.function()
    call = lib.hf_kmeans_fit if inputs.array else lib.hf_kmeans_fit_source
    with Interrupts(wanted or inputs.source is not None) as watch.interrupts:
        status = call(
            lease.held.handle, inputs.array or inputs.source, _addressof(opts), _addressof(result)
        )
    if status:
        _raise_first(inputs.failure)
        _raise_first(watch.failure)
    return int(status)


class Centers:
    """Centroids as an argument."""

    __slots__ = ("keep", "struct")

    def __init__(self, centers: Any) -> None:
        if type(centers) is not np.ndarray:
            centers = _rows.to_host(centers)
        code = _rows._DIRECT.get(centers.dtype)
        if code is None or not centers.flags.c_contiguous:
            centers = np.ascontiguousarray(centers, None if code else np.float64)
            code = _rows._DIRECT[centers.dtype]
        k, d = centers.shape
        self.keep = centers
        self.struct = _abi.Array(address_of(centers), code, k, d, d)


def _lease(rows: _rows.Rows, k: int, place: tuple[str, int], same_bits: bool) -> _library.Lease:
    """A context for one pass over rows."""
    device = _rows.device_of(rows, place[0], _work(rows, k), same_bits)
    lease = _library.Lease(device, place[1], rows.stream)
    lease.keep = rows.n * rows.d <= _KEEP_VALUES
    return lease


def predict(
    rows: _rows.Rows,
    centers: Any,
    how: tuple[int, int],
    place: tuple[str, int],
    weights: Any = None,
    distances: np.ndarray[Any, Any] | None = None,
    want_inertia: bool = False,
) -> tuple[np.ndarray[Any, Any], float]:
    """Labels, and the inertia if it is wanted. how: metric and precision."""
    c = Centers(centers)
    labels = np.empty(rows.n, np.int32)
    inertia = C.c_double()
    inputs = Inputs(rows)
    lease = _lease(rows, c.struct.rows, place, how[1] == 0)
    with lease as context:
        with Interrupts(inputs.source is not None) as interrupts:
            status = lib.hf_kmeans_predict(
                context,
                inputs.array,
                inputs.source,
                _addressof(c.struct),
                how[0],
                how[1],
                None if weights is None else _addressof(weights[0]),
                address_of(labels),
                None if distances is None else address_of(distances),
                _addressof(inertia) if want_inertia else None,
            )
        if status:
            lease.keep = False
            _raise_first(inputs.failure)
            raise _library.fail(status, context)
    interrupts.deliver()
    return labels, inertia.value


def transform(
    rows: _rows.Rows, centers: Any, how: tuple[int, int], place: tuple[str, int], dtype: Any
) -> np.ndarray[Any, Any]:
    """Distances of all rows to all centroids."""
    c = Centers(centers)
    k = c.struct.rows
    out = np.empty((rows.n, k), dtype)
    inputs = Inputs(rows)
    failure = inputs.failure
    base = address_of(out) if out.dtype == np.float64 else 0

    def sink(_: Any, first: int, count: int, distances: int) -> int:
        try:
            deliver()
            if base:
                _memmove(base + first * k * 8, distances, count * k * 8)
            else:
                chunk = np.frombuffer((C.c_char * (count * k * 8)).from_address(distances))
                out[first : first + count] = chunk.reshape(count, k)
            return 0
        except BaseException as error:  # raised again where C returns
            failure.append(error)
            return 1

    opts = _abi.PredictOpts(metric=how[0], precision=how[1])
    lease = _lease(rows, k, place, False)
    with lease as context:
        with Interrupts(True) as interrupts:
            status = lib.hf_kmeans_transform_with(
                context,
                inputs.array,
                inputs.source,
                _addressof(c.struct),
                _addressof(opts),
                _abi.TransformSink(sink),
            )
        if status:
            lease.keep = False
            _raise_first(failure)
            raise _library.fail(status, context)
    interrupts.deliver()
    return out


def seeds(rows: _rows.Rows, opts: _abi.KMeansOpts, place: tuple[str, int]) -> np.ndarray[Any, Any]:
    """First centroids, float64."""
    out = np.empty((opts.k, rows.d), np.float64)
    target = _abi.Array(address_of(out), 2, opts.k, rows.d, rows.d)
    inputs = Inputs(rows)
    lease = _lease(rows, opts.k, place, True)
    with lease as context:
        status = lib.hf_kmeans_seed(
            context, inputs.array, inputs.source, _addressof(opts), _addressof(target)
        )
        if status:
            lease.keep = False
            _raise_first(inputs.failure)
            raise _library.fail(status, context)
    return out

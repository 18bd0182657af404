# SPDX-License-Identifier: Apache-2.0
"""Sparse linear systems, one or many."""

from __future__ import annotations

import ctypes as C
import operator
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import _abi, _abi_relax, _call, _library, _log, errors
from ._library import lib
from ._progress import Interrupts, deliver
from ._rows import address_of

__all__ = ["Solution", "solve", "solve_batch"]

_addressof = C.addressof
_F32, _F64 = np.dtype("f4"), np.dtype("f8")
_METHODS = ("auto", "jacobi", "gauss-seidel", "async", "schwarz", "cg", "chebyshev")
_PRECONDS = ("auto", "jacobi", "blocks")
_PARTITIONS = ("auto", "strips", "graph")
_TIMINGS = ("tagged", "free")
_EXCHANGES = ("push", "amc", "dc", "dk")
_SWITCH = {None: 0, True: 1, False: 2}
_STOPS = ("none", "tol", "stall", "diverged", "time", "max_iter", "cancelled", "broke_down")


def _choice(name: str, value: Any, names: tuple[str, ...]) -> int:
    if value not in names:
        raise errors.InvalidArgumentError(f"{name}={value!r}: must be one of {', '.join(names)}")
    return names.index(value)


class _Matrix:
    """A sparse matrix as hf_csr, and the arrays that it borrows: those of SciPy where they fit."""

    __slots__ = ("columns", "dtype", "shape", "starts", "struct", "values")

    def __init__(self, A: Any) -> None:
        if not all(hasattr(A, part) for part in ("indptr", "indices", "data")) or (
            getattr(A, "format", "csr") != "csr"
        ):
            if not hasattr(A, "tocsr"):
                raise errors.InvalidArgumentError(
                    f"A is a {type(A).__name__}: a sparse matrix is needed, as "
                    "scipy.sparse.csr_array(A) makes one"
                )
            A = A.tocsr()
        if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
            raise errors.InvalidArgumentError(f"A has shape {A.shape}: it must be square")
        if A.data.dtype.kind not in "biuf":
            raise errors.DataError(f"A holds {A.data.dtype}: only real matrices are solved")
        kind = _F32 if A.data.dtype == _F32 else _F64
        self.shape = (int(A.shape[0]), int(A.shape[1]))
        self.dtype = kind
        self.starts = np.ascontiguousarray(A.indptr, np.int64)
        self.columns = _indices(A)
        self.values = np.ascontiguousarray(A.data, kind)
        n, elements = self.shape[0], self.starts[-1]
        if len(self.starts) != n + 1 or elements > min(len(self.columns), len(self.values)):
            raise errors.DataError("A is damaged: its indptr does not fit its indices and data")
        self.struct = _abi_relax.Csr(
            n,
            n,
            1 if kind is _F32 else 2,
            address_of(self.starts),
            address_of(self.columns),
            address_of(self.values),
        )


def _count(name: str, value: int) -> int:
    """A whole number that fits a C int: ctypes would cut it."""
    if not -(2**31) <= operator.index(value) < 2**31:
        raise errors.InvalidArgumentError(f"{name}={value}: out of range")
    return operator.index(value)


def _indices(A: Any) -> np.ndarray[Any, Any]:
    """Column numbers as the library takes them; none is cut to another one."""
    seen = np.ascontiguousarray(A.indices, np.int32)
    if A.indices.dtype != np.int32 and not np.array_equal(seen, A.indices):
        raise errors.DataError("A has column numbers that are not whole numbers below 2^31")
    return seen


def _options(
    *,
    method: str = "auto",
    precond: str = "auto",
    partition: str = "auto",
    timing: str = "tagged",
    tol: float = 1e-10,
    maxiter: int | None = None,
    max_seconds: float | None = None,
    block: int | None = None,
    sweeps: int | None = None,
    overlap: int | None = None,
    damping: float | None = None,
    coarse: bool | None = None,
    symmetric: bool = False,
    inside: Any = np.float64,
    memory_bytes: int | None = None,
    one_launch: bool | None = None,
    devices: str | None = None,
    exchange: str = "push",
    spares: int = 0,
) -> _abi_relax.RelaxOpts:
    if np.dtype(inside) not in (_F32, _F64):
        raise errors.InvalidArgumentError(f"inside={inside!r}: must be float32 or float64")
    return _abi_relax.RelaxOpts(
        method=_choice("method", method, _METHODS),
        precond=_choice("precond", precond, _PRECONDS),
        partition=_choice("partition", partition, _PARTITIONS),
        timing=_choice("timing", timing, _TIMINGS),
        tol=-1.0 if tol <= 0 else tol,  # NaN is refused by the library
        max_iter=maxiter or 0,
        max_seconds=max_seconds or 0.0,
        block_rows=block or 0,
        local_sweeps=_count("sweeps", sweeps or 0),
        overlap=0 if overlap is None else _count("overlap", overlap) or -1,
        damping=damping or 0.0,
        coarse=_SWITCH[coarse],
        symmetric=int(symmetric),
        inside=1 if np.dtype(inside) == _F32 else 2,
        memory_bytes=memory_bytes or 0,
        one_launch=_SWITCH[one_launch],
        devices=devices.encode() if devices else None,
        exchange=_choice("exchange", exchange, _EXCHANGES),
        spares=_count("spares", spares),
    )


def _faults(faults: _abi_relax.RelaxFaults) -> dict[str, Any]:
    """What protection saw and did; `taken`: blocks that others took over, the first ones."""
    counts = ("missed_forecasts", "rollbacks", "reloads", "takeovers")
    seen: dict[str, Any] = {name: getattr(faults, name) for name in counts}
    taken = faults.taken[: faults.taken_count]
    seen["taken"] = [{name: getattr(t, name) for name, _ in t._fields_} for t in taken]
    return seen


def _dense(name: str, value: Any, n: int) -> np.ndarray[Any, Any]:
    """A right-hand side or start as contiguous float64, one-dimensional or not."""
    a = np.ascontiguousarray(value, _F64)
    if a.ndim not in (1, 2) or a.shape[0] != n:
        raise errors.InvalidArgumentError(
            f"{name} has shape {a.shape}: it must be ({n},) or ({n}, columns), as A is {n} x {n}"
        )
    return a


def _vectors(b: Any, x0: Any, n: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A right-hand side, and an array of our own that holds the start."""
    rhs = _dense("b", b, n)
    x = np.zeros(rhs.shape) if x0 is None else _dense("x0", x0, n).copy()
    if x.shape != rhs.shape:
        raise errors.InvalidArgumentError(f"x0 has shape {x.shape}, but b has {rhs.shape}")
    return rhs, x


def _view(a: np.ndarray[Any, Any]) -> _abi.Array:
    cols = 1 if a.ndim == 1 else a.shape[1]
    return _abi.Array(address_of(a), 2, a.shape[0], cols, cols)


class _Result(_abi_relax.RelaxResult):
    """A result that frees what the library holds for it."""

    def __del__(self, _clear: Any = lib.hf_relax_result_clear, _at: Any = _addressof) -> None:
        _clear(_at(self))


class Solution:
    """What :func:`solve` found.

    Attributes
    ----------
    x : ndarray of the shape of b
        The solution; the best one seen where it did not converge.
    converged : bool
        Every column is within the tolerance, by a residual computed anew from A at the end.
    stop : str
        Why it ended: "tol", "stall", "diverged", "time", "max_iter", "cancelled" or "broke_down".
    residual : float
        The true \\|b - A x\\| / \\|b\\|, of the worst column.
    iterations : int
        Of the column that took most.
    method : str
        The method that was used.
    advice : str
        What `auto` chose and why, or why relaxation is the wrong tool here; "" for nothing to say.
    history : list of ndarray
        For each column the residual before the first iteration and after each (every
        ``columns[j]["history_step"]``-th) one.
    columns : list of dict
        For each column: stop, iterations, residual, checks, refused, history_step, seconds,
        seconds_launch.
    report : dict
        What else there is to know: preconditioner, blocks, spectrum, faults, times, memory.
    """

    def __init__(self, x: np.ndarray[Any, Any], r: _Result) -> None:
        self.x = x
        self.converged = bool(r.converged)
        self.stop = _STOPS[r.stop]
        self.residual = r.residual
        self.iterations = r.iterations
        self.method = _METHODS[r.method]
        self.advice = r.advice.decode("utf-8", "replace")
        found = [r.columns[j] for j in range(r.rhs)]
        self.history = [_call.copy_of(c.history, c.history_count, "f8") for c in found]
        self.columns = [
            {
                "stop": _STOPS[c.stop],
                "iterations": c.iterations,
                "residual": c.residual,
                "checks": c.checks,
                "refused": c.refused,
                "history_step": c.history_step,
                "seconds": c.seconds,
                "seconds_launch": c.seconds_launch,
            }
            for c in found
        ]
        self.report = {
            "precond": _PRECONDS[r.precond] if r.precond else None,
            "repeatable": bool(r.repeatable),
            "lambda_min": r.lambda_min,
            "lambda_max": r.lambda_max,
            "damping": r.damping,
            "blocks": r.blocks,
            "partition": r.partition.decode(),
            "overlap": r.overlap,
            "coarse": bool(r.coarse),
            "one_launch": bool(r.one_launch),
            "devices": r.devices,
            "devices_lost": r.devices_lost,
            "exchange": _EXCHANGES[r.exchange],
            "faults": _faults(r.faults),
            "seconds": {"setup": r.seconds_setup, "solve": r.seconds_solve},
            "setup_bytes": r.setup_bytes,
        }

    def __repr__(self) -> str:
        state = "solved" if self.converged else f"not converged ({self.stop})"
        return (
            f"<Solution: {state}, {self.method}, residual {self.residual:.3g} after "
            f"{self.iterations} iterations>"
        )


_SIGNAL_SECONDS = 0.05  # between two looks whether Ctrl-C was pressed


def _watch(
    opts: _abi_relax.RelaxOpts, callback: Callable[[int, float], Any] | None
) -> list[BaseException]:
    """Let Ctrl-C and `callback` stop the call; what was raised comes back in the list."""
    failure: list[BaseException] = []

    def progress(_: Any, rhs: int, iteration: int, residual: float) -> int:
        try:
            deliver()
            return int(bool(callback(iteration, residual))) if callback is not None else 0
        except BaseException as error:  # raised again where C returns
            failure.append(error)
            return 1

    if callback is not None or threading.current_thread() is threading.main_thread():
        opts.progress = _abi_relax.RelaxProgress(progress)
        opts.progress_seconds = 0.0 if callback is not None else _SIGNAL_SECONDS
    return failure


def _told(solution: Solution, warn: bool) -> Solution:
    """The same, after a warning where it did not converge."""
    if warn and not solution.converged and solution.stop != "cancelled":
        reason = lib.hf_relax_stop_text(_STOPS.index(solution.stop)).decode()
        advice = f" {solution.advice}" if solution.advice else ""
        warnings.warn(
            f"not converged: {reason}; the residual is {solution.residual:.3g} after "
            f"{solution.iterations} iterations.{advice}",
            errors.convergence_warning(),
            stacklevel=3,
        )
    return solution


def solve(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    callback: Callable[[int, float], Any] | None = None,
    device: str = "cpu",
    threads: int = 0,
    warn: bool = True,
    **options: Any,
) -> Solution:
    """Solve A x = b for a sparse square matrix.

    Parameters
    ----------
    A : sparse matrix or array of shape (n, n)
        Of SciPy, or anything with `indptr`, `indices` and `data`, or with `tocsr()`. CSR of float64
        or float32 with int32 indices is used where it lies, but for `indptr`.
    b : array-like of shape (n,) or (n, columns)
        One or more right-hand sides.
    x0 : array-like of the shape of b, default=None
        Where to start; None: zeros.
    callback : callable, default=None
        Called with iteration and estimated residual; what is true ends the solution. Exceptions
        pass through.
    device : str, default="cpu"
        "cpu", or "cuda" for an NVIDIA GPU.
    threads : int, default=0
        Threads; 0: one for each usable core. The bits of x do not depend on it.
    warn : bool, default=True
        Warn if the solution did not converge.
    method : {"auto", "jacobi", "gauss-seidel", "async", "schwarz", "cg", "chebyshev"}
        How x is improved.
    precond : {"auto", "jacobi", "blocks"}
        Of "cg" and "chebyshev".
    tol : float, default=1e-10
        \\|b - A x\\| <= tol \\|b\\|; 0: `maxiter` iterations without a test.
    maxiter : int, default=100000
        Iterations at most.
    max_seconds : float, default=None
        Time at most.
    block, sweeps, overlap, damping : numbers, default=None
        Rows of a block, sweeps inside a block for each iteration of "async", layers of overlap of
        "schwarz", factor of each correction; None: the method's own.
    partition : {"auto", "strips", "graph"}
        How rows are put into blocks.
    coarse : bool, default=None
        A coarse unknown per block of "schwarz"; None: the library decides.
    timing : {"tagged", "free"}
        Blocks of "async" see values of the iteration before, which is repeatable, or whatever is
        there.
    inside : dtype, default=float64
        Type of the matrix inside sweeps: float32 takes half the bytes; x and residuals stay as they
        are.
    memory_bytes : int, default=None
        That factors of blocks may take; None: 1 GiB.
    one_launch : bool, default=None
        On a GPU: make all iterations in one launch; None: where the blocks fit.
    devices : str, default=None
        Share the rows among several, such as "cuda:0,cuda:1" or, groups of threads, "cpu,cpu": for
        "jacobi" and "async". The others adopt the rows of one that is lost.
    exchange : {"push", "amc", "dc", "dk"}
        How these tell each other what they computed.
    spares : int, default=0
        Workers beyond the need, which take over the blocks of one that falls silent: on a GPU in
        one launch, on the CPU threads of free timing.
        ``report["faults"]["taken"]`` says of which block, when and who.

    Returns
    -------
    Solution
        x, whether it converged, and how it went.

    Examples
    --------
    >>> import numpy as np, holdfast
    >>> class Laplace:  # scipy.sparse.diags_array([-1, 2.5, -1], offsets=[-1, 0, 1], shape=(3, 3))
    ...     shape = (3, 3)
    ...     indptr = np.array([0, 2, 5, 7])
    ...     indices = np.array([0, 1, 0, 1, 2, 1, 2], np.int32)
    ...     data = np.array([2.5, -1, -1, 2.5, -1, -1, 2.5])
    >>> holdfast.solve(Laplace, [1.0, 0.5, 1.0]).x.round(6)
    array([0.705882, 0.764706, 0.705882])
    """
    matrix = _Matrix(A)
    rhs, x = _vectors(b, x0, matrix.shape[0])
    opts = _options(**options)
    failure = _watch(opts, callback)
    result = _Result()
    views = (_view(rhs), _view(x))
    with _library.Lease(device.encode(), 0, 0, threads) as context:
        with Interrupts(True) as interrupts:
            status = lib.hf_relax_solve(
                context,
                _addressof(matrix.struct),
                _addressof(views[0]),
                _addressof(views[1]),
                _addressof(opts),
                _addressof(result),
            )
        if failure:
            raise failure[0]
        if status:
            raise _library.fail(status, context)
    interrupts.deliver()
    solution = _told(Solution(x, result), warn)
    _log.line(f"solve: {matrix.shape[0]} unknowns, {solution!r}")
    return solution


def solve_batch(
    A: Sequence[Any],
    b: Sequence[Any],
    x0: Sequence[Any] | None = None,
    *,
    device: str = "cpu",
    threads: int = 0,
    warn: bool = True,
    **options: Any,
) -> list[Solution]:
    """Solve many independent systems A[i] x[i] = b[i], small ones side by side.

    Each has the bits that :func:`solve` gives; all are solved, or none.

    Parameters
    ----------
    A, b : sequences of the same length
        A matrix and a right-hand side for each system.
    x0 : sequence, default=None
        Where to start; None: zeros.
    device, threads, warn, **options
        As for :func:`solve`, without `max_seconds`.

    Returns
    -------
    list of Solution

    Examples
    --------
    >>> import numpy as np, holdfast
    >>> class Diagonal:
    ...     shape = (2, 2)
    ...     indptr, indices, data = np.array([0, 1, 2]), np.array([0, 1]), np.array([2.0, 4.0])
    >>> [s.x for s in holdfast.solve_batch([Diagonal, Diagonal], [[2.0, 2.0], [4.0, 4.0]])]
    [array([1. , 0.5]), array([2., 1.])]
    """
    matrices = [_Matrix(a) for a in A]
    count, starts = len(matrices), [None] * len(matrices) if x0 is None else x0
    if count == 0 or len(b) != count or len(starts) != count:
        raise errors.InvalidArgumentError(
            f"{count} matrices, {len(b)} right-hand sides and {len(starts)} starts: there must be "
            "as many of each, and at least one"
        )
    pairs = [_vectors(b[i], starts[i], m.shape[0]) for i, m in enumerate(matrices)]
    opts = _options(**options)
    parts = (
        (_abi_relax.Csr * count)(*(m.struct for m in matrices)),
        (_abi.Array * count)(*(_view(rhs) for rhs, _ in pairs)),
        (_abi.Array * count)(*(_view(x) for _, x in pairs)),
    )
    results = (_Result * count)()
    with _library.Lease(device.encode(), 0, 0, threads) as context:
        status = lib.hf_relax_solve_batch(
            context, *map(_addressof, parts), count, _addressof(opts), _addressof(results)
        )
        if status:
            raise _library.fail(status, context)
    solutions = [Solution(x, r) for (_, x), r in zip(pairs, results, strict=True)]
    for solution in solutions:
        _told(solution, warn)
    return solutions

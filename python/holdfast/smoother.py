# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices set up once, for many sweeps or solutions."""

from __future__ import annotations

import ctypes as C
import os
from typing import Any

import numpy as np

from . import _devices, _library, errors
from ._library import lib
from .relaxation import (
    _F64,
    Solution,
    _addressof,
    _dense,
    _Matrix,
    _options,
    _Result,
    _told,
    _vectors,
    _view,
)

__all__ = ["Smoother"]


class Smoother:
    """A matrix set up once, for many sweeps or solutions.

    It is a linear operator on vectors, x = (some sweeps on A x = b from zero), so it can be the `M`
    of SciPy's Krylov methods (``Smoother(A).operator()``), and a smoother of pyamg's levels (it is
    called as ``smoother(A, x, b)``).

    Parameters
    ----------
    A : sparse matrix or array of shape (n, n)
        As for :func:`solve`. Its arrays are borrowed as long as the smoother lives.
    method : str, default="async"
        As for :func:`solve`; "cg" is no linear operator and can only solve.
    iterations : int, default=1
        Iterations of the method that an application makes.
    device, threads
        As for :func:`solve`.
    stream : int, default=None
        On a GPU: number of the CUDA stream to work on, as ``torch.cuda.Stream.cuda_stream`` and
        ``cupy.cuda.Stream.ptr`` give it; None: the default stream.
    **options
        Other options of :func:`solve`; `symmetric=True` makes a symmetric operator, which SciPy's
        cg needs, and keeps the rows in their order on a GPU, where smoothing is faster then.

    Examples
    --------
    >>> import numpy as np, holdfast
    >>> class Diagonal:
    ...     shape = (2, 2)
    ...     indptr, indices, data = np.array([0, 1, 2]), np.array([0, 1]), np.array([2.0, 4.0])
    >>> smoother = holdfast.Smoother(Diagonal, method="jacobi", damping=1.0)
    >>> smoother.apply(np.array([2.0, 2.0]))
    array([1. , 0.5])
    """

    def __init__(
        self,
        A: Any,
        method: str = "async",
        *,
        iterations: int = 1,
        device: str = "cpu",
        threads: int = 0,
        stream: int | None = None,
        **options: Any,
    ) -> None:
        self.device = device
        self._stream = (stream or _devices.LEGACY) if device.startswith("cuda") else 0
        self._context = self._relax = 0
        self._process = os.getpid()
        self.matrix = _Matrix(A)
        self._borrowed: Any = None
        self.shape = self.matrix.shape
        self.dtype = _F64
        self.iterations = iterations
        opts = _options(method=method, **options)
        self._context = _library.context_create(device.encode(), 0, self._stream, threads)
        handle = C.c_void_p()
        status = lib.hf_relax_setup(
            self._context, _addressof(self.matrix.struct), _addressof(opts), _addressof(handle)
        )
        if status:
            raise _library.fail(status, self._context)
        self._relax = handle.value or 0

    def close(self) -> None:
        """Free what the library holds."""
        if self._process == os.getpid():  # a context does not pass a fork
            lib.hf_relax_destroy(self._relax)
            lib.hf_context_destroy(self._context)
        self._relax = self._context = 0

    def __del__(self) -> None:
        if getattr(self, "_context", 0):
            self.close()

    def _open(self) -> int:
        if not self._relax:
            raise errors.InvalidArgumentError("the smoother was closed")
        if self._process != os.getpid():
            raise errors.UnsupportedError("a smoother does not pass a fork: make one in the child")
        return self._relax

    def apply(self, b: Any, x: Any = None, iterations: int | None = None) -> Any:
        """Improve x by some iterations on A x = b.

        Parameters
        ----------
        b : array-like of shape (n,) or (n, columns)
            Right-hand sides; torch tensors and CuPy arrays on the smoother's GPU are used where
            they lie, and nothing waits for the GPU.
        x : array of that shape and kind, float64 and C-contiguous, default=None
            Changed in place; None: zeros, in an array of its own.
        iterations : int, default=None
            None: those of the smoother.

        Returns
        -------
        array
            x.
        """
        relax = self._open()
        if _devices.lies_on_gpu(b):
            return self._apply_there(relax, b, x, iterations)
        b = _dense("b", b, self.shape[0])
        fresh = x is None
        if fresh:
            x = np.empty(b.shape)
        elif (
            type(x) is not np.ndarray
            or x.dtype != _F64
            or x.shape != b.shape
            or not x.flags.c_contiguous
            or not x.flags.writeable
        ):
            raise errors.InvalidArgumentError(
                f"x must be a contiguous float64 array of shape {b.shape} that can be written to"
            )
        self._improve(relax, (_view(b), _view(x)), iterations, fresh)
        return x

    def _apply_there(self, relax: int, b: Any, x: Any, iterations: int | None) -> Any:
        """apply() of arrays on the GPU."""
        fresh = x is None
        if fresh:
            x = _devices.empty_like(b)
        views = [
            _devices.vectors(a, name, self.shape[0], self._stream)
            for a, name in ((b, "b"), (x, "x"))
        ]
        if x.shape != b.shape:
            raise errors.InvalidArgumentError(
                f"x has shape {tuple(x.shape)}, but b has {tuple(b.shape)}"
            )
        self._improve(relax, views, iterations, fresh)
        return x

    def _improve(self, relax: int, views: Any, iterations: int | None, fresh: bool) -> None:
        """One call of the library; views: of b and x."""
        steps = self.iterations if iterations is None else iterations
        status = lib.hf_relax_apply(
            relax, _addressof(views[0]), _addressof(views[1]), steps, int(fresh)
        )
        if status:
            raise _library.fail(status, self._context)

    def solve(self, b: Any, x0: Any = None, *, warn: bool = True) -> Solution:
        """Solve with what is set up; otherwise as :func:`solve`."""
        relax = self._open()
        rhs, x = _vectors(b, x0, self.shape[0])
        result = _Result()
        views = (_view(rhs), _view(x))
        status = lib.hf_relax_solve_with(
            relax, _addressof(views[0]), _addressof(views[1]), _addressof(result)
        )
        if status:
            raise _library.fail(status, self._context)
        return _told(Solution(x, result), warn)

    def update(self, A: Any) -> Smoother:
        """Take the values of a matrix of the same pattern; blocks and method stay."""
        relax = self._open()
        matrix = _Matrix(A)
        same = (
            matrix.shape == self.shape
            and np.array_equal(matrix.starts, self.matrix.starts)
            and np.array_equal(matrix.columns, self.matrix.columns)
        )
        if not same:
            raise errors.InvalidArgumentError(
                "A has another pattern than the matrix before: make a new smoother"
            )
        self._borrowed = (self._borrowed, matrix)  # which of them it reads after a failure is open
        status = lib.hf_relax_update_values(relax, _addressof(matrix.struct))
        if status:
            raise _library.fail(status, self._context)
        self.matrix, self._borrowed = matrix, None
        return self

    def matvec(self, b: Any) -> Any:
        """The operator: iterations from zero."""
        if not _devices.lies_on_gpu(b):
            b = np.asarray(b)
        return self.apply(b.reshape(-1)).reshape(b.shape)

    def operator(self) -> Any:
        """The operator as a `LinearOperator` of SciPy, on a GPU of CuPy, for `M` of methods."""
        if self.device.startswith("cuda"):
            from cupyx.scipy.sparse.linalg import LinearOperator
        else:
            from scipy.sparse.linalg import LinearOperator

        return LinearOperator(self.shape, matvec=self.matvec, matmat=self.apply, dtype=self.dtype)

    def __call__(self, A: Any, x: Any, b: Any) -> None:
        """Improve x in place, as pyamg's levels call a smoother; A is the one that was set up."""
        self.apply(b, x)

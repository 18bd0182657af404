# SPDX-License-Identifier: Apache-2.0
"""solve() and Smoother: right answers, no copies, and what is refused."""

import os
import signal
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import holdfast
from holdfast import _library, errors

sp = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")


def grid(size, diagonal=3.5):
    """Nine points of a grid."""
    line = sp.diags([np.ones(size - 1), np.ones(size), np.ones(size - 1)], [-1, 0, 1])
    sides = sp.kron(sp.eye(size), line) + sp.kron(line, sp.eye(size)) - 2 * sp.eye(size * size)
    corners = sp.kron(line, line) - sides - sp.eye(size * size)
    return (diagonal * sp.eye(size * size) - 0.5 * sides - 0.25 * corners).tocsr()


A = grid(25)
N = A.shape[0]
RNG = np.random.default_rng(5)


def residual(A, x, b):
    return np.linalg.norm(b - A @ x, axis=0) / np.linalg.norm(b, axis=0)


@pytest.mark.parametrize(
    "method", ["auto", "jacobi", "gauss-seidel", "async", "schwarz", "cg", "chebyshev"]
)
def test_solves(method):
    b = RNG.normal(size=N)
    before = b.copy()
    s = holdfast.solve(A, b, method=method)
    assert s.converged
    assert s.stop == "tol"
    assert s.x.shape == b.shape
    assert residual(A, s.x, b) <= 1.001e-10
    assert s.residual == pytest.approx(residual(A, s.x, b), rel=1e-3)
    assert s.history[0][0] == pytest.approx(1)
    assert len(s.history[0]) == s.iterations // s.columns[0]["history_step"] + 1
    assert np.array_equal(b, before)
    assert "solved" in repr(s)


@pytest.mark.parametrize(
    "make",
    [sp.csr_array, sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.bsr_matrix, sp.lil_matrix],
)
def test_layouts_give_the_same(make):
    b = np.ones(N)
    x = holdfast.solve(make(A), b, method="async").x
    assert np.array_equal(x, holdfast.solve(A, b, method="async").x)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8, bool])
def test_types_of_values(dtype):
    B = (sp.eye(30) * 4 + sp.eye(30, k=1) + sp.eye(30, k=-1)).tocsr().astype(dtype)
    if dtype is bool:
        B = sp.eye(30, format="csr", dtype=bool)
    b = np.arange(30.0)
    assert residual(B.astype(float), holdfast.solve(B, b).x, b) <= 1e-10


def test_64_bit_indices():
    B = A.copy()
    B.indices, B.indptr = B.indices.astype(np.int64), B.indptr.astype(np.int64)
    assert holdfast.solve(B, np.ones(N)).converged


def test_columns_start_and_callback():
    b = RNG.normal(size=(N, 3))
    seen = []
    s = holdfast.solve(A, b, method="jacobi", callback=lambda i, r: seen.append((i, r)))
    assert (residual(A, s.x, b) <= 1.001e-10).all()
    assert len(s.columns) == len(s.history) == 3
    assert len(seen) >= s.iterations
    again = holdfast.solve(A, b, s.x, method="jacobi")
    assert again.iterations <= 1
    stopped = holdfast.solve(A, b[:, 0], method="jacobi", callback=lambda i, r: i >= 4)
    assert stopped.stop == "cancelled"
    assert stopped.iterations <= 6

    def fails(i, r):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        holdfast.solve(A, b, callback=fails, method="jacobi")


def test_batch():
    """Each system has the bits of a call of its own, and a bad one stops all."""
    several = [grid(5), grid(25), grid(12, 3.2), grid(25)]
    rhs = [RNG.normal(size=m.shape[0]) for m in several[:3]] + [RNG.normal(size=(N, 2))]
    starts = [None, np.ones(N), None, None]
    for options in ({}, {"method": "async", "threads": 1}):
        found = holdfast.solve_batch(several, rhs, starts, **options)
        for m, b, start, s in zip(several, rhs, starts, found, strict=True):
            alone = holdfast.solve(m, b, start, **options)
            assert s.converged and np.array_equal(s.x, alone.x)
            assert s.iterations == alone.iterations
            assert np.array_equal(s.history[0], alone.history[0])
    with pytest.warns(UserWarning, match="not converged"):
        holdfast.solve_batch([A, grid(40, 3.0)], [rhs[1], np.ones(1600)], maxiter=20)
    with pytest.raises(errors.InvalidArgumentError, match="as many of each"):
        holdfast.solve_batch([A], [])
    with pytest.raises(errors.InvalidArgumentError, match="at least one"):
        holdfast.solve_batch([], [])
    bad = A.copy()
    bad.data[7] = np.nan
    with pytest.raises(errors.DataError, match="system 1"):
        holdfast.solve_batch([A, bad], [rhs[1], rhs[1]])


def test_not_converged_warns():
    hard = grid(40, 3.0)
    with pytest.warns(UserWarning, match="not converged"):
        s = holdfast.solve(hard, np.ones(1600), method="jacobi", maxiter=10)
    assert not s.converged
    assert s.stop == "max_iter"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        holdfast.solve(hard, np.ones(1600), method="jacobi", maxiter=10, warn=False)


@pytest.mark.parametrize("options", [{"inside": np.float32}, {"symmetric": True}])
def test_gauss_seidel_does_not_stall_above_the_tolerance(options):
    line = sp.diags([-1, 2.05, -1], [-1, 0, 1], shape=(120, 120))
    draw = np.random.default_rng(6)
    R = sp.random(100, 100, 0.06, random_state=draw, data_rvs=draw.standard_normal).tocsr()
    for A in (sp.csr_matrix(sp.kronsum(line, line)), sp.csr_matrix(R @ R.T + 0.3 * sp.eye(100))):
        b = np.ones(A.shape[0])
        s = holdfast.solve(A, b, method="gauss-seidel", **options)
        assert s.converged and residual(A, s.x, b) <= 1.001e-10


def test_idle_contexts_of_other_threads_end(monkeypatch):
    """A context that waits has threads; it ends with the next call, whatever that is for."""
    with _library.Lease(b"cpu", 0, 0, 7):
        pass
    assert any(key[3] == 7 and idle for key, idle in _library._idle.items())
    monkeypatch.setattr(_library, "_IDLE_SECONDS", 0.0)
    holdfast.solve(A, np.ones(N), threads=2)
    assert not any(key[3] == 7 and idle for key, idle in _library._idle.items())


def test_no_context_is_idle_on_a_stream_that_may_end(monkeypatch):
    closed = []
    monkeypatch.setattr(_library, "context_create", lambda *key: 77)
    made = lambda handle: SimpleNamespace(handle=handle, device="")  # noqa: E731
    monkeypatch.setattr(_library, "Context", made)
    monkeypatch.setattr(_library.lib, "hf_context_destroy", closed.append)
    monkeypatch.setattr(_library, "_idle", {})
    for stream, ended in ((0, []), (1, []), (4096, [77])):
        with _library.Lease(b"cuda", 0, stream):
            pass
        assert closed == ended


def test_numbers_are_not_cut():
    b = np.ones(N)
    for options in ({"tol": np.nan}, {"spares": 2**40}, {"sweeps": 2**32 + 3}):
        with pytest.raises(errors.InvalidArgumentError):
            holdfast.solve(A, b, **options)
    wide = A.copy()
    wide.indices = wide.indices.astype(np.int64)
    wide.indices[0] += 2**32
    with pytest.raises(errors.DataError, match="column"):
        holdfast.solve(wide, b)


@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_values_beyond_float32_are_refused(scale):
    with pytest.raises(errors.DataError, match="float32"):
        holdfast.Smoother(scale * A, "gauss-seidel", inside=np.float32)
    assert holdfast.solve(scale * A, scale * np.ones(N), method="gauss-seidel").converged


def test_spares():
    b = np.ones(N)
    for spares in (0, 1):
        s = holdfast.solve(A, b, method="async", timing="free", block=50, threads=2, spares=spares)
        assert s.converged
        taken = s.report["faults"]["taken"]
        assert all(set(t) == {"block", "iteration", "worker", "seconds"} for t in taken)
        assert len(taken) <= s.report["faults"]["takeovers"]
    with pytest.raises(errors.InvalidArgumentError, match="spares is 65"):
        holdfast.solve(A, b, spares=65)


def test_smoother():
    smoother = holdfast.Smoother(A, "jacobi", damping=0.8)
    b, x = RNG.normal(size=(2, N))
    D = A.diagonal()
    expected = x.copy()
    for _ in range(3):
        expected += 0.8 * (b - A @ expected) / D
    out = smoother.apply(b, x, iterations=3)
    assert out is x
    assert np.allclose(x, expected, rtol=1e-12, atol=1e-14)
    assert np.allclose(smoother.apply(b), 0.8 * b / D, rtol=1e-14)
    assert np.array_equal(smoother.matvec(b.reshape(-1, 1)), smoother.apply(b).reshape(-1, 1))
    assert smoother.solve(b).converged


def test_smoother_borrows():
    for dtype in (np.float64, np.float32):
        B = A.astype(dtype)
        smoother = holdfast.Smoother(B)
        assert smoother.matrix.values.ctypes.data == B.data.ctypes.data
        assert smoother.matrix.columns.ctypes.data == B.indices.ctypes.data
    del B
    assert np.isfinite(smoother.apply(np.ones(N))).all(), "the arrays live as long as it does"


def test_update():
    smoother = holdfast.Smoother(A, "async")
    b = np.ones(N)
    first = smoother.apply(b)
    assert np.allclose(smoother.update(2 * A).apply(b), first / 2, rtol=1e-13)
    with pytest.raises(errors.InvalidArgumentError, match="pattern"):
        smoother.update(sp.eye(N, format="csr"))
    smoother.close()
    with pytest.raises(errors.InvalidArgumentError, match="closed"):
        smoother.apply(b)
    smoother.close()


def test_refused():
    b = np.ones(N)
    bad = [
        (lambda: holdfast.solve(np.eye(3), np.ones(3)), "sparse matrix is needed"),
        (lambda: holdfast.solve(A[:5], b), "square"),
        (lambda: holdfast.solve(A.astype(complex), b), "real"),
        (lambda: holdfast.solve(A, b[:-1]), "shape"),
        (lambda: holdfast.solve(A, b, b[:-1]), "shape"),
        (lambda: holdfast.solve(A, b, np.ones((N, 2))), "x0 has shape"),
        (lambda: holdfast.solve(A, b, method="sor"), "method"),
        (lambda: holdfast.solve(A, b, damping=3.0), "damping"),
        (lambda: holdfast.solve(A, b, inside=np.int32), "inside"),
        (lambda: holdfast.solve(A, np.full(N, np.nan)), "NaN|finite"),
        (lambda: holdfast.Smoother(A, "cg").apply(b), "linear"),
        (lambda: holdfast.Smoother(A).apply(b, b.astype(np.float32)), "float64"),
        (lambda: holdfast.Smoother(A).apply(b, np.ones(2 * N)[::2]), "contiguous"),
    ]
    for call, words in bad:
        with pytest.raises(errors.HoldfastError, match=words):
            call()
    with pytest.raises(TypeError):
        holdfast.solve(A, b, metod="cg")
    zero = A.copy()
    zero[7, 7] = 0
    with pytest.raises(errors.DataError, match="7"):
        holdfast.solve(zero, b, method="jacobi")


def test_interrupt():
    hard = grid(60, 3.0)

    def later():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=later)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        holdfast.solve(hard, np.ones(3600), method="jacobi", damping=0.05, tol=1e-15, maxiter=10**9)
    thread.join()


def test_fork():
    smoother = holdfast.Smoother(A)
    child = os.fork()
    if child == 0:
        try:
            smoother.apply(np.ones(N))
        except errors.UnsupportedError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

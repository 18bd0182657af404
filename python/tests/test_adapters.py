# SPDX-License-Identifier: Apache-2.0
"""The adapters of the folder adapters, against SciPy and pyamg themselves."""

import pathlib
import sys

import numpy as np
import pytest

ADAPTERS = pathlib.Path(__file__).resolve().parents[2] / "adapters"
if not ADAPTERS.is_dir():
    pytest.skip("the adapters are not here: tests of an installed package", allow_module_level=True)
sp = pytest.importorskip("scipy.sparse", reason="SciPy is not installed")
from scipy.sparse import linalg  # noqa: E402

sys.path.insert(0, str(ADAPTERS))


def poisson(size, weak=0.1):
    """Five points of a grid, weakly coupled in one direction."""
    e = np.ones(size)
    line = sp.diags([-e[1:], 2 * e, -e[1:]], [-1, 0, 1])
    eye = sp.eye(size)
    return (sp.kron(eye, line) + weak * sp.kron(line, eye)).tocsr()


def iterations(A, b, M):
    """Of SciPy's cg to 1e-8, checked."""
    count = [0]

    def step(_):
        count[0] += 1

    x, info = linalg.cg(A, b, rtol=1e-8, M=M, callback=step, maxiter=5000)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1.01e-8 * np.linalg.norm(b)
    return count[0]


@pytest.mark.parametrize("method", ["jacobi", "async", "schwarz", "gauss-seidel", "chebyshev"])
def test_scipy_cg(method):
    from scipy_preconditioner import preconditioner

    A = poisson(40)
    b = np.random.default_rng(1).normal(size=A.shape[0])
    plain = iterations(A, b, None)
    ours = iterations(A, b, preconditioner(A, method, iterations=3))
    assert ours < plain


def test_scipy_operator_is_linear_and_symmetric():
    from scipy_preconditioner import preconditioner

    M = preconditioner(poisson(20), "gauss-seidel")
    u, v = np.random.default_rng(2).normal(size=(2, 400))
    assert np.dot(u, M @ v) == pytest.approx(np.dot(v, M @ u), rel=1e-12)
    assert np.allclose(M @ (2 * u - v), 2 * (M @ u) - M @ v, rtol=1e-12, atol=1e-13)
    both = M @ np.column_stack([u, v])
    assert np.array_equal(both[:, 0], M @ u)


def test_scipy_gmres():
    from scipy_preconditioner import preconditioner

    A = (poisson(30) + sp.diags([np.full(899, 0.3)], [1])).tocsr()
    b = np.ones(900)
    M = preconditioner(A, "gauss-seidel", symmetric=False)
    x, info = linalg.gmres(A, b, M=M, rtol=1e-9)
    assert info == 0
    assert np.linalg.norm(b - A @ x) <= 1e-8 * np.linalg.norm(b)


@pytest.mark.parametrize("method", ["jacobi", "async", "gauss-seidel"])
def test_pyamg(method):
    pyamg = pytest.importorskip("pyamg", reason="pyamg is not installed")
    from pyamg_smoother import use_holdfast

    A = poisson(80, 1.0)
    b = np.random.default_rng(3).normal(size=A.shape[0])
    ml = pyamg.smoothed_aggregation_solver(A)
    residuals = []
    ml.solve(b, tol=1e-8, accel="cg", residuals=residuals)
    own = len(residuals)
    # Jacobi is damped for all errors alike; a smoother looks after the rough ones.
    use_holdfast(ml, method, **({"damping": 2 / 3} if method == "jacobi" else {}))
    residuals.clear()
    x = ml.solve(b, tol=1e-8, accel="cg", maxiter=100, residuals=residuals)
    assert np.linalg.norm(b - A @ x) <= 1e-7 * np.linalg.norm(b)
    assert len(residuals) <= 2 * own
    smoother = ml.levels[0].presmoother
    assert smoother.matrix.values.ctypes.data == ml.levels[0].A.data.ctypes.data, "no copy"

# SPDX-License-Identifier: Apache-2.0
"""The problems of relax_smoother.py on a GPU: conjugate gradients preconditioned by a V-cycle on a hierarchy of pyamg,
to 1e-8. Products are cuSPARSE's, a cycle is one CUDA graph with every smoother, so that no host takes part."""
import time

import numpy as np
import scipy.sparse as sp
from scipy.sparse import linalg

TOL = 1e-8

KERNELS = r"""
extern "C" {
__global__ void correct(int n, const double *b, const double *ax, const double *d, double *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += d[i] * (b[i] - ax[i]); }
__global__ void start(int n, const double *b, const double *d, double *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = d[i] * b[i]; }
__global__ void rest(int n, const double *b, const double *ax, double *r) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) r[i] = b[i] - ax[i]; }
__global__ void add(int n, const double *y, double *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += y[i]; }
__global__ void cheb(int n, double alpha, double beta, const double *b, const double *ax, const double *d, double *p,
                     double *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { p[i] = beta * p[i] + alpha * d[i] * (b[i] - ax[i]); x[i] += p[i]; } }
}
"""


class Tools:
    def __init__(self):
        import cupy
        self.cp = cupy
        self.module = cupy.RawModule(code=KERNELS)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def launch(self, name, n, *args):
        self.module.get_function(name)(((n + 255) // 256,), (256,), (np.int32(n), *args))

    def matrix(self, A):
        """A function y = A x on the tools' stream, for vectors of its own."""
        from cupyx.scipy.sparse import csr_matrix
        from relax_cuda import Product
        there = csr_matrix(sp.csr_matrix(A))
        products = {}

        def multiply(x, y):
            key = x.data.ptr, y.data.ptr
            if key not in products:
                products[key] = Product(there)
            products[key].multiply(x, y, self.stream.ptr)
        return multiply


class Diagonal:
    """Jacobi with some diagonal, or Chebyshev's polynomial in D^-1 A for the upper part of the spectrum."""

    def __init__(self, tools, A, multiply, steps, kind):
        cp = tools.cp
        self.tools, self.multiply, self.steps, self.n = tools, multiply, steps, A.shape[0]
        if kind == "l1":
            inverse = 1 / np.asarray(abs(A).sum(axis=1)).ravel()
        else:
            inverse = 1 / A.diagonal()
        self.factors = None
        if kind == "chebyshev":
            root = sp.diags(np.sqrt(inverse))
            start = np.random.default_rng(1).standard_normal(self.n)
            high = 1.1 * linalg.eigsh(root @ A @ root, k=1, tol=1e-2, v0=start, return_eigenvectors=False)[0]
            middle, half = high * (1 + 1 / 10) / 2, high * (1 - 1 / 10) / 2
            now, self.factors = half / middle, [(1 / middle, 0.0)]
            for _ in range(steps - 1):
                before, now = now, 1 / (2 * middle / half - now)
                self.factors.append((2 * now / half, now * before))
        self.d = cp.asarray(inverse)
        self.ax, self.p = cp.zeros(self.n), cp.zeros(self.n)

    def apply(self, b, x, zero):
        if zero:
            x.fill(0)
        for step in range(self.steps):
            if zero and step == 0 and self.factors is None:
                self.tools.launch("start", self.n, b, self.d, x)
                continue
            self.multiply(x, self.ax)
            if self.factors is None:
                self.tools.launch("correct", self.n, b, self.ax, self.d, x)
            else:
                self.tools.launch("cheb", self.n, np.float64(self.factors[step][0]), np.float64(self.factors[step][1]),
                                  b, self.ax, self.d, self.p, x)


class Ours:
    def __init__(self, bench, tools, A, method, iterations, options):
        self.smoother = bench.holdfast.Smoother(A, method, device="cuda", stream=tools.stream.ptr, symmetric=True,
                                                iterations=iterations, **options)

    def apply(self, b, x, zero):
        from holdfast import _devices
        s = self.smoother
        views = [_devices.vectors(a, name, len(b), s._stream) for a, name in ((b, "b"), (x, "x"))]
        s._improve(s._open(), views, s.iterations, zero)


class Cycle:
    """z = V-cycle(r), as a graph."""

    def __init__(self, tools, ml, make):
        cp = tools.cp
        self.tools, self.levels = tools, []
        with tools.stream:
            for level in ml.levels[:-1]:
                A = sp.csr_matrix(level.A)
                n, m = level.P.shape
                multiply = tools.matrix(A)
                self.levels.append({"n": n, "m": m, "A": multiply, "P": tools.matrix(level.P),
                                    "R": tools.matrix(level.P.T), "smooth": make(tools, A, multiply),
                                    "ax": cp.zeros(n), "rest": cp.zeros(n), "up": cp.zeros(n)})
            self.b = [cp.zeros(level.A.shape[0]) for level in ml.levels]
            self.x = [cp.zeros(level.A.shape[0]) for level in ml.levels]
            coarse = ml.levels[-1].A.toarray()
            self.coarse = tools.matrix(sp.csr_matrix(np.linalg.pinv(coarse)))
            self.run()  # everything is allocated now
            self.run()
            tools.stream.synchronize()
            tools.stream.begin_capture()
            self.run()
            self.graph = tools.stream.end_capture()

    def run(self, at=0):
        tools = self.tools
        if at == len(self.levels):
            self.coarse(self.b[at], self.x[at])
            return
        level, b, x = self.levels[at], self.b[at], self.x[at]
        level["smooth"].apply(b, x, True)
        level["A"](x, level["ax"])
        tools.launch("rest", level["n"], b, level["ax"], level["rest"])
        level["R"](level["rest"], self.b[at + 1])
        self.run(at + 1)
        level["P"](self.x[at + 1], level["up"])
        tools.launch("add", level["n"], level["up"], x)
        level["smooth"].apply(b, x, False)


def solve(tools, A, cycle, b):
    """Conjugate gradients: seconds, iterations, |b - A x| / |b|."""
    cp = tools.cp
    with tools.stream:
        x, r, q = cp.zeros(len(b)), b.copy(), cp.zeros(len(b))
        p = cp.zeros(len(b))
        norm = float(cp.linalg.norm(b))
        A(p, q)
        tools.stream.synchronize()
        begin = time.perf_counter()
        before, count = 0.0, 0
        while count < 200:
            cycle.b[0][...] = r
            cycle.graph.launch(tools.stream)
            z = cycle.x[0]
            now = float(r @ z)
            p *= now / before if before else 0.0
            p += z
            A(p, q)
            alpha = now / float(p @ q)
            x += alpha * p
            r -= alpha * q
            before, count = now, count + 1
            if float(cp.linalg.norm(r)) <= TOL * norm:
                break
        tools.stream.synchronize()
        seconds = time.perf_counter() - begin
        A(x, q)
        return seconds, count, float(cp.linalg.norm(b - q)) / norm


def smoothers(bench):
    """name: maker."""
    def diagonal(kind, steps):
        return lambda tools, A, multiply: Diagonal(tools, A, multiply, steps, kind)

    def ours(method, iterations=1, **options):
        return lambda tools, A, multiply: Ours(bench, tools, A, method, iterations, options)
    found = {}
    for steps in (1, 2, 3, 4):
        found[f"l1-Jacobi x{steps}"] = diagonal("l1", steps)
    for steps in (2, 3, 4):
        found[f"Chebyshev {steps}"] = diagonal("chebyshev", steps)
    found["holdfast jacobi x1"] = ours("jacobi", 1, damping=2 / 3)
    found["holdfast chebyshev x1"] = ours("chebyshev", 1)
    found["holdfast jacobi x2"] = ours("jacobi", 2, damping=2 / 3)
    found["holdfast async-(2)"] = ours("async", sweeps=2)
    found["holdfast async-(3)"] = ours("async", sweeps=3)
    found["holdfast async-(5)"] = ours("async", sweeps=5)
    found["holdfast async-(3), damping .8"] = ours("async", sweeps=3, damping=0.8)
    found["holdfast chebyshev x2"] = ours("chebyshev", 2)
    found["holdfast chebyshev x3"] = ours("chebyshev", 3)
    for steps in (1, 2, 3):
        found[f"holdfast chebyshev x{steps}, float32"] = ours("chebyshev", steps, inside=np.float32)
    found["holdfast gauss-seidel"] = ours("gauss-seidel")
    return found


def passes(name):
    """How often a smoothing reads the matrix; None where blocks read parts of it again."""
    return None if "async" in name or "seidel" in name else int(name.split(",")[0][-1])


def compare(bench):
    from relax_smoother import problems
    try:
        tools, found = Tools(), list(problems(bench.args.size))
    except ImportError as error:
        print(f"no smoothers on the GPU: {error}")
        return
    for title, A, make in found:
        begin = time.perf_counter()
        ml = make()
        print(f"({title}: hierarchy of {len(ml.levels)} levels in {time.perf_counter() - begin:.1f} s)", flush=True)
        with tools.stream:
            multiply = tools.matrix(A)
            b = tools.cp.asarray(np.random.default_rng(1).standard_normal(A.shape[0]))
        best = {}
        for name, maker in smoothers(bench).items():
            try:
                begin = time.perf_counter()
                cycle = Cycle(tools, ml, maker)
                setup = time.perf_counter() - begin
                runs = sorted(solve(tools, multiply, cycle, b) for _ in range(bench.args.rounds))
            except Exception as error:  # whatever CuPy raises: the others go on
                print(f"{title}, {name}: {type(error).__name__}: {error}", flush=True)
                continue
            seconds, count, residual = runs[len(runs) // 2]
            bench.row(f"Smoothers on a GPU: {title}, cg to 1e-8", smoother=name, ms=1e3 * seconds,
                      least=1e3 * runs[0][0], iterations=count, cycle_ms=1e3 * seconds / count, residual=residual,
                      setup_s=setup)
            side = name.startswith("holdfast")
            for cost in {passes(name), "any"} - {None}:
                if residual <= 10 * TOL and seconds < best.get((cost, side), (np.inf,))[0]:
                    best[cost, side] = seconds, name
            del cycle
        for cost in (1, 2, 3, 4, "any"):
            if (cost, True) in best and (cost, False) in best:
                ours, other = best[cost, True], best[cost, False]
                bench.row("Smoothers on a GPU: times as fast as the best of the others", problem=title, passes=cost,
                          ours=ours[1], other=other[1], ratio=other[0] / ours[0])

# SPDX-License-Identifier: Apache-2.0
"""Relaxation on a GPU: all iterations in one launch, against cuSPARSE and CUDA graphs in the same run, the spread over
many runs, and large matrices against the bytes that a sweep must move. Needs CuPy for the others."""
import time

import numpy as np
import scipy.sparse as sp

TOL = 1e-10
PEAK = 4.8e12  # bytes a second of an H200's memory

# What is solved how: (name, options).
WAYS = {
    "Chem97ZtZ (rebuilt)": [("schwarz", {"method": "schwarz", "overlap": 0}), ("chebyshev", {"method": "chebyshev"})],
    "fv1": [("schwarz, overlap 2", {"method": "schwarz", "overlap": 2}), ("chebyshev", {"method": "chebyshev"}),
            ("async-(5)", {"method": "async", "partition": "strips"}),
            ("async-(5), free", {"method": "async", "partition": "strips", "timing": "free"})],
    "Trefethen_2000": [("async-(5), damping 0.85", {"method": "async", "damping": 0.85}),
                       ("async-(3), damping 0.85, free", {"method": "async", "damping": 0.85, "sweeps": 3,
                                                          "timing": "free", "block": 32}),
                       ("async-(5), damping 0.85, blocks of 32", {"method": "async", "damping": 0.85, "block": 32})],
    "Trefethen_20000": [("async-(5), damping 0.85", {"method": "async", "damping": 0.85}),
                        ("async-(3), damping 0.85", {"method": "async", "damping": 0.85, "sweeps": 3}),
                        ("async-(5), damping 0.85, free", {"method": "async", "damping": 0.85, "timing": "free"})],
    "fv3": [("chebyshev", {"method": "chebyshev"}), ("schwarz, overlap 2", {"method": "schwarz", "overlap": 2})],
}
BARS = {"Chem97ZtZ (rebuilt)": 30, "fv1": 55, "Trefethen_2000": 60, "Trefethen_20000": 80, "fv3": 500}
# The paper's method, a launch for each iteration: iterations to 1e-10 and contraction by the model.
MODEL = {"fv1": (84, 0.758), "Trefethen_2000": (28, 0.470)}

# Ways of few global iterations: name: (bar, options)
FEWEST = {"Chem97ZtZ (rebuilt)": (2, {"method": "schwarz", "overlap": 0, "one_launch": False}),
          "fv1": (12, {"method": "schwarz", "overlap": 2, "one_launch": False, "coarse": True}),
          "Trefethen_2000": (12, {"method": "async", "damping": 0.85}),
          "fv3": (120, {"method": "cg", "precond": "blocks", "overlap": 1, "coarse": True})}

PCG = r"""
__device__ void add(double *to, double v) {
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) atomicAdd(to, v);
}
extern "C" {
__global__ void begin(int n, const double *b, const double *d, double *x, double *r, double *p, double *s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; double q = 0;
    if (i < n) { x[i] = 0; r[i] = b[i]; p[i] = d[i] * b[i]; q = r[i] * p[i]; } add(s, q); }
__global__ void curve(int n, const double *p, const double *q, double *s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; add(s + 1, i < n ? p[i] * q[i] : 0); }
__global__ void move(int n, const double *p, const double *q, const double *d, double *x, double *r, double *s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; double a = s[0] / s[1], z = 0, w = 0;
    if (i < n) { x[i] += a * p[i]; double v = r[i] - a * q[i]; r[i] = v; z = v * v * d[i]; w = v * v; }
    add(s + 2, z); add(s + 3, w); }
__global__ void turn(int n, const double *r, const double *d, double *p, const double *s) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) p[i] = d[i] * r[i] + s[2] / s[0] * p[i]; }
__global__ void shift(double *s) { s[4] = s[3]; s[0] = s[2]; s[1] = s[2] = s[3] = 0; }
__global__ void jacobi(int n, const double *b, const double *ax, const double *d, double w, double *x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += w * d[i] * (b[i] - ax[i]); }
}
"""


class Product:
    """y = A x by cuSPARSE itself: CuPy does not let its own calls be captured into a graph."""

    def __init__(self, A):
        import ctypes
        import cupy
        from cupyx import cusparse  # noqa: F401  loads the library
        with open("/proc/self/maps", encoding="utf-8") as maps:
            path = next(line.split()[-1] for line in maps if "libcusparse.so" in line)
        self.c, self.cp, self.lib = ctypes, cupy, ctypes.CDLL(path)
        self.A = A  # keeps its arrays alive
        self.handle, self.matrix = ctypes.c_void_p(), ctypes.c_void_p()
        self.one, self.zero = ctypes.c_double(1), ctypes.c_double(0)
        self.check(self.lib.cusparseCreate(ctypes.byref(self.handle)))
        i64 = ctypes.c_int64
        self.check(self.lib.cusparseCreateCsr(
            ctypes.byref(self.matrix), i64(A.shape[0]), i64(A.shape[1]), i64(A.nnz), *map(self.at, (
                A.indptr, A.indices, A.data)), 2, 2, 0, 1))  # 32-bit indices, from 0, float64
        self.buffer = None

    def check(self, status):
        if status:
            raise RuntimeError(f"cuSPARSE returned {status}")

    def at(self, array):
        return self.c.c_void_p(array.data.ptr)

    def vector(self, array):
        made = self.c.c_void_p()
        self.check(self.lib.cusparseCreateDnVec(self.c.byref(made), self.c.c_int64(array.size), self.at(array), 1))
        return made

    def multiply(self, x, y, stream):
        if self.buffer is None:
            size = self.c.c_size_t()
            self.x, self.y = (x.data.ptr, self.vector(x)), (y.data.ptr, self.vector(y))
            self.check(self.lib.cusparseSpMV_bufferSize(self.handle, 0, self.c.byref(self.one), self.matrix, self.x[1],
                                                        self.c.byref(self.zero), self.y[1], 1, 0,
                                                        self.c.byref(size)))
            self.buffer = self.cp.empty(max(size.value, 1), np.uint8)
        if (x.data.ptr, y.data.ptr) != (self.x[0], self.y[0]):
            raise ValueError("other vectors than those of the first product")
        self.check(self.lib.cusparseSetStream(self.handle, self.c.c_void_p(stream)))
        self.check(self.lib.cusparseSpMV(self.handle, 0, self.c.byref(self.one), self.matrix, self.x[1],
                                         self.c.byref(self.zero), self.y[1], 1, 0, self.at(self.buffer)))


class Rival:
    """A method made of cuSPARSE's product and a few kernels; iterations are captured into a graph."""

    def __init__(self, A, method, damping=1.0):
        import cupy
        from cupyx.scipy.sparse import csr_matrix
        self.cp, self.method, self.damping = cupy, method, damping
        self.kernel = cupy.RawModule(code=PCG)
        self.A = csr_matrix(A)
        self.product = Product(self.A)
        self.n = A.shape[0]
        self.b = cupy.ones(self.n)
        self.d = cupy.asarray(1 / A.diagonal())
        self.x, self.r, self.p, self.q = (cupy.zeros(self.n) for _ in range(4))
        self.s = cupy.zeros(8)
        self.stream = cupy.cuda.Stream(non_blocking=True)

    def launch(self, name, *args):
        one = name == "shift"
        head = () if one else (np.int32(self.n),)
        self.kernel.get_function(name)((1,) if one else ((self.n + 127) // 128,), (1,) if one else (128,),
                                       (*head, *args))

    def begin(self):
        self.s.fill(0)
        self.x.fill(0)
        if self.method == "pcg":
            self.launch("begin", self.b, self.d, self.x, self.r, self.p, self.s)

    def step(self):
        if self.method == "jacobi":
            self.multiply(self.x)
            self.launch("jacobi", self.b, self.q, self.d, np.float64(self.damping), self.x)
            return
        self.multiply(self.p)
        self.launch("curve", self.p, self.q, self.s)
        self.launch("move", self.p, self.q, self.d, self.x, self.r, self.s)
        self.launch("turn", self.r, self.d, self.p, self.s)
        self.launch("shift", self.s)

    def multiply(self, v):
        self.product.multiply(v, self.q, self.cp.cuda.get_current_stream().ptr)

    def residual(self):
        r = self.b - self.A @ self.x
        return float(self.cp.linalg.norm(r) / self.cp.linalg.norm(self.b))

    def count(self, most, every):
        """Iterations to the tolerance, looked at after each `every`."""
        self.begin()
        for made in range(every, most + 1, every):
            for _ in range(every):
                self.step()
            if self.residual() <= TOL:
                return made
        return None

    def graph_us(self, count, rounds=15):
        """Median of `count` iterations replayed, without a test for the end."""
        rounds = 3 if count > 2000 else rounds
        each = min(count, 400)
        with self.stream:
            self.begin()
            self.step()
            self.stream.synchronize()
            self.stream.begin_capture()
            for _ in range(each):
                self.step()
            graph = self.stream.end_capture()
            times = []
            for _ in range(rounds):
                self.begin()
                first, last = self.cp.cuda.Event(), self.cp.cuda.Event()
                first.record(self.stream)
                for _ in range((count + each - 1) // each):
                    graph.launch(self.stream)
                last.record(self.stream)
                last.synchronize()
                times.append(self.cp.cuda.get_elapsed_time(first, last) * 1e3 * count / (
                    each * ((count + each - 1) // each)))
        return float(np.median(times))


def ours(bench, name, options, runs):
    """Solves `runs` times; the launches' times in us, the iterations, the worst true residual."""
    A = bench.matrices[name]
    b = np.ones(A.shape[0])
    begin = time.perf_counter()
    smoother = bench.holdfast.Smoother(A, device="cuda", **options)
    setup = time.perf_counter() - begin
    times, counts, residuals, stops = [], [], [], set()
    for _ in range(runs):
        s = smoother.solve(b, warn=False)
        times.append(s.columns[0]["seconds_launch"] * 1e6)
        counts.append(s.iterations)
        stops.add(s.stop)
        residuals.append(float(np.linalg.norm(b - A @ s.x) / np.linalg.norm(b)))
    return {"us": float(np.median(times)), "least": min(times), "most": max(times),
            "iterations": int(np.median(counts)),
            "fewest": min(counts), "largest": max(counts), "residual": max(residuals),
            "stops": "+".join(sorted(stops)), "setup_ms": 1e3 * setup, "one_launch": s.report["one_launch"]}


def launches(bench):
    """Time to 1e-10 in one launch."""
    best = {}
    for name, ways in WAYS.items():
        if name not in bench.matrices:
            continue
        for way, options in ways:
            try:
                row = ours(bench, name, options, 31)
            except bench.holdfast.HoldfastError as error:
                print(f"{name}, {way}: {error}")
                continue
            bench.row("One launch: time to 1e-10 with a true stop", matrix=name, way=way, bar=BARS[name], **row)
            if row["stops"] == "tol" and row["one_launch"] and row["us"] < best.get(name, (np.inf,))[0]:
                best[name] = (row["us"], way, options)
    return best


def per_iteration(bench, A, rounds=15):
    """Our async-(5) with a launch for each iteration: iterations to the tolerance, and their time without a test."""
    import cupy
    options = {"method": "async", "block": 128, "damping": 1.0, "partition": "strips", "one_launch": False,
               "device": "cuda"}
    count = bench.holdfast.solve(A, np.ones(A.shape[0]), warn=False, **options).iterations
    smoother = bench.holdfast.Smoother(A, **options)
    b, x = cupy.ones(A.shape[0]), cupy.zeros(A.shape[0])
    smoother.apply(b, x, 10)
    return count, time_calls(lambda: smoother.apply(b, x, count), 3 if count > 2000 else rounds)


def time_calls(call, rounds):
    """Median of the times between events around a call, in us."""
    import cupy
    times = []
    for _ in range(rounds):
        first, last = cupy.cuda.Event(), cupy.cuda.Event()
        first.record()
        call()
        last.record()
        last.synchronize()
        times.append(1e3 * cupy.cuda.get_elapsed_time(first, last))
    return float(np.median(times))


def fewest(bench):
    """Global iterations of the ways that need few."""
    for name, (bar, options) in FEWEST.items():
        if name not in bench.matrices:
            continue
        A = bench.matrices[name]
        s = bench.holdfast.solve(A, np.ones(A.shape[0]), device="cuda", warn=False, **options)
        bench.row("Global iterations to 1e-10", matrix=name, way=" ".join(f"{k}={v}" for k, v in options.items()),
                  bar=bar, iterations=s.iterations, stop=s.stop, residual=s.residual, blocks=s.report["blocks"],
                  setup_ms=1e3 * s.report["seconds"]["setup"], solve_ms=1e3 * s.report["seconds"]["solve"])


def of_graph(method, every):
    def measure(_, A):
        rival = Rival(A, method)
        count = rival.count(40000, every)
        return count, rival.graph_us(count) if count else None
    return measure


def rivals(bench, best):
    try:
        import cupy  # noqa: F401
    except ImportError:
        print("cuSPARSE takes no part: CuPy is not installed")
        return
    for name, (us, way, _) in best.items():
        A = sp.csr_matrix(bench.matrices[name])
        others = {"cuSPARSE Jacobi, graph": of_graph("jacobi", 1000 if name == "fv3" else 10),
                  "cuSPARSE PCG, graph": of_graph("pcg", 1),
                  "async-(5), a launch for each iteration": per_iteration}
        for label, measure in others.items():
            try:
                count, taken = measure(bench, A)
            except Exception as error:  # whatever CuPy raises: the others go on
                print(f"{name}, {label}: {type(error).__name__}: {error}")
                continue
            bench.row("One launch: others, without a test for the end", matrix=name, rival=label, iterations=count,
                      us=taken, ours_us=us, ours=way, ratio=taken / us if taken else None)


def spread(bench, best):
    for name, (_, way, options) in best.items():
        bench.row(f"Spread over {bench.args.runs} runs", matrix=name, way=way,
                  **ours(bench, name, options, bench.args.runs))
    free = {"method": "async", "partition": "strips", "timing": "free"}
    for name in MODEL:
        bench.row(f"Spread over {bench.args.runs} runs", matrix=name, way="async-(5), free",
                  **ours(bench, name, free, bench.args.runs))


def model(bench):
    """async-(5) of the paper, a launch for each iteration."""
    for name, (count, contraction) in MODEL.items():
        A = bench.matrices[name]
        s = bench.holdfast.solve(A, np.ones(A.shape[0]), device="cuda", method="async", block=128, damping=1.0,
                                 partition="strips", one_launch=False, warn=False)
        h = s.history[0]
        half = len(h) // 2
        bench.row("async-(5), a launch for each iteration", matrix=name, iterations=s.iterations, model=count,
                  contraction=float((h[-1] / h[half]) ** (1 / (len(h) - 1 - half))), model_contraction=contraction,
                  residual=s.residual)


def grid(size, diagonal):
    """relax_sets.stencil() for large sizes: rows in compressed form at once."""
    n = size * size
    row = np.arange(n, dtype=np.int64)
    i, j = row // size, row % size
    there, values, columns = [], [], []
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            there.append((i + di >= 0) & (i + di < size) & (j + dj >= 0) & (j + dj < size))
            columns.append((row + di * size + dj).astype(np.int32))
            values.append(diagonal if di == dj == 0 else -0.5 if di == 0 or dj == 0 else -0.25)
    there = np.stack(there, 1)
    starts = np.concatenate(([0], np.cumsum(there.sum(1))))
    data = np.broadcast_to(np.array(values), there.shape)[there]
    return sp.csr_matrix((data, np.stack(columns, 1)[there], starts), (n, n))


def trefethen(n):
    limit = int(n * (np.log(n) + np.log(np.log(n)))) + 10
    sieve = np.ones(limit, bool)
    sieve[:2] = False
    for p in range(2, int(limit ** 0.5) + 1):
        if sieve[p]:
            sieve[p * p::p] = False
    gaps = [2 ** k for k in range(30) if 2 ** k < n]
    row = np.arange(n, dtype=np.int64)
    steps = np.array([-g for g in reversed(gaps)] + [0] + gaps)
    column = row[:, None] + steps
    there = (column >= 0) & (column < n)
    values = np.ones(column.shape)
    values[:, len(gaps)] = np.flatnonzero(sieve)[:n]
    starts = np.concatenate(([0], np.cumsum(there.sum(1))))
    return sp.csr_matrix((values[there], column[there].astype(np.int32), starts), (n, n))


def varied(size):
    """The grid with other values in each row: none is like another."""
    A = grid(size, 3.510152)
    A.data *= 1 - 0.1 * np.random.default_rng(1).random(A.nnz)
    return A


LARGE = {"grid": lambda size: grid(size, 3.510152), "grid, all values different": varied, "Trefethen": trefethen}


def sweep_time(smoother, n, rounds=5):
    """Seconds of a sweep, on vectors of the device."""
    import cupy
    b, x = cupy.ones(n), cupy.zeros(n)
    smoother.apply(b, x, 5)
    return time_calls(lambda: smoother.apply(b, x, 20), rounds) / 20e6


def solve_time(smoother, n, rounds=3):
    """Seconds of iterations and checks alone: what a solution takes beyond one that begins at the end."""
    s = smoother.solve(np.ones(n), warn=False)
    whole = min(smoother.solve(np.ones(n), warn=False).columns[0]["seconds"] for _ in range(rounds))
    brought = min(smoother.solve(np.ones(n), x0=s.x, warn=False).columns[0]["seconds"] for _ in range(rounds))
    return whole - brought, s


def large(bench):
    """A sweep of large matrices against the bytes that it moves; time to the tolerance."""
    sizes = {"grid": bench.args.size, "grid, all values different": bench.args.size, "Trefethen": 2000000}
    for kind, make in LARGE.items():
        begin = time.perf_counter()
        A = make(sizes[kind])
        n = A.shape[0]
        print(f"({kind}: made in {time.perf_counter() - begin:.1f} s)", flush=True)
        floor = (12.0 * A.nnz + 40.0 * n) / PEAK
        rival = Rival(A, "jacobi")
        count = rival.count(200, 10)
        theirs = rival.graph_us(count, 3) if count else None
        del rival
        bench.row("Large: others, without a test for the end", matrix=f"{kind} {sizes[kind]}", method="cuSPARSE Jacobi",
                  iterations=count, ms=theirs and theirs / 1e3)
        for method in ("jacobi",) if make is varied else ("jacobi", "chebyshev"):  # which wants symmetry
            begin = time.perf_counter()
            more = {"damping": 1.0} if method == "jacobi" else {}
            smoother = bench.holdfast.Smoother(A, method, device="cuda", one_launch=False, partition="strips",
                                               **more)
            setup = time.perf_counter() - begin
            sweep = sweep_time(smoother, n)
            seconds, s = solve_time(smoother, n)
            bench.row("Large: a sweep and a solution with a true stop", matrix=f"{kind} {sizes[kind]}", rows=n,
                      elements=A.nnz, method=method, setup_s=setup, sweep_us=1e6 * sweep, floor_us=1e6 * floor,
                      share=floor / sweep, iterations=s.iterations, residual=s.residual, stop=s.stop,
                      ms=1e3 * seconds, cusparse_jacobi_ms=theirs and theirs / 1e3)
            del smoother, s


def compare(bench):
    best = launches(bench)
    model(bench)
    rivals(bench, best)
    spread(bench, best)

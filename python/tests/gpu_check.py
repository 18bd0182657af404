# SPDX-License-Identifier: Apache-2.0
"""All that needs a GPU and torch: python python/tests/gpu_check.py [correct|time], a minute each.

`correct` makes the checks that other work on the machine does not disturb, `time` the others.
Prints a line for each check and bar, and "N passed, N failed, N skipped" at the end; the exit
status is 1 when something failed. The package must be importable and built with CUDA; pytest is
not needed.
"""

import ctypes as C
import gc
import os
import resource
import statistics
import sys
import time
import traceback

import numpy as np
import torch

import holdfast
from holdfast import KMeans, _abi, _library, _params, _rows, errors
from holdfast._library import context_create, last_error, lib

CHECKS, TIMED = [], []
DTYPES = {torch.float32: 1, torch.float64: 2, torch.float16: 3, torch.bfloat16: 4, torch.uint8: 5}


class Skip(Exception):
    """A check that cannot be made here."""


def check(function):
    CHECKS.append(function)
    return function


def timed(function):
    TIMED.append(function)
    return function


def data(n, d, dtype=torch.float32, seed=0, device="cuda"):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, d, generator=g) * 3 + torch.randint(0, 9, (n, 1), generator=g) * 5
    x = x.abs() if dtype == torch.uint8 else x
    return x.to(dtype).to(device).contiguous()


def host(x):
    return x.detach().cpu()


def same(a, b):
    """The same bits of two fits, wherever their results lie."""
    assert np.array_equal(_rows.to_host(a.labels_), _rows.to_host(b.labels_)), "labels"
    centers = _rows.to_host(a.cluster_centers_), _rows.to_host(b.cluster_centers_)
    assert np.array_equal(*centers), "centroids"
    assert a.n_iter_ == b.n_iter_, "iterations"
    assert a.inertia_ == b.inertia_, "inertia"


@check
def products_where_they_lie():
    """Tensors are multiplied in place, in any layout, with the bits of the CPU."""
    for dtype in (torch.float32, torch.float64, torch.float16):
        a, b = data(70, 300, dtype), data(300, 50, dtype, seed=1)
        a, b = (a / 8).contiguous(), (b / 8).contiguous()
        want = holdfast.matmul(host(a).numpy(), host(b).numpy())
        for left in (a, a.T.contiguous().T, torch.cat((a, a), 1)[:, :300]):
            c = holdfast.matmul(left, b, portable=True)
            assert c.is_cuda
            assert np.array_equal(host(c).numpy(), want), (dtype, left.stride())
        both = holdfast.matmul(torch.stack((a, 2 * a)), b, portable=True)
        assert torch.equal(both[0], holdfast.matmul(a, b, portable=True)), "batch"
        row, report = holdfast.matmul(a[7], b, return_report=True)
        assert torch.equal(row, holdfast.matmul(a, b)[7]), "a row alone"
    assert "tensor cores" in report["arithmetic"], report["arithmetic"]
    x = torch.randint(-128, 128, (33, 90), dtype=torch.int8, device="cuda")
    y = torch.randint(-128, 128, (90, 20), dtype=torch.int8, device="cuda")
    assert torch.equal(host(holdfast.matmul(x, y)), host(x).int() @ host(y).int()), "int8"
    x, y = data(9, 40, torch.bfloat16), data(40, 8, torch.bfloat16)
    assert holdfast.matmul(x, y, dtype=torch.float32).dtype == torch.float32
    try:
        holdfast.matmul(a, host(b))
        raise AssertionError("operands in two places were taken")
    except errors.InvalidArgumentError as error:
        assert "on one device" in str(error)


@check
def products_as_an_operator_of_torch():
    """torch.ops.holdfast.matmul: the bits of matmul(), gradients, and torch's own tests of operators."""
    import holdfast.torch_op

    op = torch.ops.holdfast.matmul
    for device in ("cuda", "cpu"):
        for left, right in (((5, 7), (7, 3)), ((2, 5, 7), (7, 3)), ((7,), (2, 7, 3)), ((5, 7), (7,))):
            a, b = (torch.randn(s, dtype=torch.float64, device=device) for s in (left, right))
            got = op(a, b, "correct", False)
            want = holdfast.matmul(a, b) if device == "cuda" else holdfast.matmul(a.numpy(), b.numpy())
            assert np.array_equal(host(got).numpy(), np.asarray(host(want) if device == "cuda" else want))
            a.requires_grad_(True)
            b.requires_grad_(True)
            assert torch.autograd.gradcheck(lambda x, y: op(x, y, "off", True), (a, b)), (left, right)
        a, b = torch.randn(4, 6, device=device), torch.randn(6, 2, device=device)
        torch.library.opcheck(holdfast.torch_op.matmul, (a, b), {"portable": True})
        fast = torch.compile(lambda x, y: op(torch.relu(x), y, "off", False), backend="eager", fullgraph=True)
        assert torch.equal(fast(a, b), op(torch.relu(a), b, "off", False)), "compiled"


@check
def products_of_cupy():
    """Arrays of CuPy give one of CuPy, with the bits of the CPU."""
    try:
        import cupy
    except ImportError as error:
        raise Skip("CuPy is not installed") from error
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((40, 70)), rng.standard_normal((70, 30))
    c = holdfast.matmul(cupy.asarray(a), cupy.asarray(b.T.copy()).T)
    assert isinstance(c, cupy.ndarray)
    assert np.array_equal(c.get(), holdfast.matmul(a, b))


@check
def every_type_where_it_lies():
    """CUDA tensors of each type are used in place and give the bits of the CPU."""
    for dtype, code in DTYPES.items():
        x = data(20_000, 24, dtype)
        rows = _rows.take(x, "KMeans")
        assert rows.code == code
        assert rows.view.data == x.data_ptr()
        torch.cuda.synchronize()
        before = torch.cuda.max_memory_allocated()
        km = KMeans(30, random_state=1).fit(x)
        assert torch.cuda.max_memory_allocated() == before, "torch allocated"
        assert km.report_["device"].startswith("cuda")
        same(km, KMeans(30, random_state=1, device="cpu").fit(host(x)))


@check
def layouts():
    """Row slices and column slices in place; a transposed tensor too."""
    x = data(30_000, 40)
    for y in (x[::2], x[:, :16], x[100:], x[:, 8:24], data(24, 3000).t()):
        if y.stride(1) == 1:
            assert _rows.take(y, "KMeans").view.data == y.data_ptr()
        km = KMeans(12, random_state=2).fit(y)
        same(km, KMeans(12, random_state=2, device="cpu").fit(host(y).contiguous()))


@check
def output_like():
    """Tensors on the device for tensors on the device."""
    x = data(10_000, 16, torch.float16)
    km = KMeans(20, random_state=0, output="like").fit(x)
    plain = KMeans(20, random_state=0, device="cpu").fit(host(x))
    same(km, plain)
    for t in (km.labels_, km.cluster_centers_, km.predict(x), km.transform(x[:100])):
        assert t.device == x.device
    assert km.labels_.dtype == torch.int32
    assert torch.equal(km.predict(x), km.labels_)
    np.testing.assert_allclose(
        host(km.transform(x[:100])).numpy(), plain.transform(host(x[:100])), rtol=1e-6
    )
    assert km.score(x) == -km.inertia_


@check
def weights_and_starts_on_the_device():
    x, w = data(5000, 8), torch.rand(5000, device="cuda") + 0.1
    km = KMeans(9, init=x[:9]).fit(x, sample_weight=w)
    same(km, KMeans(9, init=host(x[:9]), device="cpu").fit(host(x), sample_weight=host(w).numpy()))


@check
def streams():
    """Rows that are still being computed on the caller's stream, which is the fit's."""
    expected = None
    a = torch.randn(4096, 4096, device="cuda") / 64
    for stream in (None, torch.cuda.Stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream or torch.cuda.default_stream()):
            x = torch.zeros(4096, 64, device="cuda")
            torch.cuda.synchronize()
            y = a
            for _ in range(60):
                y = y @ a
                y = y / y.norm()
            x.copy_(y[:, :64] * 100)
            km = KMeans(16, random_state=0).fit(x)
            labels = km.labels_
        torch.cuda.synchronize()
        late = KMeans(16, random_state=0).fit(x)
        assert np.array_equal(labels, late.labels_), f"stream {stream}"
        expected = labels if expected is None else expected
        assert np.array_equal(labels, expected)


@timed
def no_synchronisation_that_torch_sees():
    """torch reports none, and copies on another stream go on over a fit."""
    x = data(16_384, 64, torch.float16)
    start = x[:128].float().cpu().numpy()
    km = KMeans(128, init=start, max_iter=20, tol=0, output="like")
    km.fit(x)
    other, mine = torch.cuda.Stream(), torch.cuda.Stream()
    with torch.cuda.stream(mine):  # what the first call on a stream allocates waits for the device
        km.fit(x)
        km.predict(x)
    locked = torch.empty(1 << 28, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(locked, device="cuda")
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.cuda.stream(other):
            for _ in range(100):  # about half a second
                target.copy_(locked, non_blocking=True)
        with torch.cuda.stream(mine):
            begin = time.perf_counter()
            km.fit(x)
            km.predict(x)
            took = time.perf_counter() - begin
        busy = not other.query()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    assert busy, f"the other stream was waited for: {took:.3f} s"
    return f"fit and predict took {1e3 * took:.2f} ms beside a stream that was busy throughout"


@check
def protocols():
    """__cuda_array_interface__, __dlpack__, a capsule, and a consumed one."""
    x = data(6000, 12)
    expected = KMeans(7, random_state=0, device="cpu").fit(host(x))
    interface = type("CAI", (), {"__cuda_array_interface__": x.__cuda_array_interface__})()
    exporter = type(
        "DL",
        (),
        {
            "__dlpack__": lambda s, stream=None: x.__dlpack__(stream=stream),
            "__dlpack_device__": lambda s: x.__dlpack_device__(),
        },
    )()
    for a in (interface, exporter, torch.utils.dlpack.to_dlpack(x)):
        same(KMeans(7, random_state=0).fit(a), expected)
    capsule = torch.utils.dlpack.to_dlpack(x)
    KMeans(7).fit(capsule)
    try:
        KMeans(7).fit(capsule)
    except ValueError as error:
        assert "consumed" in str(error)
    else:
        raise AssertionError("a consumed capsule was taken")
    try:
        KMeans(7, output="like").fit(interface)
    except errors.UnsupportedError as error:
        assert "output='like'" in str(error)


@check
def cupy_arrays():
    try:
        import cupy
    except ImportError as error:
        raise Skip("CuPy is not installed") from error
    x = data(6000, 12)
    c = cupy.asarray(x)
    with cupy.cuda.Stream(non_blocking=True):
        km = KMeans(7, random_state=0, output="like").fit(c)
    assert isinstance(km.labels_, cupy.ndarray)
    assert _rows.take(c, "KMeans").view.data == c.data.ptr
    expected = KMeans(7, random_state=0, device="cpu").fit(host(x))
    assert np.array_equal(km.labels_.get(), expected.labels_)
    time.sleep(2 * _library._IDLE_SECONDS)  # contexts of streams that have ended are not idle
    gc.collect()
    KMeans(7, random_state=0, output="like").fit(c)


@check
def smoother_of_cupy():
    """A smoother's operator takes CuPy's arrays and preconditions CuPy's cg."""
    try:
        import cupy
        import cupyx.scipy.sparse as there
        import scipy.sparse as sp
        from cupyx.scipy.sparse.linalg import cg
    except ImportError as error:
        raise Skip("CuPy or SciPy is not installed") from error
    line = sp.diags([-np.ones(49), 2 * np.ones(50), -np.ones(49)], [-1, 0, 1])
    A = (sp.kron(sp.eye(50), line) + sp.kron(line, sp.eye(50))).tocsr()
    on_gpu, b = there.csr_matrix(A), cupy.ones(2500)
    smoother = holdfast.Smoother(A, "chebyshev", iterations=2, device="cuda")
    operator = smoother.operator()
    assert np.array_equal(cupy.asnumpy(operator.matvec(b)), smoother.apply(np.ones(2500)))
    steps = {}
    for name, M in (("plain", None), ("smoothed", operator)):
        seen = []
        x, info = cg(on_gpu, b, M=M, callback=lambda x, seen=seen: seen.append(1))
        assert info == 0 and float(cupy.linalg.norm(b - on_gpu @ x)) <= 1e-4 * 50
        steps[name] = len(seen)
    assert steps["smoothed"] < 0.7 * steps["plain"], steps


@check
def numba_arrays():
    try:
        from numba import cuda
    except ImportError as error:
        raise Skip("Numba is not installed") from error
    x = host(data(6000, 12)).numpy()
    km = KMeans(7, random_state=0, output="like").fit(cuda.to_device(x))
    assert np.array_equal(
        km.labels_.copy_to_host(), KMeans(7, random_state=0, device="cpu").fit(x).labels_
    )


@check
def host_data():
    """NumPy data go to the GPU by themselves, with the bits of the CPU; sources and CSR too."""
    x = host(data(50_000, 20)).numpy()
    cpu = KMeans(25, random_state=0, device="cpu").fit(x)
    gpu = KMeans(25, random_state=0).fit(x)
    assert gpu.report_["device"].startswith("cuda")
    same(gpu, cpu)
    same(KMeans(25, random_state=0).fit(holdfast.source(x)), cpu)
    same(KMeans(25, random_state=0).fit(holdfast.source(lambda: iter(np.array_split(x, 9)))), cpu)
    same(KMeans(25, random_state=0).fit(torch.from_numpy(x).pin_memory()), cpu)
    centers, indices = holdfast.kmeans_plusplus(data(5000, 8), 10, random_state=0)
    assert np.array_equal(host(data(5000, 8)).numpy()[indices], centers)


@check
def faults():
    """Exceptions, after which the next call works."""

    def read_fails(first, count):
        raise LookupError("gone")

    reader = type(
        "R",
        (),
        {
            "shape": (9000, 8),
            "dtype": np.dtype("f4"),
            "read": lambda s, first, count: read_fails(first, count),
        },
    )()
    nan = data(100, 4)
    nan[3, 1] = float("nan")
    cases = [
        (lambda: KMeans(3).fit(nan), ValueError, "row 3, column 1"),
        (lambda: KMeans(3, device="cpu").fit(data(100, 4)), ValueError, "the data lie on cuda"),
        (lambda: KMeans(3, device="cuda:99").fit(np.ones((9, 2))), errors.HoldfastError, "99"),
        (lambda: KMeans(3).fit(data(9, 4).cfloat()), ValueError, "Complex"),
        (lambda: KMeans(3).fit(data(9, 4)[0]), ValueError, "1D"),
        (lambda: KMeans(3).fit(reader), LookupError, "gone"),
        (lambda: KMeans(3, progress=lambda e: 1 / 0).fit(data(900, 4)), ZeroDivisionError, ""),
        (lambda: KMeans(500, memory_limit="1MiB").fit(data(200_000, 64)), MemoryError, ""),
        (
            lambda: KMeans(3).fit(data(9, 4), sample_weight=-torch.ones(9, device="cuda")),
            ValueError,
            "negative",
        ),
    ]
    for i, (call, kind, text) in enumerate(cases):
        try:
            call()
        except kind as error:
            assert text in str(error), f"case {i}: {error}"
        else:
            raise AssertionError(f"case {i} raised nothing")
        assert KMeans(3, random_state=0).fit(data(300, 4)).n_iter_ > 0
    assert torch.ones(9, device="cuda").sum().item() == 9


@check
def fork_after_use():
    """A child gets an exception; the parent goes on."""
    x = data(500, 4)
    KMeans(3).fit(x)
    pid = os.fork()
    if pid == 0:
        try:
            KMeans(3, device="cuda").fit(np.ones((50, 2)) * np.arange(50)[:, None])
            os._exit(3)
        except errors.HoldfastError:
            os._exit(0)
        except BaseException:
            os._exit(4)
    for _ in range(200):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        raise AssertionError("the child hung")
    code = os.waitstatus_to_exitcode(status)
    assert code == 0, f"the child ended with {code}"
    assert KMeans(3).fit(x).n_iter_ > 0


@check
def other_gpu():
    if torch.cuda.device_count() < 2:
        raise Skip("there is one GPU")
    x = data(3000, 8, device="cuda:1")
    km = KMeans(5, random_state=0, output="like").fit(x)
    assert km.report_["device"] == "cuda:1"
    assert km.labels_.device == x.device


def turns(ours, theirs, rounds):
    """Medians of ours, theirs and their difference, us."""
    samples = []
    for i in range(rounds + 10):
        pair = {}
        for f in (ours, theirs) if i % 2 else (theirs, ours):
            begin = time.perf_counter()
            f()
            pair[f] = time.perf_counter() - begin
        if i >= 10:
            samples.append((pair[ours], pair[theirs], pair[ours] - pair[theirs]))
    return [1e6 * statistics.median(c) for c in zip(*samples)]


def over_c(output, guard, read=False):
    """The cost of Python over C for a torch tensor of 16,384 x 64, and of reading what it gave."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(cores)[-2:])  # a thread that is moved loses its caches
    try:
        return measured_over_c(output, guard, read)
    finally:
        os.sched_setaffinity(0, cores)


def measured_over_c(output, guard, read):
    x = data(16_384, 64, torch.float16)
    start = x[:128].float().cpu().numpy()
    km = KMeans(128, init=start, max_iter=20, tol=0, output=output, guard=guard)
    stream = torch.cuda.current_stream().cuda_stream or 1
    context = context_create(b"cuda:0", 0, stream)
    xs = _abi.Array(x.data_ptr(), 3, 16_384, 64, 64)
    cs = _abi.Array(start.ctypes.data, 1, 128, 64, 64)
    opts = _abi.KMeansOpts(k=128, init=3, max_iter=20, tol=-1.0, centroids=C.pointer(cs))
    opts.guard = _params.GUARDS[guard]

    def fit_c():
        r = _abi.KMeansResult()
        if lib.hf_kmeans_fit(context, C.addressof(xs), C.addressof(opts), C.addressof(r)):
            raise RuntimeError(last_error(context))
        lib.hf_kmeans_result_clear(C.addressof(r))

    def fit():
        km.fit(x)
        if read:
            _ = km.labels_, km.cluster_centers_

    figures = turns(fit, fit_c, 300)
    lib.hf_context_destroy(context)
    return figures


@timed
def bar_fit():
    """At most 60 us over the C call with output="like"."""
    lines, worst = [], 0
    for guard in ("off", "correct"):
        python, c, over = over_c("like", guard)
        plain, read = over_c("numpy", guard)[2], over_c("like", guard, read=True)[2]
        worst = max(worst, over)
        lines.append(
            f"fit of 16,384 x 64 float16, K=128, guard={guard}: {python:.0f} us by Python, "
            f"{c:.0f} us by C, {over:.0f} us over C (bar 60); {read:.0f} us with labels and "
            f"centroids read as tensors, {plain:.0f} us with output='numpy'"
        )
    text = "; ".join(lines)
    assert worst <= 60, text
    return text


@timed
def bar_large():
    """A large fit costs Python next to nothing."""
    x = data(1_000_000, 128, torch.float16)
    km = KMeans(1024, init="random", n_init=1, random_state=0, max_iter=10, tol=0, output="like")
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        km.fit(x)
        times.append(time.perf_counter() - begin)
    took, inside = min(times), km.report_["seconds"]["total"]
    return (
        f"1,000,000 x 128 float16, K=1024, 10 iterations: {1e3 * took:.1f} ms, of which the "
        f"C call {1e3 * inside:.1f} ms; kernel {km.report_['kernels']['assign']}"
    )


@timed
def no_leaks():
    x = data(2000, 8)
    km = KMeans(5, init=x[:5], max_iter=3, output="like")

    def some(n):
        for i in range(n):
            km.fit(x)
            km.predict(x[:10])
            if i % 10 == 0:
                lib.hf_context_destroy(context_create(b"cuda:0", 0, 0))
        gc.collect()
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0] >> 20
        pages = int(open("/proc/self/statm").read().split()[1])
        return free, pages * resource.getpagesize() / 2**20

    some(300)
    free, resident = some(100)
    less, more = some(2000)
    text = f"device {free - less} MiB, host {more - resident:.1f} MiB more after 2,000 fits"
    assert free - less <= 2, text
    assert more - resident < 4, text
    return text


def main(which=None):
    """Run all, or those of a word; 1 when something failed."""
    print(
        f"holdfast {holdfast.__version__}, torch {torch.__version__}, NumPy {np.__version__}, "
        f"{torch.cuda.get_device_name()}, {os.path.getsize(holdfast._library.lib._name)} bytes"
    )
    begin = time.perf_counter()
    tally = {"passed": 0, "failed": 0, "skipped": 0}
    for function in {"correct": CHECKS, "time": TIMED}.get(which, CHECKS + TIMED):
        started, status, text = time.perf_counter(), "passed", ""
        try:
            text = function() or ""
        except Skip as reason:
            status, text = "skipped", str(reason)
        except Exception as error:
            status, text = "failed", f"{type(error).__name__}: {error}"
            traceback.print_exc()
        tally[status] += 1
        print(
            f"{status}: {function.__name__} ({time.perf_counter() - started:.1f} s) {text}",
            flush=True,
        )
    print(f"{time.perf_counter() - begin:.0f} s in all")
    print(", ".join(f"{count} {name}" for name, count in tally.items()))
    return 1 if tally["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))

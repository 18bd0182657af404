# SPDX-License-Identifier: Apache-2.0
"""libholdfast_blas: NumPy and netlib's test programs run their products through it, unchanged."""
import ctypes
import glob
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from cli import Skip, check, content, environment, equal, holdfast, loads, main, scratch, test  # noqa: E402

LIBRARY = os.path.join(os.environ.get("HF_TEST_BUILD", "build/release"), "libholdfast_blas.so")

COMMON = """
import os, sys, threading
import numpy as np
rng = np.random.default_rng(7)
a, b = rng.standard_normal((90, 700)), rng.standard_normal((700, 130))
"""


def preloaded(guard=None):
    if loads(holdfast("info", "--json").out)["build"]["sanitizers"]:
        raise Skip("a sanitizer cannot be loaded into other programs")
    return environment({"LD_PRELOAD": LIBRARY, "HF_BLAS_GUARD": guard})


def numpy(body, code=0, guard=None):
    """Run a script with the library loaded first."""
    if subprocess.run([sys.executable, "-c", "import numpy"], capture_output=True).returncode != 0:
        raise Skip("there is no numpy")
    done = subprocess.run([sys.executable, "-c", COMMON + body], env=preloaded(guard), cwd=scratch(),
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == code, f"{body}\n{done.stdout}\n{done.stderr}")
    return done.stdout


@test
def numpy_has_the_bits_of_the_command():
    numpy("""
for name, dtype in (("f32", np.float32), ("f64", np.float64)):
    x, y = a.astype(dtype), b.astype(dtype)
    np.save(name + "-a.npy", x), np.save(name + "-b.npy", y), np.save(name + "-c.npy", x @ y)
    same = [np.dot(x[i:i + 2], y) for i in range(0, 90, 2)]
    assert np.array_equal(np.concatenate(same), x @ y), "pairs of rows"
    assert np.array_equal((y.T @ x.T).T, x @ y), "transposes"
    wide = np.zeros((90, 1400), dtype)
    wide[:, :700] = x
    assert np.array_equal(wide[:, :700] @ np.asfortranarray(y), x @ y), "rows with gaps, columns"
    assert abs(x @ y - a @ b).max() < (1e-3 if dtype == np.float32 else 1e-10)
""")
    for name in ("f32", "f64"):
        out = scratch(name + "-mine.npy")
        holdfast("gemm", scratch(name + "-a.npy"), scratch(name + "-b.npy"), "-o", out, "-q")
        check(content(out) == content(scratch(name + "-c.npy")), f"bits of {name}")


@test
def children_and_threads():
    numpy("""
want = a @ b
big = np.concatenate([a] * 20)
whole = big @ b
child = os.fork()
if child == 0:
    right = np.array_equal(a @ b, want) and np.array_equal(big @ b, whole)
    os._exit(0 if right else 1)
assert os.waitpid(child, 0)[1] == 0, "a child of a fork"
wrong = []
def work():
    for _ in range(20):
        if not np.array_equal(a @ b, want):
            wrong.append(1)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads], [t.join() for t in threads]
assert not wrong, "eight threads"
assert np.array_equal(big @ b, whole)
""")


WHILE_IT_CHANGES = """
big = np.concatenate([a] * 5)
stop = []
def change():
    while not stop:
        b[350, 60] = 1e6
        b[350, 60] = 0
thread = threading.Thread(target=change, daemon=True)
thread.start()
for i in range(2000):
    big @ b
stop.append(1)
thread.join()
"""


@test
def products_are_protected():
    """An operand that changes while it is multiplied contradicts the sums of rows and columns; without the guard
    nobody would know."""
    numpy(WHILE_IT_CHANGES, code=-signal.SIGABRT, guard="detect")
    numpy(WHILE_IT_CHANGES.replace("2000", "20"), guard="off")
    numpy("a @ b", code=-signal.SIGABRT, guard="on")


@test
def checks_raise_no_signals():
    """Of what NaN and infinities make of the sums a program knows nothing; what its product raises is its own."""
    numpy("""
np.seterr(all="raise")
a[3, 4], a[7, 5], a[8, 6], b[6, 3] = np.nan, np.inf, -np.inf, 2
assert np.isnan((a @ b)[3]).all() and np.isinf((a @ b)[7:9]).all()
x, y = np.full((90, 700), 1e306), np.full((700, 130), 1e-300)
assert (abs(x @ y / 7e8 - 1) < 1e-9).all(), "sums that overflow"
""")


@test
def wrong_arguments():
    """Without a function of the program they are named on standard error, and C stays as it is."""
    body = f"""
import ctypes as C
blas = C.CDLL({LIBRARY!r})
x = (C.c_double * 16)(*range(16))
d, i = C.c_double, C.c_int
blas.cblas_dgemm(101, 111, 111, 2, 2, 3, d(1), x, 2, x, 2, d(0), x, 2)
blas.cblas_dgemm(101, 111, 7, 2, 2, 3, d(1), x, 3, x, 2, d(0), x, 2)
blas.cblas_dgemm(100, 111, 111, 2, 2, 3, d(1), x, 3, x, 2, d(0), x, 2)
two, three = C.byref(i(2)), C.byref(i(3))
one = C.byref(d(1))
blas.dgemm_(b"N", b"N", two, two, three, one, x, two, x, two, one, x, two)
blas.dgemm_(b"N", b"?", two, two, three, one, x, two, x, three, one, x, two)
assert list(x) == [float(v) for v in range(16)]
blas.dgemm_(b"n", b"t", two, two, C.byref(i(0)), one, x, two, x, two, C.byref(d(2)), x, two)
assert list(x)[:5] == [0, 2, 4, 6, 4]
"""
    done = subprocess.run([sys.executable, "-c", body], env=preloaded(), capture_output=True, text=True, timeout=60)
    equal(done.returncode, 0, done.stderr)
    for words in ("Parameter 9 to routine cblas_dgemm", "Parameter 3 to routine cblas_dgemm",
                  "Parameter 1 to routine cblas_dgemm", "DGEMM", "number 10", "number  2"):
        check(words in done.stderr, f"no \"{words}\" in\n{done.stderr}")


@test
def only_products_are_exported():
    preloaded()
    blas = ctypes.CDLL(LIBRARY)
    for name in ("sgemm_", "dgemm_", "cblas_sgemm", "cblas_dgemm", "cblas_dgemm64_", "scipy_cblas_dgemm64_"):
        getattr(blas, name)
    for name in ("hf_gemm", "hf_context_create", "dgemv_", "RowMajorStrg"):
        check(not hasattr(blas, name), f"{name} is exported")


@test
def netlib():
    """The test programs of the reference BLAS, as Debian's libblas-test has them."""
    folders = [os.environ.get("HF_BLAS_TESTS", ""), *glob.glob("/usr/lib/*/blas"), "/usr/lib/blas"]
    folder = next((f for f in folders if f and os.path.exists(os.path.join(f, "xblat3d"))), None)
    if not folder:
        raise Skip("netlib's test programs (Debian: libblas-test) are not installed; HF_BLAS_TESTS=FOLDER names others")
    env = preloaded()

    def run(program, lines):
        with open(os.path.join(folder, lines), "rb") as f:
            done = subprocess.run([os.path.join(folder, program)], stdin=f, env=env, cwd=scratch(), timeout=300,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(done.returncode == 0, f"{program}: {done}")
        return done.stdout
    for p in "sd":
        run(f"xblat3{p}", f"{p}blat3.in")
        with open(scratch(f"{p}blat3.out"), encoding="ascii") as f:
            lines = f.read()
        for words in ("PASSED THE TESTS OF ERROR-EXITS", "PASSED THE COMPUTATIONAL TESTS"):
            check(f" {p.upper()}GEMM  {words}" in lines, lines)
        lines = run(f"x{p}cblat3", f"{p}in3")
        for words in ("PASSED THE TESTS OF ERROR-EXITS", "PASSED THE COLUMN-MAJOR COMPUTATIONAL TESTS",
                      "PASSED THE ROW-MAJOR    COMPUTATIONAL TESTS"):
            check(f" cblas_{p}gemm  {words}" in lines, lines)
        check("FAILED" not in lines, lines)


if __name__ == "__main__":
    main()

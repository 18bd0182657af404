# SPDX-License-Identifier: Apache-2.0
"""What goes wrong is a Python exception, nothing leaks, and the interpreter lives."""

import ctypes as C
import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import FakeCuda

import holdfast
from holdfast import KMeans, _call, _library, _progress, _rows, errors


def run(program, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )


# ---- the library


def test_no_library(tmp_path):
    out = run("import holdfast", HOLDFAST_LIBRARY=str(tmp_path / "none.so"))
    assert "LibraryError" in out.stderr
    assert "HOLDFAST_LIBRARY" in out.stderr


def test_other_library():
    out = run("import holdfast", HOLDFAST_LIBRARY="libm.so.6")
    assert "LibraryError" in out.stderr
    assert "lacks a function" in out.stderr


def test_wrong_version():
    program = """
        import sys, types
        other = types.ModuleType("holdfast._version"); other.__version__ = "0.0.9"
        sys.modules["holdfast._version"] = other
        import holdfast
    """
    out = run(program)
    assert "LibraryError" in out.stderr
    assert "but this package is 0.0.9" in out.stderr


# ---- callbacks


def test_progress(blobs):
    seen = []
    km = KMeans(3, random_state=0, progress=seen.append).fit(blobs)
    its = [e for e in seen if e.iteration]
    assert [e.iteration for e in its] == list(range(1, km.n_iter_ + 1))
    assert its[-1].inertia == km.report_["history"]["inertia"][-1]
    assert any(e.iteration == 0 for e in seen)


def test_progress_that_stops(rows):
    x = rows(2000, 5)
    km = KMeans(20, random_state=0, progress=lambda e: e.iteration == 3).fit(x)
    assert km.n_iter_ == 3
    assert km.report_["stop"] == "cancelled"
    assert np.array_equal(km.predict(x), km.labels_)


def test_progress_that_stops_before_there_is_a_result(rows):
    km = KMeans(20, random_state=0, progress=lambda e: e.iteration == 0)
    with pytest.raises(holdfast.errors.CancelledError, match="initial centroids"):
        km.fit(rows(2000, 5))
    assert not hasattr(km, "labels_")


def test_progress_that_raises(rows):
    x = rows(2000, 5)

    def raises(event):
        if event.iteration == 2:
            raise KeyError("mine")

    km = KMeans(20, random_state=0, progress=raises)
    with pytest.raises(KeyError, match="mine"):
        km.fit(x)
    assert km.n_iter_ == 2

    def at_once(event):
        raise KeyError("start")

    with pytest.raises(KeyError, match="start"):
        KMeans(20, progress=at_once).fit(x)


def test_tqdm(blobs, capsys):
    tqdm = pytest.importorskip("tqdm").tqdm
    km = KMeans(3, random_state=0, progress=tqdm).fit(blobs)
    assert f"{km.n_iter_}/300" in capsys.readouterr().err
    with tqdm(total=5) as bar:
        KMeans(3, random_state=0, progress=bar).fit(blobs)
        assert bar.n == km.n_iter_


def test_keyboard_interrupt(rows, monkeypatch):
    monkeypatch.setattr(_progress, "LONG_WORK", 0)
    x = rows(200_000, 16)
    km = KMeans(64, tol=0, random_state=0, max_iter=100_000, n_init=1)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    tell = _progress.Watch.tell

    def interrupt(self, restart, number, *more):
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return tell(self, restart, number, *more)

    monkeypatch.setattr(_progress.Watch, "tell", interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            km.fit(x)
    finally:
        signal.signal(signal.SIGINT, before)
    assert km.cluster_centers_.shape == (64, 16)
    assert 2 <= km.n_iter_ < 10
    monkeypatch.undo()
    assert KMeans(2).fit(x[:100]).n_iter_ > 0


# ---- sources


class Table:
    shape, dtype = (5000, 6), np.dtype("f4")

    def __init__(self, x, fail_at=None):
        self.x, self.fail_at, self.reads = x, fail_at, 0

    def read(self, first, count):
        self.reads += 1
        if self.reads == self.fail_at:
            raise LookupError("the database went away")
        return self.x[first : first + count]


@pytest.mark.parametrize("fail_at", [1, 2, 3])
def test_read_that_raises(rows, fail_at):
    x = rows(5000, 6)
    with pytest.raises(LookupError, match="went away"):
        KMeans(4, random_state=0, memory_limit="1MiB").fit(Table(x, fail_at))
    km = KMeans(4, random_state=0).fit(x)
    for call in (km.predict, km.transform, km.score):
        with pytest.raises(LookupError, match="went away"):
            call(Table(x, 1))


def test_sources_give_the_same(rows, tmp_path):
    x = rows(5000, 6)
    expected = KMeans(4, random_state=0).fit(x)
    np.save(tmp_path / "x.npy", x)

    def chunks():
        return iter(np.array_split(x, 7))

    for source in (
        Table(x),
        holdfast.source(Table(x)),
        holdfast.source(chunks),
        holdfast.source(chunks, shape=x.shape, dtype="f4"),
        holdfast.source(chunks()),
        holdfast.source(x),
        holdfast.source(tmp_path / "x.npy"),
        holdfast.load(tmp_path / "x.npy"),
    ):
        km = KMeans(4, random_state=0).fit(source)
        assert np.array_equal(km.labels_, expected.labels_)
        assert np.array_equal(km.cluster_centers_, expected.cluster_centers_)
        assert np.array_equal(km.predict(source), expected.labels_)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: holdfast.source(3), ValueError, "no source"),
        (lambda: holdfast.source(iter([])), ValueError, "no rows"),
        (
            lambda: holdfast.source(iter([np.zeros((2, 2)), np.zeros((2, 3))])),
            ValueError,
            "2 columns",
        ),
        (lambda: holdfast.source(lambda: iter([np.zeros(3)])), ValueError, "chunk of shape"),
        (lambda: holdfast.source("/nowhere/x.npy"), OSError, "/nowhere/x.npy"),
        (lambda: holdfast.load("/nowhere/x.npy"), errors.FileError, "cannot be opened"),
        (lambda: holdfast.source("x.npy", colums="1"), TypeError, "colums"),
        (lambda: holdfast.source(Table(None), columns="1"), TypeError, "options"),
        (
            lambda: KMeans(2).fit(holdfast.source(lambda: iter([]), shape=(4, 2), dtype="f4")),
            ValueError,
            "ended at row 0",
        ),
        (lambda: KMeans(2).fit(type("R", (), {"read": lambda *a: None})()), ValueError, "shape"),
    ],
)
def test_bad_sources(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_read_of_another_shape(rows):
    table = Table(rows(10, 6))
    with pytest.raises(ValueError, match=r"gave an array of shape \(10, 6\)"):
        KMeans(2, memory_limit="4MiB").fit(table)


def test_files(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x,y,z\n1,2,-9999\n3,4,5\n6,7,8\n")
    f = holdfast.source(path, columns="y,x")
    assert f.shape == (3, 2)
    assert f.columns == ["y", "x"]
    assert f.format == "csv"
    assert np.array_equal(f.read(1, 2), [[4, 3], [7, 6]])
    assert np.isnan(holdfast.load(path, missing="-9999")[0, 2])
    scaled = holdfast.load(path, columns="x", scale="standard")
    np.testing.assert_allclose(scaled.mean(), 0, atol=1e-6)
    array = holdfast.load(path)
    del f
    assert array[2, 2] == 8
    g = holdfast.source(path)
    g.close()
    with pytest.raises(OSError, match="closed"):
        KMeans(1).fit(g)


# ---- wrong arithmetic


class Faulty:
    """A library whose fits say that they repaired faults."""

    def __getattr__(self, name):
        return getattr(_library.lib, name)

    def hf_kmeans_fit(self, context, rows, opts, result):
        status = _library.lib.hf_kmeans_fit(context, rows, opts, result)
        faults = holdfast._abi.KMeansResult.from_address(result).faults
        faults.confirmed = faults.repaired = 7
        return status


def test_repaired_faults_are_told(blobs, monkeypatch):
    guard = KMeans(3, random_state=0).fit(blobs).report_["guard"]
    assert guard["scheme"] == "correct"
    assert guard["checked"] > 0
    assert guard["confirmed"] == 0
    assert "labels" in guard["checks"]
    assert not set(guard["checks"]) & set(guard["not_made"])
    monkeypatch.setattr(_call, "lib", Faulty())
    with pytest.warns(RuntimeWarning, match="found 7 times, and repaired"):
        km = KMeans(3, random_state=0).fit(blobs)
    assert km.report_["guard"]["repaired"] == 7


# ---- contexts


def test_threads(rows):
    x = rows(3000, 8)
    expected = KMeans(10, random_state=0).fit(x).labels_
    results = [None] * 8

    def work(i):
        results[i] = KMeans(10, random_state=0).fit(x).labels_

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(np.array_equal(r, expected) for r in results)


def test_fork(rows):
    program = """
        import os, sys
        import numpy as np
        from holdfast import KMeans
        x = np.random.default_rng(0).normal(size=(500, 4))
        km = KMeans(3, random_state=0).fit(x)
        pid = os.fork()
        if pid == 0:
            same = np.array_equal(KMeans(3, random_state=0).fit(x).labels_, km.labels_)
            os._exit(0 if same else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(km.predict(x)))
    """
    out = run(program)
    assert out.stdout.split() == ["0", "500"], out.stderr


def test_memory_limit(rows):
    with pytest.raises(MemoryError, match="memory"):
        KMeans(2000, init="random", memory_limit="1MiB").fit(rows(2500, 300))


def test_choice_of_the_device(rows, monkeypatch):
    """Starting a GPU must pay, and one that runs gets what is worth bringing there."""
    small, some = _library._CALL_WORK / 2, _library._START_WORK / 3
    for name, value in (("_gpu_runs", False), ("_cpu_alone", False), ("_cpu_work", 0.0)):
        monkeypatch.setattr(_library, name, value)
    assert [_library.choose(some) for _ in range(4)] == [b"cpu", b"cpu", b"auto", b"auto"]
    assert _library.choose(small) == b"cpu"
    assert [_library.choose_always(some) for _ in range(4)] == [b"cpu"] * 4
    _library._learn(b"auto", "cuda:0")
    assert [_library.choose(work) for work in (small, some)] == [b"cpu", b"auto"]
    _library._learn(b"cpu", "cpu")
    assert _library.choose(some) == b"auto"
    monkeypatch.setattr(_library, "_idle", {})
    _library._forget()  # a child of a process that uses the GPU
    assert _library.choose(9 * some) == _library.choose_always(9 * some) == b"cpu"
    monkeypatch.setattr(_library, "_cpu_alone", False)
    _library._learn(b"auto", "cpu")
    assert _library.choose(9 * some) == b"cpu"

    x = rows(4, 2)
    host, beside = _rows.take(x, "KMeans"), _rows.take(FakeCuda((7, 1), device=1), "KMeans")
    assert _rows.device_of(host, "auto", some, False) == b"cpu"
    assert _rows.device_of(host, "cuda", 1, True) == b"cuda"
    assert _rows.beside((beside.view, beside), ("auto", 5)) == ("cuda:1", 5)
    assert _rows.beside((beside.view, beside), ("cpu", 5)) == ("cpu", 5)
    assert _rows.beside(_rows.weights(np.ones(4), 4), ("auto", 5)) == ("auto", 5)


def test_no_gpu():
    if "cuda" not in os.environ.get("CUDA_VISIBLE_DEVICES", "cuda"):
        pytest.skip("asks for a machine without a GPU")
    handle = C.c_void_p()
    opts = holdfast._abi.ContextOpts(b"cuda", 0, 0, None)
    if _library.lib.hf_context_create(C.addressof(handle), C.addressof(opts)) == 0:
        _library.lib.hf_context_destroy(handle)
        pytest.skip("there is a GPU here")
    with pytest.raises(errors.UnsupportedError, match="cuda"):
        KMeans(2, device="cuda").fit(np.zeros((5, 2)))
    with pytest.raises(errors.UnsupportedError, match="cuda"):
        KMeans(2).fit(FakeCuda((5, 2)))


# ---- leaks


LEAKS = """
import resource, gc, os
import numpy as np
from holdfast import KMeans, _library
x = np.random.default_rng(0).normal(size=(200, 4))
def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
def work(fits, contexts):
    km = KMeans(3, init=x[:3], max_iter=3)
    for i in range(fits):
        km.fit(x); km.predict(x[:2])
        if i % 10 == 0:
            km.transform(x)
            KMeans(3, random_state=0, max_iter=2, progress=lambda e: 0).fit(x[:, ::2])
            try: km.predict(x[:, :2])
            except ValueError: pass
            try: KMeans(3).fit(np.full((5, 2), np.nan))
            except ValueError: pass
    for _ in range(contexts):
        _library.lib.hf_context_destroy(_library.context_create(b"cpu", 0, 0))
work({warm}, {warm_contexts})
before = resident()
work({fits}, {contexts})
print(resident() - before)
"""


@pytest.mark.parametrize(("fits", "contexts"), [(10_000, 0), (0, 1_000)])
def test_resident_memory_is_flat(fits, contexts):
    program = LEAKS.format(
        warm=min(fits, 500), warm_contexts=min(contexts, 100), fits=fits, contexts=contexts
    )
    out = run(program)
    assert float(out.stdout) < 2.0, out.stderr

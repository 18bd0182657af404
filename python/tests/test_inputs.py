# SPDX-License-Identifier: Apache-2.0
"""What may be passed as rows: without copies where that is promised, never with other results."""

import resource

import numpy as np
import pytest

import holdfast
from holdfast import KMeans, _rows, errors

sp = pytest.importorskip("scipy.sparse")


def same(a, b, exact=True):
    assert np.array_equal(a.labels_, b.labels_)
    assert a.n_iter_ == b.n_iter_
    if exact:
        assert np.array_equal(a.cluster_centers_, b.cluster_centers_)
        assert a.inertia_ == b.inertia_


@pytest.fixture
def small_panels(monkeypatch):
    """Everything that is converted is so by panels."""
    monkeypatch.setattr(_rows, "PANEL_BYTES", 0)


# ---- zero copies


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1"])
def test_used_where_it_lies(dtype):
    x = np.random.default_rng(0).integers(0, 9, size=(40, 6)).astype(dtype)
    for a in (x, x[::2], x[5:], x[:, :4], x[:, 2:3], x[:1], x[3 : 3 + 1, 1:]):
        rows = _rows.take(a, "KMeans")
        assert rows.source is None
        assert rows.view.data == a.ctypes.data
        assert len(a) == 1 or rows.view.row_stride * a.itemsize == a.strides[0]
    x.setflags(write=False)
    assert _rows.take(x, "KMeans").view.data == x.ctypes.data


def test_bfloat16_is_used_where_it_lies(rows):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = rows(200, 5).astype(ml_dtypes.bfloat16)
    assert _rows.take(x, "KMeans").view.data == x.ctypes.data
    same(KMeans(3, init=x[:3]).fit(x), KMeans(3, init=x[:3].astype("f4")).fit(x.astype("f4")))


def test_memmap(tmp_path, rows):
    x = rows(100, 4)
    np.save(tmp_path / "x.npy", x)
    m = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert _rows.take(m, "KMeans").view.data == m.ctypes.data
    same(KMeans(3, init=x[:3]).fit(m), KMeans(3, init=x[:3]).fit(x))


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


GROWTH = """
import resource, sys
import numpy as np
from holdfast import KMeans, _rows
x = np.ones((3_000_000, 8), {dtype!r})
x[::2] = 0
km = KMeans(2, init=x[:2].astype("f4"), max_iter=2, memory_limit="8MiB", device="cpu")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
km.fit({expression})
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((after - before) // 1024, x.nbytes >> 20)
"""


@pytest.mark.parametrize(
    ("dtype", "expression"),
    [
        ("f4", "x"),
        ("f8", "x"),
        ("f4", "x[:, ::-1]"),
        ("f4", "np.asfortranarray(x)[:]"),
    ],
)
def test_peak_memory(dtype, expression):
    """The fit grows by labels and its limit, not by the data (92 to 183 MiB). Fortran order: the
    copy that the test itself makes is not the fit's."""
    import subprocess
    import sys

    program = GROWTH.format(dtype=dtype, expression="y" if "fortran" in expression else expression)
    if "fortran" in expression:
        program = program.replace("before =", "y = np.asfortranarray(x)\nbefore =")
    grown, size = map(
        int,
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split(),
    )
    labels = 2 * 4 * 3_000_000 >> 20  # C's and ours
    assert grown <= labels + 8 + 16, (grown, size)


# ---- other layouts and types


@pytest.mark.parametrize(
    "make",
    [
        np.asfortranarray,
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1][::-1],
        lambda x: x.astype(">f4"),
        lambda x: x.astype("f8").astype("f4", order="F"),
        lambda x: x.tolist(),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), "u1")[1:].view("f4").reshape(x.shape),
    ],
)
@pytest.mark.usefixtures("small_panels")
def test_layouts(rows, make):
    x = rows(300, 4)
    a = make(x)
    exact = not isinstance(a, list)
    same(KMeans(5, init=x[:5]).fit(a), KMeans(5, init=x[:5]).fit(x), exact)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u2", "u4", "?", "g", "O"])
@pytest.mark.parametrize("panels", [False, True])
def test_types(dtype, panels, monkeypatch):
    if panels:
        monkeypatch.setattr(_rows, "PANEL_BYTES", 0)
    x = np.random.default_rng(0).integers(0, 2, size=(60, 3))
    x[:3] = [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    a = KMeans(3, init=x[:3].astype("f8")).fit(x.astype(dtype))
    same(a, KMeans(3, init=x[:3].astype("f8")).fit(x.astype("f8")))
    assert a.cluster_centers_.dtype == np.float64


@pytest.mark.parametrize("kind", ["csr_array", "csr_matrix", "csc_array", "coo_array", "lil_array"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "u1"])
@pytest.mark.parametrize("panels", [False, True])
def test_sparse(kind, dtype, panels, monkeypatch):
    if panels:
        monkeypatch.setattr(_rows, "PANEL_BYTES", 0)
    rng = np.random.default_rng(0)
    dense = (rng.integers(0, 9, size=(5000, 12)) * (rng.random((5000, 12)) < 0.2)).astype(dtype)
    m = getattr(sp, kind)(dense)
    expected = KMeans(4, init=dense[:4].astype("f8")).fit(
        dense.astype("f8" if dtype == "i8" else "f4" if dtype == "u1" else dtype)
    )
    km = KMeans(4, init=m.tocsr()[:4] if not panels else dense[:4].astype("f8")).fit(m)
    same(km, expected)
    assert np.array_equal(km.predict(m), km.labels_)


def test_sparse_never_dense():
    """8,000 x 40,000 of float32 would be 1.2 GiB."""
    n, d = 8_000, 40_000
    rng = np.random.default_rng(0)
    m = sp.csr_matrix((np.ones(n, "f4"), rng.integers(0, 4, n), np.arange(n + 1)), shape=(n, d))
    start = np.zeros((4, d), "f4")
    start[range(4), range(4)] = 1
    before = peak_mib()
    km = KMeans(4, init=start, max_iter=2, memory_limit="128MiB").fit(m)
    assert km.inertia_ == 0
    assert peak_mib() - before < 400


# ---- tables


@pytest.mark.parametrize("panels", [False, True])
def test_pandas(rows, panels, monkeypatch):
    pd = pytest.importorskip("pandas")
    if panels:
        monkeypatch.setattr(_rows, "PANEL_BYTES", 0)
    x = rows(200, 3, np.float64)
    expected = KMeans(3, init=x[:3]).fit(x)
    frame = pd.DataFrame(x, columns=list("abc"))
    same(KMeans(3, init=x[:3]).fit(frame), expected)
    frame["b"] = frame["b"].astype("Float64")
    same(KMeans(3, init=x[:3]).fit(frame), expected)
    frame["d"] = np.arange(200) % 2
    y = np.column_stack([x, np.arange(200) % 2])
    same(KMeans(3, init=y[:3]).fit(frame), KMeans(3, init=y[:3]).fit(y))
    frame["word"] = "a"
    with pytest.raises(ValueError, match=r"could not convert string to float: column 'word'"):
        KMeans(3).fit(frame)
    frame = pd.DataFrame({"a": pd.array([1.0, None, 3], "Float64")})
    with pytest.raises(ValueError, match="NaN"):
        KMeans(2).fit(frame)


@pytest.mark.parametrize("panels", [False, True])
def test_arrow(rows, panels, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    if panels:
        monkeypatch.setattr(_rows, "PANEL_BYTES", 0)
    x = rows(200, 3)
    expected = KMeans(3, init=x[:3]).fit(x)
    table = pa.table({name: x[:, j] for j, name in enumerate("abc")})
    km = KMeans(3, init=x[:3]).fit(pa.concat_tables([table[:50], table[50:]]))
    same(km, expected)
    same(KMeans(3, init=x[:3]).fit(table.to_batches()[0]), expected)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 3)
    same(KMeans(3, init=x[:3]).fit(pa.table({"embedding": lists})), expected)
    rows_ = _rows.take(pa.table({"embedding": lists}), "KMeans")
    assert rows_.view.data == lists.values.buffers()[1].address
    with pytest.raises(ValueError, match="could not convert string"):
        KMeans(3).fit(pa.table({"a": ["x", "y", "z"]}))


def test_polars(rows):
    pl = pytest.importorskip("polars")
    x = rows(200, 3)
    frame = pl.DataFrame({name: x[:, j] for j, name in enumerate("abc")})
    km = KMeans(3, init=x[:3]).fit(frame)
    same(km, KMeans(3, init=x[:3]).fit(x))
    assert list(km.feature_names_in_) == ["a", "b", "c"]


# ---- what cannot be taken


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        ([[1, 2], [3]], ValueError, "rows of equal length"),
        ([1.0, 2, 3], ValueError, "Expected 2D array, got 1D array"),
        (5.0, ValueError, "Expected 2D array, got scalar"),
        (np.zeros((3, 2, 2)), ValueError, "dim 3"),
        (np.zeros((0, 3)), ValueError, r"0 sample\(s\)"),
        (np.zeros((3, 0)), ValueError, r"0 feature\(s\)"),
        (np.zeros((3, 2), complex), ValueError, "Complex data not supported"),
        (np.array([["a", "b"], ["c", "d"]]), ValueError, "strings"),
        (np.array([[{}, 1], [2, 3]], object), TypeError, "dict"),
        (np.array([["x", 1], [2, 3]], object), ValueError, "x"),
        (np.array([[np.nan, 1], [2, 3]]), ValueError, "row 0, column 0.*NaN"),
        (np.array([[1, 1], [2, np.inf]], "f4"), ValueError, "row 1, column 1.*infinite"),
        (np.ma.masked_array([[1.0, 2], [3, 4]], [[0, 1], [0, 0]]), ValueError, "NaN.*mask"),
        (np.zeros((3, 2), "M8[s]"), ValueError, "numbers"),
        (np.asmatrix(np.zeros((3, 2))), TypeError, "np.matrix"),
        (None, ValueError, "2D"),
        ("text", ValueError, "2D|strings"),
    ],
)
def test_refused(x, error, text):
    with pytest.raises(error, match=text):
        KMeans(1).fit(x)


def test_refused_tables():
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        KMeans(1).fit(pd.DataFrame(index=range(3)))
    with pytest.raises(ValueError, match=r"row 1, column 0.*NaN"):
        KMeans(1).fit(pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [1.0, 2]}))


def test_damaged_sparse():
    """An index beyond the columns is refused before SciPy writes there."""
    sparse = pytest.importorskip("scipy.sparse")
    m = sparse.csr_matrix(np.eye(4))
    m.indices = np.array([0, 1, 77, 3], "i4")
    with pytest.raises(ValueError, match="damaged"):
        KMeans(2).fit(m)


def test_weights(rows):
    x = rows(20, 2)
    w = np.arange(20.0)
    a = KMeans(2, init=x[:2]).fit(x, sample_weight=w)
    for other in (w.tolist(), w.astype("f4"), w.astype("i4"), np.repeat(w, 2)[::2]):
        same(KMeans(2, init=x[:2]).fit(x, sample_weight=other), a)
    KMeans(2, init=x[:2]).fit(x, sample_weight=2.0)
    for bad, text in (
        (w[:5], r"sample_weight.shape == \(5,\), expected \(20,\)"),
        (np.zeros(20), "zero"),
        (w - 9, "negative"),
        (np.full(20, np.nan), "finite"),
        (np.ones((20, 1)), "1D array or scalar"),
        (["a"] * 20, "string"),
    ):
        with pytest.raises(ValueError, match=text):
            KMeans(2).fit(x, sample_weight=bad)


def test_errors_have_one_base():
    with pytest.raises(errors.HoldfastError):
        KMeans(3).fit(np.zeros((2, 2)))


def test_rows_of_other_types_are_not_cut_off():
    whole, parts = np.zeros((3, 2), np.uint8), np.full((3, 2), 1.5)
    rows = np.vstack([whole, parts])

    def fit(source):
        return np.sort(KMeans(2, random_state=0).fit(source).cluster_centers_[:, 0]).tolist()

    class Reader:
        shape = (6, 2)

        def read(self, first, count):
            return (whole if first + count <= 3 else rows)[first : first + count]

    assert fit(holdfast.source(lambda: iter([whole, parts]))) == [0, 1.5]
    assert fit(holdfast.source(Reader(), dtype="f8")) == [0, 1.5]
    with pytest.raises(ValueError, match="source of uint8 gave rows of float64"):
        fit(Reader())
    with pytest.raises(ValueError, match="source of uint8 gave rows of int64"):
        fit(holdfast.source(lambda: iter([np.array([[1, 2], [300, 4]])]), dtype="u1"))
    with pytest.raises(ValueError, match="source of bfloat16 gave rows of float64"):
        fit(holdfast.source(lambda: iter([parts]), shape=(3, 2), dtype="bfloat16"))
    with pytest.raises(ValueError, match=r"chunk of shape \(3, 1\) at row 0: 2 columns"):
        fit(holdfast.source(lambda: iter([parts[:, :1]]), shape=(3, 2), dtype="f8"))


def test_an_iterator_is_a_source():
    rows = np.arange(20.0).reshape(10, 2)
    km = KMeans(2, random_state=0).fit(rows[i : i + 5] for i in (0, 5))
    assert np.array_equal(km.labels_, KMeans(2, random_state=0).fit(rows).labels_)
    assert np.array_equal(km.predict(iter([rows])), km.labels_)
    with pytest.raises(ValueError, match="an iterator must give arrays of several rows"):
        km.fit(iter(rows))

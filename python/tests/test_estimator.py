# SPDX-License-Identifier: Apache-2.0
"""KMeans as an estimator: parameters, attributes, conventions, results."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import holdfast
from holdfast import KMeans, errors

sklearn = pytest.importorskip("sklearn")
cluster = pytest.importorskip("sklearn.cluster")

# What scikit-learn's own KMeans fails too: rows of integer weight draw other random numbers.
FAIL_THERE_TOO = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}
NEED_MORE = {  # SCIPY_ARRAY_API=1, and pandas
    "check_array_api_input",
    "check_dataframe_column_names_consistency",
}


def test_check_estimator():
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(KMeans(), on_fail=None, on_skip=None)
    names = {
        status: {r["check_name"] for r in results if r["status"] == status}
        for status in ("failed", "skipped")
    }
    assert names["failed"] <= FAIL_THERE_TOO
    assert names["skipped"] <= NEED_MORE
    assert len(results) == 59 or not sklearn.__version__.startswith("1.9")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("tol", [1e-4, 0])
@pytest.mark.parametrize("weighted", [False, True])
def test_same_as_sklearn(rows, dtype, tol, weighted):
    x = rows(2000, 7, dtype)
    w = np.random.default_rng(1).uniform(0.5, 2, 2000) if weighted else None
    start = x[:20].copy()
    ours = KMeans(20, init=start, tol=tol).fit(x, sample_weight=w)
    theirs = cluster.KMeans(20, init=start, tol=tol).fit(x, sample_weight=w)
    assert ours.n_iter_ == theirs.n_iter_
    assert np.array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-4, atol=1e-5)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-5)
    assert ours.labels_.dtype == theirs.labels_.dtype
    assert ours.cluster_centers_.dtype == theirs.cluster_centers_.dtype
    y = rows(50, 7, dtype, seed=3)
    assert np.array_equal(ours.predict(y), theirs.predict(y))
    np.testing.assert_allclose(ours.transform(y), theirs.transform(y), rtol=1e-4)
    assert ours.transform(y).dtype == theirs.transform(y).dtype
    assert ours.score(y) == pytest.approx(theirs.score(y), rel=1e-5)
    assert ours.score(x, sample_weight=w) == pytest.approx(-ours.inertia_, rel=1e-6)


def test_parameters_are_sklearns():
    theirs = cluster.KMeans().get_params()
    ours = KMeans().get_params()
    assert {name: ours[name] for name in theirs} == theirs


def test_weight_two_is_the_row_twice(rows):
    x = rows(400, 3)
    w = np.random.default_rng(2).integers(0, 4, 400)
    w[:5] = 1
    a = KMeans(5, init=x[:5]).fit(x, sample_weight=w)
    b = KMeans(5, init=x[:5]).fit(np.repeat(x, w, axis=0))
    assert np.array_equal(a.cluster_centers_, b.cluster_centers_)
    assert np.array_equal(np.repeat(a.labels_, w), b.labels_)
    assert a.inertia_ == b.inertia_


def test_random_state(rows):
    x = rows(300, 4)
    fits = [KMeans(6, random_state=3).fit(x) for _ in range(2)]
    assert np.array_equal(fits[0].cluster_centers_, fits[1].cluster_centers_)
    np.random.seed(5)
    a = KMeans(6).fit(x).inertia_
    np.random.seed(5)
    assert KMeans(6).fit(x).inertia_ == a
    for state in (np.random.RandomState(1), np.random.default_rng(1), np.int64(4)):
        assert KMeans(3, random_state=state).fit(x).inertia_ > 0
    with pytest.raises(ValueError, match="random_state"):
        KMeans(3, random_state="x").fit(x)


def test_what_changes_between_fits_counts(rows):
    x = rows(300, 4)
    start = x[:3].copy()
    km = KMeans(3, init=start, max_iter=2, tol=0).fit(x)
    for change in (
        lambda: start.__setitem__(slice(None), x[90:93]),
        lambda: km.set_params(max_iter=7, metric="dot"),
        lambda: setattr(km, "guard", "off"),
        lambda: setattr(km, "init", "random"),
        lambda: setattr(km, "random_state", 5),
        lambda: setattr(km, "random_state", np.int64(6)),
        lambda: setattr(km, "init", x[:3]),
        lambda: setattr(km, "init", start),
    ):
        change()
        np.random.seed(0)
        found = km.fit(x).cluster_centers_
        np.random.seed(0)
        again = KMeans(**km.get_params()).fit(x)
        assert np.array_equal(found, again.cluster_centers_)
        assert km.report_["guard"]["scheme"] == again.report_["guard"]["scheme"]
    start.resize((4, 3), refcheck=False)  # the same memory in another shape
    with pytest.raises(ValueError, match="shape of the initial centers"):
        km.fit(x)
    km.set_params(n_clusters=0)
    with pytest.raises(ValueError, match="n_clusters"):
        km.fit(x)


@pytest.mark.parametrize("init", ["k-means++", "random", "k-means||"])
def test_starts(blobs, init):
    km = KMeans(3, init=init, n_init=5, random_state=0).fit(blobs)
    assert sorted(np.bincount(km.labels_)) == [100, 100, 100]


def test_callable_start(blobs):
    calls = []

    def init(x, k, random_state):
        calls.append(x is blobs)
        return x[random_state.permutation(len(x))[:k]]

    km = KMeans(3, init=init, random_state=0).fit(blobs)
    assert calls == [True] * 10
    assert sorted(np.bincount(km.labels_)) == [100, 100, 100]
    assert 0 <= km.report_["restart"] < 10
    with pytest.raises(ZeroDivisionError):
        KMeans(3, init=lambda *a, **k: 1 / 0).fit(blobs)


def test_kmeans_plusplus_weights(rows):
    """The starts know sample weights: a row of weight 0 is not chosen."""
    x = rows(100, 5, np.float64)
    w = np.random.default_rng(0).uniform(size=100)
    plain, _ = holdfast.kmeans_plusplus(x, 5, random_state=0)
    weighted, _ = holdfast.kmeans_plusplus(x, 5, random_state=0, sample_weight=w)
    assert not np.array_equal(plain, weighted)
    w[::2] = 0
    centers, indices = holdfast.kmeans_plusplus(x, 10, random_state=0, sample_weight=w)
    assert (indices % 2 == 1).all()
    assert np.array_equal(x[indices], centers)


def test_kmeans_plusplus_of_equal_rows():
    x = np.array([[0.0], [1], [1], [0]])
    centers, indices = holdfast.kmeans_plusplus(x, 4, random_state=0)
    assert np.array_equal(x[indices], centers)
    with pytest.raises(errors.UnsupportedError, match="n_local_trials"):
        holdfast.kmeans_plusplus(x, 2, n_local_trials=7)


def test_metrics(rows):
    x = rows(500, 6)
    km = KMeans(4, metric="cosine", random_state=0).fit(x)
    np.testing.assert_allclose(np.linalg.norm(km.cluster_centers_, axis=1), 1, rtol=1e-6)
    similar = x / np.linalg.norm(x, axis=1, keepdims=True) @ km.cluster_centers_.T
    assert np.array_equal(km.predict(x), similar.argmax(axis=1))
    np.testing.assert_allclose(km.transform(x), 1 - similar, atol=1e-5)
    dot = KMeans(4, metric="dot", random_state=0, max_iter=3).fit(x)
    assert np.array_equal(dot.predict(x), (x @ dot.cluster_centers_.T).argmax(axis=1))


def test_our_parameters(rows):
    x = rows(500, 6, np.float16)
    km = KMeans(4, init=x[:4].astype("f4"), centroids="same").fit(x)
    assert np.array_equal(km.cluster_centers_, km.cluster_centers_.astype(np.float16))
    assert KMeans(4, precision="fast", random_state=0).fit(x).inertia_ > 0
    assert KMeans(4, memory_limit="64MiB", device="cpu").fit(x).report_["device"] == "cpu"
    with pytest.raises(ValueError, match="memory"):
        KMeans(4, memory_limit="lots").fit(x)
    far = np.full((1, 6), 99, "f4")
    start = np.concatenate([x[:3].astype("f4"), far])
    with pytest.raises(errors.DataError):
        KMeans(4, init=start, empty="error").fit(x)
    with pytest.warns(Warning, match="distinct clusters"):
        kept = KMeans(4, init=start, empty="keep").fit(x)
    assert np.array_equal(kept.cluster_centers_[3], far[0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clusters", 0),
        ("progress", 3),
        ("n_clusters", 2.5),
        ("max_iter", 0),
        ("tol", -1),
        ("n_init", "many"),
        ("init", "best"),
        ("init", 3),
        ("algorithm", "full"),
        ("metric", "l1"),
        ("precision", 1),
        ("centroids", "f8"),
        ("empty", "drop"),
        ("output", "torch"),
        ("device", None),
        ("verbose", "no"),
        ("copy_x", "yes"),
        ("device", "cpu\0"),
        ("memory_limit", -1),
        ("memory_limit", "-5MB"),
        ("memory_limit", "1e30T"),
    ],
)
def test_bad_parameters(blobs, name, value):
    with pytest.raises(ValueError, match=name):
        KMeans().set_params(**{name: value}).fit(blobs)


def test_unknown_device(blobs):
    with pytest.raises((ValueError, errors.UnsupportedError), match="gpu7"):
        KMeans(device="gpu7").fit(blobs)


def test_not_fitted(blobs):
    from sklearn.exceptions import NotFittedError

    for call in (KMeans().predict, KMeans().transform, KMeans().score):
        with pytest.raises(NotFittedError, match="not fitted"):
            call(blobs)


def test_pickle(blobs):
    import copy

    km = KMeans(3, random_state=0).fit(blobs)
    for other in (pickle.loads(pickle.dumps(km)), copy.deepcopy(km)):
        assert np.array_equal(other.predict(blobs), km.labels_)
        assert other.report_["iterations"] == km.n_iter_


def test_pickle_of_an_earlier_version(blobs):
    """Parameters that it did not have get their defaults."""
    km = KMeans(3, random_state=0).fit(blobs)
    state = {k: v for k, v in km.__getstate__().items() if k not in ("guard", "output", "empty")}
    old = KMeans.__new__(KMeans)
    old.__setstate__(state)
    assert np.array_equal(old.predict(blobs), km.labels_)
    assert old.get_params() == km.get_params()
    assert np.array_equal(old.fit(blobs).labels_, km.labels_)


def test_set_output_and_names(blobs):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(blobs, columns=list("abcd"))
    km = KMeans(3, random_state=0).set_output(transform="pandas").fit(frame)
    assert list(km.feature_names_in_) == list("abcd")
    assert list(km.transform(frame).columns) == ["kmeans0", "kmeans1", "kmeans2"]
    with pytest.raises(ValueError, match="feature names"):
        km.predict(frame[list("dcba")])
    with pytest.warns(UserWarning, match="valid feature names"):
        km.predict(blobs)


def test_metadata_routing(blobs):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    weights = np.ones(len(blobs))
    weights[:100] = 1e-6
    with sklearn.config_context(enable_metadata_routing=True):
        km = KMeans(1).set_fit_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipe = make_pipeline(scaler, km).fit(blobs, sample_weight=weights)
    scaled = pipe[0].transform(blobs)
    np.testing.assert_allclose(pipe[-1].cluster_centers_[0], scaled[100:].mean(axis=0), atol=1e-5)


def test_search(blobs):
    from sklearn.model_selection import GridSearchCV

    search = GridSearchCV(KMeans(random_state=0), {"n_clusters": [1, 2, 3]}, cv=3).fit(blobs)
    assert search.best_params_ == {"n_clusters": 3}
    with pytest.raises(ValueError, match="Invalid parameter"):
        KMeans().set_params(nclusters=3)


def test_html(blobs):
    text = KMeans(3).fit(blobs)._repr_mimebundle_()["text/html"]
    assert "KMeans" in text


def test_verbose(blobs, capsys):
    KMeans(3, verbose=1, random_state=0).fit(blobs)
    out = capsys.readouterr().out
    assert "Initialization complete" in out
    assert "Iteration 0, inertia" in out
    assert "Converged at iteration" in out


def test_report(blobs):
    km = KMeans(3, random_state=0).fit(blobs)
    r = km.report_
    assert len(r["history"]) == km.n_iter_ == r["iterations"]
    assert r["sizes"].sum() == 300
    assert r["history"]["inertia"][-1] == pytest.approx(km.inertia_)
    assert r["kernels"]["assign"]
    assert r["seconds"]["total"] > 0
    assert r["guard"]["scheme"] == "correct"
    assert r["guard"]["checked"] > 300
    assert r["guard"]["confirmed"] == r["guard"]["repaired"] == 0
    assert "rows" in r["guard"]["checks"] + r["guard"]["not_made"]
    off = KMeans(3, random_state=0, guard="off").fit(blobs).report_["guard"]
    assert off["scheme"] == "off"


def test_messages_are_in_names_of_python(blobs):
    with pytest.raises(ValueError, match="centroids='same' needs f16 or bf16 data"):
        KMeans(3, centroids="same").fit(blobs)
    with pytest.raises(ValueError, match="memory_limit is 10"):
        KMeans(3, memory_limit=10).fit(blobs)


def test_wrong_number_of_columns(blobs):
    km = KMeans(3).fit(blobs)
    with pytest.raises(ValueError, match="X has 2 features, but KMeans is expecting 4"):
        km.predict(blobs[:, :2])


# ---- scikit-learn is joined only where the program uses it

ALONE = """
import sys
from holdfast import KMeans
import numpy as np
x = np.random.default_rng(0).normal(size=(50, 3))
km = KMeans(2, random_state=0).fit(x)
km.predict(x); km.transform(x); km.score(x); repr(km); km.get_params(); km.set_params(tol=0)
others = ("sklearn", "torch", "cupy", "pandas", "matplotlib", "scipy")
loaded = [m for m in others if m in sys.modules]
assert not loaded, loaded
print(repr(km))
"""
LATER = """
from holdfast import KMeans
class Mine(KMeans):
    def transform(self, X):
        return super().transform(X)
km, mine = KMeans(2), Mine(2)
from sklearn.base import BaseEstimator, clone, is_clusterer
from sklearn.utils import get_tags
assert is_clusterer(km) and get_tags(km).input_tags.sparse
assert isinstance(km, BaseEstimator) and isinstance(mine, BaseEstimator)
assert clone(km).get_params() == km.get_params()
import numpy as np
x = np.random.default_rng(0).normal(size=(50, 3))
mine.set_output(transform="default").fit(x)
assert list(mine.get_feature_names_out()) == ["mine0", "mine1"]
assert hasattr(mine, "set_fit_request")
"""


@pytest.mark.parametrize("program", [ALONE, LATER])
def test_joins_sklearn_late(program):
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    if program is ALONE:
        assert run.stdout == "KMeans(n_clusters=2, tol=0, random_state=0)\n"


def test_without_sklearn():
    program = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import numpy as np\nfrom holdfast import KMeans, errors\n"
        "x = np.arange(20.).reshape(10, 2)\n"
        "KMeans(2).fit(x)\n"
        "for call in (lambda: KMeans(2).set_output(transform='pandas'), "
        "lambda: KMeans(2).predict(x)):\n"
        "    try: call()\n    except errors.HoldfastError as e: print(type(e).__name__)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.stdout.split() == ["UnsupportedError", "_NotFittedPlain"], run.stderr


def test_import_is_cheap():
    """CPU time, which other work on the machine disturbs less than the clock."""
    program = (
        "import numpy, time; a = time.process_time(); import holdfast; "
        "print(time.process_time() - a)"
    )
    times = [
        float(
            subprocess.run(
                [sys.executable, "-c", program], capture_output=True, text=True, check=True
            ).stdout
        )
        for _ in range(3)
    ]
    assert min(times) < 0.06

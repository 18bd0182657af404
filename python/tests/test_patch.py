# SPDX-License-Identifier: Apache-2.0
"""holdfast in the place of scikit-learn's k-means: unmodified scripts, and what falls back."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn")
SCRIPTS = sorted((pathlib.Path(__file__).parent / "scripts").glob("*.py"))


def run(*arguments, **environment):
    out = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert out.returncode == 0, out.stderr
    return out


def figures(text):
    return [float(word) for word in re.findall(r"result \S+ ([-\d.e+]+)", text)]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_script(script):
    """The same figures as by scikit-learn, within its tolerance, and holdfast ran."""
    theirs = run(script)
    ours = run("-m", "holdfast", script, HOLDFAST_LOG="info")
    assert "KMeans.fit" in ours.stderr
    assert figures(theirs.stdout)
    np.testing.assert_allclose(figures(ours.stdout), figures(theirs.stdout), rtol=1e-4)


def test_fallback():
    program = (
        "import holdfast; holdfast.patch_sklearn(); holdfast.patch_sklearn()\n"
        "import numpy as np, pickle\n"
        "from sklearn.cluster import KMeans, kmeans_plusplus, k_means\n"
        "from sklearn.base import clone\n"
        "x = np.random.RandomState(0).normal(size=(60, 3)); w = np.ones(60); w[0] = -1e-9\n"
        "km = clone(KMeans(3, init=x[:3], n_init=1)).fit(x, sample_weight=w)\n"
        "assert (km.predict(x) == km.labels_).all() and km.score(x, sample_weight=w) < 0\n"
        "assert pickle.loads(pickle.dumps(km)).inertia_ == km.inertia_\n"
        "c, i = kmeans_plusplus(x, 4, n_local_trials=9, random_state=0)\n"
        "assert (c == x[i]).all() and len(k_means(x, 3)) == 3\n"
        "assert 'metric' not in KMeans().get_params()\n"
        "holdfast.unpatch_sklearn()\n"
        "from sklearn.cluster import KMeans\n"
        "assert not issubclass(KMeans, holdfast.KMeans)\n"
    )
    err = run("-c", program, HOLDFAST_LOG="info").stderr
    assert "KMeans.fit: by scikit-learn" in err
    assert "kmeans_plusplus: by scikit-learn: n_local_trials=9" in err
    assert "KMeans.predict: 60 x 3 float64" in err


def test_each_call_has_a_line():
    program = "import holdfast, numpy as np; holdfast.KMeans(2).fit(np.eye(4)).{}(np.eye(4))"
    for method in ("predict", "transform", "score"):
        lines = run("-c", program.format(method), HOLDFAST_LOG="info").stderr.splitlines()
        assert [line.split(":")[1] for line in lines] == [" KMeans.fit", f" KMeans.{method}"]


def test_module_and_arguments(tmp_path):
    (tmp_path / "tool.py").write_text(
        "import sys; from sklearn.cluster import KMeans\n"
        "print(__name__, sys.argv[1:], KMeans.__mro__[1].__module__)\n"
    )
    expected = "__main__ ['-x', '1'] holdfast.kmeans\n"
    assert run("-m", "holdfast", tmp_path / "tool.py", "-x", "1").stdout == expected
    out = subprocess.run(
        [sys.executable, "-m", "holdfast", "-m", "tool", "-x", "1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.stdout == expected, out.stderr


def test_without_sklearn(tmp_path):
    """A message, not a traceback."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['sklearn'] = None\n")
    (tmp_path / "script.py").write_text("print(1)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    out = subprocess.run(
        [sys.executable, "-m", "holdfast", tmp_path / "script.py"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert out.returncode == 1
    assert "pip install scikit-learn" in out.stderr
    assert "Traceback" not in out.stderr


def test_usage():
    assert "usage" in run("-m", "holdfast", "--help").stdout
    for what, said in (
        (["nothing.py"], "no file nothing.py"),
        (["-m", "nothing"], "no module nothing"),
        (["-m", "nothing.inside"], "no module nothing.inside"),
    ):
        out = subprocess.run(
            [sys.executable, "-m", "holdfast", *what], capture_output=True, text=True, check=False
        )
        assert out.returncode == 1
        assert said in out.stderr
        assert "Traceback" not in out.stderr


LOAD = """
import pickle, sys, warnings
warnings.simplefilter("error")
km = pickle.load(open(sys.argv[1], "rb"))
print(type(km).__mro__[1].__module__, km.predict([[0.0, 0.0]]).shape)
"""


def test_pickled_elsewhere(tmp_path):
    """An estimator made under the patch works in a process without it, and after the patch."""
    path = tmp_path / "km.pickle"
    made = (
        "import holdfast, numpy as np, pickle, copy, sys\n"
        "holdfast.patch_sklearn()\n"
        "from sklearn.cluster import KMeans\n"
        "km = KMeans(3, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 2)))\n"
        "holdfast.unpatch_sklearn()\n"
        "assert copy.deepcopy(km).inertia_ == km.inertia_\n"
        "pickle.dump(km, open(sys.argv[1], 'wb'))\n"
    )
    run("-c", made, path)
    assert run("-c", LOAD, path).stdout.split()[0] == "holdfast.kmeans"


def test_workers(tmp_path):
    """Processes of a grid search run holdfast, too."""
    program = tmp_path / "grid.py"
    program.write_text(
        "import numpy as np\n"
        "from sklearn.cluster import KMeans\n"
        "from sklearn.model_selection import GridSearchCV\n"
        "if __name__ == '__main__':\n"
        "    x = np.random.default_rng(0).normal(size=(90, 2))\n"
        "    g = GridSearchCV(KMeans(random_state=0), {'n_clusters': [2, 3]}, n_jobs=2, cv=2).fit(x)\n"
        "    print(type(g.best_estimator_).__mro__[1].__module__)\n"
    )
    out = run("-m", "holdfast", program, HOLDFAST_LOG="info")
    assert out.stdout.split() == ["holdfast.kmeans"]
    assert out.stderr.count("KMeans.fit") == 5 and "Warning" not in out.stderr

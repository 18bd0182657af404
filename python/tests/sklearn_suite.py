# SPDX-License-Identifier: Apache-2.0
"""Run scikit-learn's own tests of k-means on holdfast: python python/tests/sklearn_suite.py.

The file is the one of the scikit-learn that is installed; its imports of ``KMeans``, ``k_means``
and ``kmeans_plusplus`` are replaced. ``LEFT_OUT`` names what is not about these three.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

PRIVATE = "tests private helpers of scikit-learn, not KMeans"
MINIBATCH = "is about MiniBatchKMeans"
LEFT_OUT = {
    "test_relocate_empty_clusters": PRIVATE + ": _relocate_empty_clusters_dense, _sparse",
    "test_minibatch_update_consistency": MINIBATCH,
    "test_minibatch_kmeans_partial_fit_init": MINIBATCH,
    "test_minibatch_kmeans_verbose": MINIBATCH,
    "test_minibatch_kmeans_warning_init_size": MINIBATCH,
    "test_minibatch_sensible_reassign": MINIBATCH,
    "test_minibatch_reassign": MINIBATCH,
    "test_minibatch_with_many_reassignments": MINIBATCH,
    "test_minibatch_kmeans_init_size": MINIBATCH,
    "test_minibatch_declared_convergence": MINIBATCH,
    "test_minibatch_iter_steps": MINIBATCH,
    "test_euclidean_distance": PRIVATE + ": _euclidean_dense_dense_wrapper, _sparse",
    "test_inertia": PRIVATE + ": _inertia_dense, _inertia_sparse",
    "test_is_same_clustering": PRIVATE + ": _is_same_clustering",
    "test_sample_weight_init": PRIVATE + ": _init_centroids; test_estimator.py has the same of "
    "kmeans_plusplus and KMeans",
    "test_sample_weight_zero": PRIVATE + ": _init_centroids; likewise",
}
OLD = "from sklearn.cluster import KMeans, MiniBatchKMeans, k_means, kmeans_plusplus\n"
NEW = (
    "from sklearn.cluster import MiniBatchKMeans\n"
    "from holdfast import KMeans, k_means, kmeans_plusplus\n"
)
PLUGIN = """
def pytest_collection_modifyitems(config, items):
    left, out = [], []
    for item in items:
        name = item.originalname or item.name
        gone = name in {names!r} or "MiniBatch" in item.nodeid.partition("[")[2]
        (out if gone else left).append(item)
    config.hook.pytest_deselected(items=out)
    items[:] = left
"""


def main():
    """Exit status of pytest."""
    import sklearn.cluster.tests

    source = pathlib.Path(sklearn.cluster.tests.__path__[0], "test_k_means.py")
    text = source.read_text()
    if OLD not in text:
        sys.exit(f"{source}: its imports are not those known here: adapt OLD in {__file__}")
    for name, reason in LEFT_OUT.items():
        if f"def {name}(" not in text:
            sys.exit(f"{source} has no {name} any more: take it from LEFT_OUT")
        print(f"left out: {name}: {reason}")
    print(f"left out: the cases of others that have MiniBatchKMeans as a parameter: {MINIBATCH}")
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "test_k_means.py").write_text(text.replace(OLD, NEW))
        pathlib.Path(folder, "leave_out.py").write_text(PLUGIN.format(names=set(LEFT_OUT)))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "sklearn.conftest",
            "-p",
            "leave_out",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            folder,
            "test_k_means.py",
            *sys.argv[1:],
        ]
        environment = dict(os.environ, SKLEARN_RUN_FLOAT32_TESTS="1")
        environment["PYTHONPATH"] = f"{folder}:{environment.get('PYTHONPATH', '')}"
        return subprocess.run(command, cwd=folder, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

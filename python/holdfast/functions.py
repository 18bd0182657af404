# SPDX-License-Identifier: Apache-2.0
"""The function forms."""

from __future__ import annotations

import ctypes as C
from typing import Any

import numpy as np

from . import _abi, _call, _log, _params, _rows, errors
from .kmeans import KMeans


def k_means(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    init: Any = "k-means++",
    n_init: Any = "auto",
    max_iter: int = 300,
    verbose: int = False,
    tol: float = 1e-4,
    random_state: Any = None,
    copy_x: bool = True,
    algorithm: str = "lloyd",
    return_n_iter: bool = False,
    **ours: Any,
) -> Any:
    """Cluster rows: :class:`KMeans` as a function.

    Parameters
    ----------
    X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
        The rows.
    n_clusters : int
        Clusters.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    init, n_init, max_iter, verbose, tol, random_state, copy_x, algorithm
        See :class:`KMeans`.
    return_n_iter : bool, default=False
        Return the number of iterations too.
    **ours
        Further parameters of :class:`KMeans`, such as `metric` and `device`.

    Returns
    -------
    centroid : ndarray of shape (n_clusters, n_features)
        Centroids.
    label : ndarray of shape (n_samples,)
        The nearest of them for each row.
    inertia : float
        Sum of weight times distance.
    best_n_iter : int
        Iterations, only with `return_n_iter`.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import k_means
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> centroid, label, inertia = k_means(X, n_clusters=2, random_state=0)
    >>> inertia
    16.0
    """
    if not isinstance(return_n_iter, (bool, np.bool_)):
        raise _params.refuse("return_n_iter", "a bool", return_n_iter, "k_means")
    est = KMeans(
        n_clusters=n_clusters,
        init=init,
        n_init=n_init,
        max_iter=max_iter,
        verbose=verbose,
        tol=tol,
        random_state=random_state,
        copy_x=copy_x,
        algorithm=algorithm,
        **ours,
    ).fit(X, sample_weight=sample_weight)
    result = (est.cluster_centers_, est.labels_, est.inertia_)
    return (*result, est.n_iter_) if return_n_iter else result


def kmeans_plusplus(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    x_squared_norms: Any = None,
    random_state: Any = None,
    n_local_trials: int | None = None,
) -> tuple[Any, np.ndarray[Any, Any]]:
    """Choose rows as first centroids by greedy k-means++.

    Parameters
    ----------
    X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
        The rows.
    n_clusters : int
        How many to choose.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows.
    x_squared_norms : array-like of shape (n_samples,), default=None
        Not needed; its length is checked.
    random_state : int, RandomState, Generator or None, default=None
        Seed.
    n_local_trials : int, default=None
        Candidates of a step; None: 2 + log(n_clusters). Other numbers are left to scikit-learn.

    Returns
    -------
    centers : ndarray of shape (n_clusters, n_features)
        The rows chosen.
    indices : ndarray of shape (n_clusters,)
        Their numbers; of equal rows the first.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import kmeans_plusplus
    >>> X = np.array([[1., 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> centers, indices = kmeans_plusplus(X, n_clusters=2, random_state=0)
    >>> bool((X[indices] == centers).all())
    True
    """
    owner = "kmeans_plusplus"
    _params.at_least("n_clusters", 1, n_clusters)
    if n_local_trials is not None:
        _params.at_least("n_local_trials", 1, n_local_trials)
        if n_local_trials != 2 + int(np.log(n_clusters)):
            raise errors.UnsupportedError(
                f"n_local_trials={n_local_trials}: only the default, 2 + log(n_clusters), is there"
            )
    rows = _rows.take(X, owner)
    if rows.n < n_clusters:
        raise errors.InvalidArgumentError(
            f"n_samples={rows.n} should be >= n_clusters={n_clusters}."
        )
    if x_squared_norms is not None and len(x_squared_norms) != rows.n:
        raise errors.InvalidArgumentError(
            f"The length of x_squared_norms {len(x_squared_norms)} should be equal to the length "
            f"of n_samples {rows.n}."
        )
    weights = _rows.weights(sample_weight, rows.n)
    opts = _abi.KMeansOpts(k=n_clusters, seed=_params.seed(random_state))
    place = ("auto", 0)
    if weights is not None:
        opts.weights = C.pointer(weights[0])
        place = _rows.beside(weights, place)
    centers = _call.seeds(rows, opts, place)
    _log.line(f"{owner}: {rows.n} x {rows.d}, K={n_clusters}")
    return centers.astype(_kind(rows), copy=False), _numbers(rows, centers, place)


def _kind(rows: _rows.Rows) -> Any:
    """The type of the rows where NumPy has it, for they are rows."""
    given = getattr(rows.original, "dtype", None)
    if isinstance(given, np.dtype) and given.kind in "iuf":
        return given
    return np.float64 if rows.code == 2 else np.float32


def _numbers(rows: _rows.Rows, centers: np.ndarray[Any, Any], place: tuple[str, int]) -> Any:
    """The first row that is equal to each centroid."""
    distances = np.empty(rows.n, np.float64)
    labels, _ = _call.predict(rows, centers, (0, 0), place, distances=distances)
    zero = np.flatnonzero(distances == 0)
    indices = np.full(len(centers), -1)
    found, first = np.unique(labels[zero], return_index=True)
    indices[found] = zero[first]
    if (indices < 0).any():  # equal rows were chosen: the least centroid has the label
        _, same, back = np.unique(centers, axis=0, return_index=True, return_inverse=True)
        indices = indices[same[back.reshape(-1)]]
    return indices

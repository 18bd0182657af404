# SPDX-License-Identifier: Apache-2.0
"""The estimator."""

from __future__ import annotations

import ctypes as C
import inspect
import warnings
from typing import Any

import numpy as np

from . import _abi, _call, _log, _params, _progress, _rows, errors
from ._estimator import Estimator, check_names, join
from ._plan import Plan, plan_of

_GIVEN = 3  # HF_INIT_GIVEN


class KMeans(Estimator):
    """K-means clustering: exact, repeatable, on the CPU or a GPU.

    Parameters, attributes and defaults are those of ``sklearn.cluster.KMeans``; those of
    holdfast follow behind them. Labels are exactly those that a float64 evaluation of all
    distances gives, and the same input gives the same bits whatever the number of threads or
    the device.

    Parameters
    ----------
    n_clusters : int, default=8
        Clusters.
    init : {'k-means++', 'random', 'k-means||'}, callable or array-like, default='k-means++'
        Where centroids start: greedy k-means++, distinct rows, or k-means||; an array of shape
        (n_clusters, n_features); or a function of (X, n_clusters, random_state) that returns one.
    n_init : 'auto' or int, default='auto'
        Restarts, of which the one with the least inertia is kept. 'auto' is 10 for 'random' and
        for functions, else 1.
    max_iter : int, default=300
        Iterations of a restart at most.
    tol : float, default=1e-4
        A restart ends when the squared distances that the centroids moved sum up to at most tol
        times the mean variance of the columns; 0: when no label changes.
    verbose : int, default=0
        Print a line for each iteration.
    random_state : int, RandomState, Generator or None, default=None
        Seed of all random choices. An int gives the same result each time.
    copy_x : bool, default=True
        Has no effect: the data are never written to.
    algorithm : {'lloyd', 'elkan'}, default='lloyd'
        Has no effect on results or speed: needless distances are skipped wherever that pays.
    metric : {'euclidean', 'cosine', 'dot'}, default='euclidean'
        Squared Euclidean distance, 1 - cosine (spherical k-means), or the negative inner product.
    precision : {'exact', 'fast'}, default='exact'
        'fast' takes the answer of low-precision arithmetic for rows nearly as near to another
        centroid.
    device : str, default='auto'
        'cpu', 'cuda', 'cuda:1', or 'auto': where the data lie, else where the result is there
        soonest, which it is on the CPU as long as starting a GPU would take longer.
    memory_limit : int, str or None, default=None
        Bytes, or text such as '4GiB', that a call may hold beside data and results; on a GPU, of
        the GPU's memory, rows that are brought there included. None: half of what is free, on a
        GPU nine tenths.
    centroids : {'wide', 'same'}, default='wide'
        Keep centroids in float32 (float64 for float64 data), or in the 16-bit type of the data.
    empty : {'relocate', 'split', 'keep', 'error'}, default='relocate'
        What happens to a cluster that lost all its rows: it moves to the row farthest from its
        centroid as in scikit-learn, takes half of the largest cluster, stays, or ends the fit.
    output : {'numpy', 'like'}, default='numpy'
        'like' gives arrays of the library and the device of the input (torch, CuPy, JAX, Numba);
        those of a fit are made when they are first read.
    guard : {'correct', 'sampled', 'detect', 'weighted', 'off'}, default='correct'
        What a fit does about wrong arithmetic: repair it, likewise with checks of a share of the
        scores, end with an error, protect as FT K-Means does (to compare; on the CPU alone), or look
        only at what costs nothing. A fault that was repaired is a RuntimeWarning.
    progress : callable, tqdm or None, default=None
        Called with a :class:`holdfast.Event` after each iteration, and with iteration 0 while the
        first centroids are chosen; a true value ends the fit, before the first iteration with
        ``holdfast.errors.CancelledError``. A tqdm class, or a bar of it, is advanced.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        Centroids; float64 for float64 and integer data, else float32.
    labels_ : ndarray of shape (n_samples,)
        int32, the nearest of these centroids for each row.
    inertia_ : float
        Sum of weight times distance of the rows to their centroids.
    n_iter_ : int
        Iterations of the restart that was kept.
    n_features_in_ : int
        Columns of the data.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, where the data have them.
    report_ : dict
        What the fit did: history of iterations, seconds, sizes, kernels, memory, device, faults.

    Examples
    --------
    >>> import numpy as np
    >>> from holdfast import KMeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> km = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> bool(km.labels_[0] == km.labels_[1] != km.labels_[3])
    True
    >>> km.inertia_
    16.0
    >>> bool(np.all(km.predict(X) == km.labels_))
    True
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "k-means++",
        n_init: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        verbose: int = 0,
        random_state: Any = None,
        copy_x: bool = True,
        algorithm: str = "lloyd",
        metric: str = "euclidean",
        precision: str = "exact",
        device: str = "auto",
        memory_limit: int | str | None = None,
        centroids: str = "wide",
        empty: str = "relocate",
        output: str = "numpy",
        guard: str = "correct",
        progress: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.copy_x = copy_x
        self.algorithm = algorithm
        self.metric = metric
        self.precision = precision
        self.device = device
        self.memory_limit = memory_limit
        self.centroids = centroids
        self.empty = empty
        self.output = output
        self.guard = guard
        self.progress = progress

    # ---- fit

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KMeans:
        """Cluster rows.

        Parameters
        ----------
        X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
            The rows. C-contiguous float32, float64, float16, bfloat16 and uint8 are used where
            they lie, in host memory or on a GPU; see :func:`holdfast.source` for what is not in
            memory.
        y : Ignored
            Not used, present by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; None: 1 each. Starts take them into account.

        Returns
        -------
        self : KMeans
            The fitted estimator. After KeyboardInterrupt it holds the result so far.
        """
        plan = plan_of(self)
        rows = _rows.take(X, type(self).__name__)
        if not rows.device or "feature_names_in_" in self.__dict__:
            check_names(self, X, reset=True, named=not rows.device)
        if rows.n < self.n_clusters:
            raise errors.InvalidArgumentError(
                f"n_samples={rows.n} should be >= n_clusters={self.n_clusters}."
            )
        like = (rows.like or self._like(rows)) if plan.like else None
        self.n_features_in_ = rows.d
        self._n_init = plan.restarts
        for text in plan.warnings:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        work, watch = plan.work * rows.n * rows.d, None
        if not plan.quiet or work >= _progress.LONG_WORK or rows.source is not None:
            watch = _progress.Watch(self.progress, bool(self.verbose), self.max_iter, work)
        if sample_weight is None and watch is None and plan.serves(self.init, rows.d):
            best = _call.fit(rows, plan.opts, plan.place, None)
        else:
            best = self._run(rows, plan, sample_weight, watch)
        self._keep(best, like)
        if _log.enabled:
            self._log_fit(rows)
        if watch is not None:
            if watch.failure:
                raise watch.failure[0]
            watch.interrupts.deliver()
        return self

    def _run(
        self, rows: _rows.Rows, plan: Plan, sample_weight: Any, watch: _progress.Watch | None
    ) -> _call.Fit:
        """All restarts."""
        opts, place = _abi.KMeansOpts.from_buffer_copy(plan.opts), plan.place
        weights = _rows.weights(sample_weight, rows.n)
        if weights is not None:
            opts.weights = C.pointer(weights[0])
            place = _rows.beside(weights, place)
        try:
            if opts.init != _GIVEN:
                opts.seed = _params.seed(self.random_state)
                return _call.fit(rows, opts, place, watch)
            return self._run_given(rows, opts, place, watch)
        finally:
            if watch is not None:
                watch.close()

    def _run_given(
        self,
        rows: _rows.Rows,
        opts: _abi.KMeansOpts,
        place: tuple[str, int],
        watch: _progress.Watch | None,
    ) -> _call.Fit:
        """All restarts where the caller gives centroids, or a function that does."""
        init = self.init
        state = _params.random_state(self.random_state) if callable(init) else None
        best: _call.Fit | None = None
        for number in range(self._n_init):
            start = init(rows.original, self.n_clusters, random_state=state) if state else init
            centers = self._starting(start, rows)
            opts.centroids = C.pointer(centers.struct)
            if self.verbose:
                print("Initialization complete")
            found = _call.fit(rows, opts, place, watch)
            if best is None or found.r.inertia < best.r.inertia:
                best = found
                best.restart = number
            if found.r.stop == 4:
                break
        assert best is not None
        return best

    def _starting(self, start: Any, rows: _rows.Rows) -> _call.Centers:
        a = _rows.to_host(start)
        if a.dtype.kind not in "biuf":
            a = a.astype(np.float64)
        _rows.check_2d(a.shape, "init", a)
        if a.shape[0] != self.n_clusters:
            raise errors.InvalidArgumentError(
                f"The shape of the initial centers {a.shape} does not match the number of "
                f"clusters {self.n_clusters}."
            )
        if a.shape[1] != rows.d:
            raise errors.InvalidArgumentError(
                f"The shape of the initial centers {a.shape} does not match the number of "
                f"features of the data {rows.d}."
            )
        return _call.Centers(a)

    def _keep(self, best: _call.Fit, like: Any) -> None:
        r = best.r
        self._report, self._fit = None, best
        if self.verbose:
            _progress.print_end(self.report_, self.tol)
        found = r.clusters_found
        if found < self.n_clusters:
            warnings.warn(
                f"Number of distinct clusters ({found}) found smaller than n_clusters "
                f"({self.n_clusters}). Possibly due to duplicate points in X.",
                errors.convergence_warning(),
                stacklevel=3,
            )
        wrong = r.faults.confirmed
        if wrong:
            warnings.warn(
                f"Wrong arithmetic was found {wrong} times, and repaired: report_['guard'] says "
                "more, and `holdfast diagnose` finds the core that is at fault.",
                RuntimeWarning,
                stacklevel=3,
            )
        self._n_features_out = self.n_clusters
        self.inertia_ = r.inertia
        self.n_iter_ = r.iterations
        self._centers_host: tuple[Any, Any, Any] | None = None
        if like is None:
            self.cluster_centers_, self.labels_ = best.centers(), best.labels()
            self._on_host: dict[str, tuple[Any, Any]] = {}
            return
        self.__dict__.pop("cluster_centers_", None)
        self.__dict__.pop("labels_", None)
        self._on_host = {"cluster_centers_": (like, best.centers), "labels_": (like, best.labels)}

    def __getattr__(self, name: str) -> Any:
        """Results go to the device of the rows when they are first asked for."""
        like, make = self.__dict__.get("_on_host", {}).pop(name, (None, None))
        if like is None:
            unfitted = name.endswith("_") and name[:1] != "_" and "n_iter_" not in self.__dict__
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
                f"{': it is not fitted' if unfitted else ''}"
            )
        array = make()
        found = like(array)
        self.__dict__[name] = found
        version = getattr(found, "_version", None)
        if name == "cluster_centers_" and version is not None:
            self._centers_host = (found, version, array)
        return found

    @property
    def report_(self) -> dict[str, Any]:
        """What the fit did; see the attributes of the class."""
        fit = self.__dict__.pop("_fit", None)
        if fit is not None:
            self._report = fit.report()
        report = self.__dict__.get("_report")
        if report is None:
            raise AttributeError  # __getattr__() says more
        return report  # type: ignore[no-any-return]

    def _like(self, rows: _rows.Rows) -> Any:
        """Makes results of the caller's library."""
        if rows.like is None and rows.device:
            raise errors.UnsupportedError(
                "output='like' knows arrays of torch, CuPy, Numba and JAX, not "
                f"{type(rows.original).__name__}: use output='numpy'"
            )
        return rows.like

    def _log_fit(self, rows: _rows.Rows) -> None:
        report = self.report_
        _log.line(
            f"{type(self).__name__}.fit: {rows.n} x {rows.d} {_log.TYPES[rows.code]}, "
            f"K={report['k']}: on {report['device']} ({report['kernels']['assign']}), "
            f"{report['iterations']} iterations, {report['stop']}, "
            f"{1e3 * report['seconds']['total']:.2f} ms"
        )

    def _log_call(self, method: str, rows: _rows.Rows) -> None:
        if _log.enabled:
            _log.line(
                f"{type(self).__name__}.{method}: {rows.n} x {rows.d} {_log.TYPES[rows.code]}"
            )

    # ---- what a fit is used for

    def _centers(self) -> Any:
        """The centroids for a call: of a tensor that nobody changed since, what the fit had on the
        host, since fetching a tensor waits for the device."""
        waiting = self.__dict__.get("_on_host", {}).get("cluster_centers_")
        if waiting is not None and "cluster_centers_" not in self.__dict__:
            return waiting[1]()
        centers = self.cluster_centers_
        kept = self.__dict__.get("_centers_host")
        if kept is not None and kept[0] is centers and kept[1] == centers._version:
            return kept[2]
        return centers

    def _ready(self, X: Any) -> tuple[_rows.Rows, tuple[int, int], tuple[str, int]]:
        """Rows, metric and precision, device and memory limit of a call on fitted centroids."""
        mine, name = self.__dict__, "cluster_centers_"
        if name not in mine and name not in mine.get("_on_host", ()):
            raise errors.not_fitted(type(self).__name__)
        name = type(self).__name__
        rows = _rows.take(X, name)
        check_names(self, X, reset=False, named=not rows.device)
        d = self._centers().shape[1]
        if rows.d != d:
            raise errors.InvalidArgumentError(
                f"X has {rows.d} features, but {name} is expecting {d} features as input."
            )
        how = (
            _params.one_of("metric", _params.METRICS, self.metric),
            _params.one_of("precision", _params.PRECISIONS, self.precision),
        )
        return rows, how, (self.device, _params.memory_bytes(self.memory_limit))

    def predict(self, X: Any) -> Any:
        """The nearest centroid of each row.

        Parameters
        ----------
        X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            int32; a tensor for tensors with ``output='like'``.
        """
        rows, how, place = self._ready(X)
        labels, _ = _call.predict(rows, self._centers(), how, place)
        self._log_call("predict", rows)
        like = self._like(rows) if self.output == "like" else None
        return labels if like is None else like(labels)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the labels.

        Parameters
        ----------
        X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
            The rows.
        y : Ignored
            Not used, present by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            `labels_`.
        """
        return self.fit(X, sample_weight=sample_weight).labels_

    def transform(self, X: Any) -> Any:
        """Distances of the rows to all centroids.

        Parameters
        ----------
        X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_clusters)
            Euclidean distances, or the values of another metric.
        """
        rows, how, place = self._ready(X)
        dtype = np.float64 if rows.code == 2 else np.float32
        out = _call.transform(rows, self._centers(), how, place, dtype)
        self._log_call("transform", rows)
        like = self._like(rows) if self.output == "like" else None
        return out if like is None else like(out)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit, and return the distances of the rows to all centroids.

        Parameters
        ----------
        X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
            The rows.
        y : Ignored
            Not used, present by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        X_new : ndarray of shape (n_samples, n_clusters)
            As from :meth:`transform`.
        """
        return self.fit(X, sample_weight=sample_weight).transform(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The inertia of the rows, with a minus sign.

        Parameters
        ----------
        X : array-like, sparse matrix, table, tensor or source of shape (n_samples, n_features)
            The rows.
        y : Ignored
            Not used, present by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        score : float
            Greater is better.
        """
        rows, how, place = self._ready(X)
        weights = _rows.weights(sample_weight, rows.n)
        if weights is not None:
            place = _rows.beside(weights, place)
        _, inertia = _call.predict(rows, self._centers(), how, place, weights, want_inertia=True)
        self._log_call("score", rows)
        return -inertia

    # ---- conventions

    def __sklearn_tags__(self) -> Any:
        join(load=True)
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Parameters that the version which wrote the state did not have get their defaults."""
        for name, parameter in inspect.signature(KMeans).parameters.items():
            state.setdefault(name, parameter.default)
        self.__dict__.update(state)

    def __getstate__(self) -> dict[str, Any]:
        for name in [*self.__dict__.get("_on_host", ())]:
            getattr(self, name)
        state = self.__dict__.copy()
        state.pop("_planned", None)
        state.pop("_on_host", None)
        state.pop("_centers_host", None)
        if state.pop("_fit", None) is not None:
            state["_report"] = self.report_
        return state

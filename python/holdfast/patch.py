# SPDX-License-Identifier: Apache-2.0
"""holdfast in the place of scikit-learn's own k-means."""

from __future__ import annotations

import sys
from typing import Any

from . import _log, errors, functions
from ._plan import OURS
from .kmeans import KMeans as _KMeans

_NAMES = ("KMeans", "k_means", "kmeans_plusplus")
_PLACES = ("sklearn.cluster", "sklearn.cluster._kmeans")
_originals: dict[str, Any] = {}
_made: Any = None  # the class in the place of scikit-learn's


def _why_not(error: BaseException) -> str | None:
    """The reason to leave a call to scikit-learn, if that is what the error says."""
    if isinstance(error, errors.UnsupportedError):
        return str(error)
    text = str(error)
    if isinstance(error, errors.DataError) and "weights" in text and "negative" in text:
        return text
    return None


def _class() -> Any:
    """The patched class, also where nothing is patched: a process may only load an estimator."""
    global _made
    if _made is None:
        import sklearn.cluster  # noqa: F401

        module = sys.modules["sklearn.cluster._kmeans"]
        _made = _make_class(_originals.get("KMeans", module.KMeans))
    return _made


def _restored() -> Any:
    """An estimator without a state, for pickle."""
    made = _class()
    return made.__new__(made)


def _make_class(original: Any) -> Any:
    class KMeans(_KMeans):
        """holdfast's KMeans with scikit-learn's parameters; scikit-learn's where that is needed."""

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
        ) -> None:
            super().__init__(
                n_clusters,
                init=init,
                n_init=n_init,
                max_iter=max_iter,
                tol=tol,
                verbose=verbose,
                random_state=random_state,
                copy_x=copy_x,
                algorithm=algorithm,
            )

        def __reduce__(self) -> Any:
            return _restored, (), self.__getstate__()

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            params = super().get_params(deep)
            return {name: value for name, value in params.items() if name not in OURS}

        def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
            try:
                return super().fit(X, sample_weight=sample_weight)
            except errors.HoldfastError as error:
                why = _why_not(error)
                if why is None:
                    raise
            _log.line(f"KMeans.fit: by scikit-learn: {why}")
            theirs = original(**self.get_params()).fit(X, sample_weight=sample_weight)
            self.__dict__.pop("_fit", None)
            self.__dict__.pop("_on_host", None)
            self.__dict__.pop("_report", None)
            for name, value in vars(theirs).items():
                if name.endswith("_") or name in ("_n_features_out", "_n_init"):
                    setattr(self, name, value)
            return self

        def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
            try:
                return super().score(X, sample_weight=sample_weight)
            except errors.HoldfastError as error:
                why = _why_not(error)
                if why is None:
                    raise
            _log.line(f"KMeans.score: by scikit-learn: {why}")
            theirs = original(**self.get_params())
            theirs.__dict__.update(vars(self), _n_threads=1)
            return float(theirs.score(X, sample_weight=sample_weight))

    KMeans.__module__, KMeans.__qualname__ = original.__module__, original.__qualname__
    return KMeans


def _make_function(ours: Any, original: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            return ours(*args, **kwargs)
        except errors.HoldfastError as error:
            why = _why_not(error)
            if why is None:
                raise
        _log.line(f"{original.__name__}: by scikit-learn: {why}")
        return original(*args, **kwargs)

    function.__name__ = function.__qualname__ = original.__name__
    function.__doc__ = ours.__doc__
    function.__module__ = original.__module__
    return function


def patch_sklearn() -> None:
    """Put holdfast's KMeans, k_means and kmeans_plusplus in the place of scikit-learn's.

    Programs that import them from scikit-learn afterwards get holdfast's; those that did so before
    keep what they have. What holdfast does not do, such as negative sample weights, is left to
    scikit-learn, and with ``HOLDFAST_LOG=info`` in the environment a line on standard error says
    which of the two each call went to.

    Examples
    --------
    >>> import holdfast
    >>> holdfast.patch_sklearn()
    >>> from sklearn.cluster import KMeans
    >>> issubclass(KMeans, holdfast.KMeans)
    True
    >>> holdfast.unpatch_sklearn()
    """
    if _originals:
        return
    import sklearn.cluster  # noqa: F401

    module = sys.modules["sklearn.cluster._kmeans"]
    for name in _NAMES:
        _originals[name] = getattr(module, name)
    new = {
        "KMeans": _class(),
        "k_means": _make_function(functions.k_means, _originals["k_means"]),
        "kmeans_plusplus": _make_function(functions.kmeans_plusplus, _originals["kmeans_plusplus"]),
    }
    _put(new)
    _log.line("sklearn.cluster.KMeans, k_means and kmeans_plusplus are holdfast's")


def unpatch_sklearn() -> None:
    """Undo :func:`patch_sklearn`."""
    if _originals:
        _put(_originals)
        _originals.clear()


def _put(new: dict[str, Any]) -> None:
    for place in _PLACES:
        for name in _NAMES:
            setattr(sys.modules[place], name, new[name])

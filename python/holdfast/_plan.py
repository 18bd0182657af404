# SPDX-License-Identifier: Apache-2.0
"""What the parameters of an estimator come to for the C library.

After a call of the library little of Python is left in the caches, and each object that a fit
touches costs a trip to memory. So what follows from parameters alone is worked out once, and again
when one of them has become another object.
"""

from __future__ import annotations

import ctypes as C
import operator
from typing import Any

import numpy as np

from . import _abi, _call, _params, _rows

_N_INIT = 10  # restarts of init="random" and of functions, as in scikit-learn

#: Parameters that scikit-learn's KMeans has, and those that only this one has.
THEIRS = (
    "n_clusters",
    "init",
    "n_init",
    "max_iter",
    "tol",
    "verbose",
    "random_state",
    "copy_x",
    "algorithm",
)
OURS = (
    "metric",
    "precision",
    "device",
    "memory_limit",
    "centroids",
    "empty",
    "output",
    "guard",
    "progress",
)
_NAMES = THEIRS + OURS


class Plan:
    """Checked parameters.

    Attributes
    ----------
    values
        The parameters that this was made of.
    opts
        Options. Calls that add to them take a copy.
    place
        Device and memory limit.
    restarts
        What n_init comes to.
    warnings
        What each fit warns of.
    like
        Are results to be of the caller's library?
    quiet
        Is nobody to be told of iterations?
    work
        Products of two numbers, for each number of the rows.
    ready
        Do `opts` need nothing more for rows that :meth:`serves` is true of?
    """

    __slots__ = (
        "kind",
        "like",
        "opts",
        "place",
        "quiet",
        "ready",
        "restarts",
        "shape",
        "values",
        "warnings",
        "work",
    )

    def __init__(self, est: Any, values: tuple[Any, ...]) -> None:
        _params.check(est)
        self.values = values
        self.place = est.device, _params.memory_bytes(est.memory_limit)
        self.like = est.output == "like"
        self.restarts, self.warnings = _restarts(est)
        self.quiet = est.progress is None and not est.verbose
        self.work = float(est.n_clusters) * est.max_iter * self.restarts
        self.opts = _abi.KMeansOpts(
            k=est.n_clusters,
            metric=_params.one_of("metric", _params.METRICS, est.metric),
            init=3,
            max_iter=est.max_iter,
            tol=est.tol or -1.0,
            empty=_params.one_of("empty", _params.EMPTY, est.empty),
            precision=_params.one_of("precision", _params.PRECISIONS, est.precision),
            store=_params.one_of("centroids", _params.CENTROIDS, est.centroids),
            guard=_params.one_of("guard", _params.GUARDS, est.guard),
        )
        self.shape: tuple[int, ...] | None = None  # of centroids that are used where they lie
        self.kind: Any = None
        init, seed = est.init, est.random_state
        if isinstance(init, str):
            self.opts.init = _params.INITS[str(init)]
            self.opts.n_init = self.restarts
            self.ready = type(seed) is int and 0 <= seed < 2**32
            self.opts.seed = seed if self.ready else 0
        else:
            self.ready = _in_place(init) and not est.verbose
            if self.ready:
                self.shape, self.kind = init.shape, init.dtype
                self.opts.centroids = C.pointer(_call.Centers(init).struct)

    def serves(self, init: Any, d: int) -> bool:
        """Are there options for rows of `d` columns? Centroids may have got another shape since."""
        shape = self.shape
        if not self.ready or shape is None:
            return self.ready
        return shape == (self.opts.k, d) and init.shape == shape and init.dtype is self.kind


def plan_of(est: Any) -> Plan:
    """That of an estimator."""
    values = tuple(map(est.__dict__.get, _NAMES))
    last = est.__dict__.get("_planned")
    if last is not None and all(map(operator.is_, values, last.values)):
        return last  # type: ignore[no-any-return]
    plan = est._planned = Plan(est, values)
    return plan


def _in_place(init: Any) -> bool:
    """Does C take an array of centroids as it lies?"""
    return (
        type(init) is np.ndarray
        and init.dtype in _rows._DIRECT
        and init.ndim == 2
        and init.flags.c_contiguous
        and init.flags.aligned
    )


def _restarts(est: Any) -> tuple[int, tuple[str, ...]]:
    """What n_init comes to, and scikit-learn's warnings."""
    init, n_init = est.init, est.n_init
    given = not isinstance(init, str) and not callable(init)
    texts = []
    if est.algorithm == "elkan" and est.n_clusters == 1:
        texts.append(
            "algorithm='elkan' doesn't make sense for a single cluster. Using 'lloyd' instead."
        )
    if given and not isinstance(n_init, str) and n_init != 1:
        texts.append(
            "Explicit initial center position passed: performing only one init in "
            f"{type(est).__name__} instead of n_init={n_init}."
        )
    if given:
        number = 1
    elif not isinstance(n_init, str):
        number = int(n_init)
    else:
        number = 1 if isinstance(init, str) and init != "random" else _N_INIT
    return number, tuple(texts)

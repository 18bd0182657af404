# SPDX-License-Identifier: Apache-2.0
"""scikit-learn's conventions without importing it.

``Estimator`` has what an estimator does on its own. As soon as the program uses scikit-learn, or
calls a method that is scikit-learn's own, its base classes are put in front of ``Estimator`` among
the bases of the class: from then on the objects are scikit-learn estimators in every respect.
``import holdfast`` so costs a twentieth of ``import sklearn``.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import numpy as np

from .errors import UnsupportedError

_roots: list[type] = []  # classes whose direct base is Estimator


def join(*, load: bool = False) -> bool:
    """Make the classes scikit-learn's, where that is loaded or may be loaded; were they?"""
    if not _roots or Estimator not in _roots[0].__bases__:
        return False
    if _roots[0].__bases__ != (Estimator,):
        return True
    if not load and "sklearn.base" not in sys.modules:
        return False
    try:
        from sklearn.base import (
            BaseEstimator,
            ClassNamePrefixFeaturesOutMixin,
            ClusterMixin,
            TransformerMixin,
        )
    except ImportError:
        if load:
            raise UnsupportedError(
                "this method is scikit-learn's, which is not installed: pip install scikit-learn"
            ) from None
        return False
    theirs = (ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator)
    for name in _STUBS:
        delattr(Estimator, name)
    for root in _roots:
        root.__bases__ = (*theirs, Estimator)
        _announce(root)
    return True


def _announce(kind: Any) -> None:
    """What scikit-learn does where a class is made: set_output(), set_fit_request() and so on."""
    super(kind, kind).__init_subclass__()
    for child in kind.__subclasses__():
        _announce(child)


def _theirs(name: str) -> Any:
    """A method that loads scikit-learn and is its own from then on."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        join(load=True)
        return getattr(self, name)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"See ``{name}`` in scikit-learn's documentation of estimators."
    return method


class Estimator:
    """Parameters and their representation."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__bases__ == (Estimator,):
            _roots.append(cls)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if "sklearn.base" in sys.modules:
            join()
        return super().__new__(cls)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name."""
        return {name: getattr(self, name) for name in self._get_param_names()}

    def set_params(self, **params: Any) -> Any:
        """Set parameters by name; returns the estimator."""
        known = self._get_param_names()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self}. Valid parameters are: "
                    f"{known}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self, *args: Any) -> str:
        changed = []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = getattr(self, name)
            if value is not parameter.default and repr(value) != repr(parameter.default):
                changed.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(changed)})"


# Until then these methods join; scikit-learn would take them for methods of the class's own.
_STUBS = (
    "set_output",
    "set_fit_request",
    "set_score_request",
    "get_metadata_routing",
    "get_feature_names_out",
    "_repr_mimebundle_",
)
for _name in _STUBS:
    setattr(Estimator, _name, _theirs(_name))


def check_names(estimator: Any, x: Any, *, reset: bool, named: bool) -> None:
    """Remember the names of columns, or compare them with those of the fit.

    named: may x have any?
    """
    if not named or type(x) is np.ndarray or not _has_names(x):
        if reset:
            estimator.__dict__.pop("feature_names_in_", None)
            return
        if "feature_names_in_" not in estimator.__dict__:
            return
    try:
        from sklearn.utils.validation import _check_feature_names
    except ImportError:
        _check_plainly(estimator, x, reset=reset)
        return
    _check_feature_names(estimator, x, reset=reset)


def _has_names(x: Any) -> bool:
    return hasattr(x, "columns") or hasattr(x, "column_names") or hasattr(x, "__dataframe__")


def _check_plainly(estimator: Any, x: Any, *, reset: bool) -> None:
    from ._tables import names_of

    names = names_of(x)
    if reset:
        estimator.__dict__.pop("feature_names_in_", None)
        if names is not None:
            estimator.feature_names_in_ = names
    elif names is not None and list(names) != list(estimator.feature_names_in_):
        raise ValueError(
            "The feature names should match those that were passed during fit.\n"
            f"{list(names)} were given, {list(estimator.feature_names_in_)} were fitted."
        )

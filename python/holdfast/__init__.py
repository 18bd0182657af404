# SPDX-License-Identifier: Apache-2.0
"""k-means, exact and repeatable, on CPUs and NVIDIA GPUs; sparse linear systems by relaxation.

``KMeans`` is scikit-learn's estimator; ``k_means`` and ``kmeans_plusplus`` are its functions.
``patch_sklearn()`` puts them in the place of scikit-learn's own. ``source()`` and ``load()`` read
data files, in memory or beyond it. ``matmul()`` multiplies matrices; ``solve()`` and ``Smoother``
take sparse ones.
"""

from typing import Any

from . import errors
from ._progress import Event
from ._sources import RowSource
from ._version import __version__
from .errors import HoldfastError
from .files import load, source
from .functions import k_means, kmeans_plusplus
from .kmeans import KMeans
from .patch import patch_sklearn, unpatch_sklearn
from .products import matmul
from .relaxation import Solution, solve, solve_batch
from .smoother import Smoother

__all__ = [
    "Event",
    "HoldfastError",
    "KMeans",
    "RowSource",
    "Smoother",
    "Solution",
    "__version__",
    "errors",
    "k_means",
    "kmeans_plusplus",
    "load",
    "matmul",
    "patch_sklearn",
    "solve",
    "solve_batch",
    "source",
    "unpatch_sklearn",
]


def __getattr__(name: str) -> Any:
    """``holdfast.report`` is imported where it is used: ``python -m`` wants to do that itself."""
    if name == "report":
        import importlib

        return importlib.import_module("holdfast.report")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")

# SPDX-License-Identifier: Apache-2.0
"""What parameters may be, in scikit-learn's words."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from .errors import invalid_parameter

INITS = {"k-means++": 0, "k-means||": 1, "random": 2}
METRICS = {"euclidean": 0, "cosine": 1, "dot": 2}
PRECISIONS = {"exact": 0, "fast": 1}
CENTROIDS = {"wide": 0, "same": 1}
GUARDS = {"off": 1, "detect": 2, "correct": 3, "sampled": 4, "weighted": 5}
EMPTY = {"relocate": 0, "split": 1, "keep": 2, "error": 3}
_ALGORITHMS = {"lloyd": 0, "elkan": 0}
_OUTPUTS = {"numpy": 0, "like": 1}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def refuse(name: str, must: str, got: Any, owner: str = "KMeans") -> Exception:
    """The exception for a parameter that is out of its range."""
    return invalid_parameter(
        f"The {name!r} parameter of {owner} must be {must}. Got {got!r} instead."
    )


def one_of(name: str, table: dict[str, int], value: Any) -> int:
    """The number of a word."""
    try:
        return table[value]
    except (KeyError, TypeError):
        words = ", ".join(repr(word) for word in table)
        raise refuse(name, f"a str among {{{words}}}", value) from None


def at_least(name: str, least: int, value: Any, most: int = 2**31 - 1) -> int:
    """A whole number in a range."""
    if (
        isinstance(value, bool)
        or not isinstance(value, numbers.Integral)
        or not least <= int(value) <= most
    ):
        raise refuse(name, f"an int in the range [{least}, {most}]", value)
    return int(value)


def memory_bytes(value: Any) -> int:
    """Bytes of a memory limit: a number, or text such as "4GiB"; None means 0, the default."""
    if value is None:
        return 0
    if isinstance(value, str):
        text = value.strip().upper().removesuffix("B").removesuffix("I").strip()
        unit = text[-1:] if text[-1:] in ("K", "M", "G", "T") else ""
        try:
            number = int(float(text.removesuffix(unit)) * _UNITS[unit])
        except (ValueError, OverflowError):
            number = 0
        if not 0 < number < 2**63:
            raise refuse("memory_limit", "bytes, text such as '4GiB', or None", value)
        return number
    return at_least("memory_limit", 1, value, 2**63 - 1)


def _needs_array(value: Any) -> bool:
    """Is a value of init neither a word nor a function, but something like an array?"""
    return hasattr(value, "__len__") or hasattr(value, "shape") or hasattr(value, "__array__")


def check(est: Any) -> None:
    """All parameters that no other code looks at before it uses them."""
    at_least("n_clusters", 1, est.n_clusters)
    at_least("max_iter", 1, est.max_iter)
    if not (isinstance(est.n_init, str) and est.n_init == "auto"):
        at_least("n_init", 1, est.n_init)
    tol = est.tol
    if (
        isinstance(tol, bool)
        or not isinstance(tol, numbers.Real)
        or not 0 <= float(tol) < float("inf")
    ):
        raise refuse("tol", "a float in the range [0.0, inf)", tol)
    if not isinstance(est.verbose, (bool, numbers.Integral)) or est.verbose < 0:
        raise refuse("verbose", "an int in the range [0, inf) or a bool", est.verbose)
    if not isinstance(est.copy_x, (bool, np.bool_)):
        raise refuse("copy_x", "a bool", est.copy_x)
    one_of("algorithm", _ALGORITHMS, est.algorithm)
    one_of("output", _OUTPUTS, est.output)
    if not isinstance(est.device, str) or "\0" in est.device:
        raise refuse("device", "a str such as 'auto', 'cpu', 'cuda' or 'cuda:1'", est.device)
    if not (est.progress is None or callable(est.progress) or hasattr(est.progress, "update")):
        raise refuse("progress", "a callable, a tqdm class, a bar of tqdm, or None", est.progress)
    init = est.init
    if isinstance(init, str):
        one_of("init", INITS, str(init))
    elif not callable(init) and not _needs_array(init):
        words = ", ".join(repr(word) for word in INITS)
        raise refuse("init", f"a str among {{{words}}}, a callable or an array-like", init)


def random_state(value: Any) -> Any:
    """scikit-learn's check_random_state()."""
    if value is None or value is np.random:
        return np.random.mtrand._rand
    if isinstance(value, numbers.Integral) and 0 <= int(value) < 2**32:
        return np.random.RandomState(int(value))
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return value
    raise refuse(
        "random_state",
        "an int in the range [0, 4294967295], an instance of 'numpy.random.RandomState' or "
        "'numpy.random.Generator', or None",
        value,
    )


def seed(value: Any) -> int:
    """The seed of the C library. A whole number is the seed itself."""
    if type(value) is int and 0 <= value < 2**32:
        return value
    if isinstance(value, numbers.Integral) and 0 <= int(value) < 2**32:
        return int(value)
    state = random_state(value)
    if isinstance(state, np.random.Generator):
        return int(state.integers(2**31 - 1))
    return int(state.randint(2**31 - 1))

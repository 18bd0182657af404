# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each is also the built-in type that scikit-learn raises in its place."""

from __future__ import annotations

import sys

__all__ = [
    "CancelledError",
    "CorruptError",
    "DataError",
    "DeviceError",
    "FileError",
    "HoldfastError",
    "InvalidArgumentError",
    "LibraryError",
    "OutOfMemoryError",
    "UnsupportedError",
]


class HoldfastError(Exception):
    """Base of all exceptions of this package."""


class InvalidArgumentError(HoldfastError, ValueError):
    """An argument is out of its range, or two arguments contradict each other."""


class DataError(HoldfastError, ValueError):
    """The data are unusable: NaN, Inf, negative weights, a malformed file."""


class FileError(HoldfastError, OSError):
    """A file or a source could not be opened, read or written."""


class OutOfMemoryError(HoldfastError, MemoryError):
    """There is no memory, or the limit allows less than is needed."""


class UnsupportedError(HoldfastError, NotImplementedError):
    """Not available in this build or on this machine."""


class DeviceError(HoldfastError, RuntimeError):
    """The device reported an error."""


class CorruptError(HoldfastError, RuntimeError):
    """Wrong arithmetic or a damaged file was noticed and could not be repaired."""


class CancelledError(HoldfastError, RuntimeError):
    """A callback ended the call before there was a result."""


class LibraryError(HoldfastError, ImportError):
    """The C library is not there, or is of another version."""


class _Internal(HoldfastError, RuntimeError):
    """A bug of holdfast, or a context that is at work for another call."""


_BY_STATUS: dict[int, type[HoldfastError]] = {
    1: InvalidArgumentError,
    2: DataError,
    3: FileError,
    4: OutOfMemoryError,
    5: UnsupportedError,
    6: DeviceError,
    7: CorruptError,
    8: CancelledError,
    9: _Internal,
    10: _Internal,
}


def of_status(status: int, text: str) -> HoldfastError:
    """The exception for a status of the C library."""
    return _BY_STATUS.get(status, _Internal)(text)


def not_fitted(name: str) -> Exception:
    """scikit-learn's NotFittedError where it is installed."""
    text = (
        f"This {name} instance is not fitted yet. Call 'fit' with appropriate arguments "
        "before using this estimator."
    )
    try:
        from sklearn.exceptions import NotFittedError
    except ImportError:
        return _NotFittedPlain(text)
    return NotFittedError(text)  # type: ignore[no-any-return]


class _NotFittedPlain(HoldfastError, ValueError, AttributeError):
    pass


def invalid_parameter(text: str) -> Exception:
    """scikit-learn's InvalidParameterError where that is loaded."""
    if "sklearn" in sys.modules:
        try:
            from sklearn.utils._param_validation import InvalidParameterError
        except ImportError:
            return InvalidArgumentError(text)
        return InvalidParameterError(text)  # type: ignore[no-any-return]
    return InvalidArgumentError(text)


def convergence_warning() -> type[Warning]:
    """scikit-learn's ConvergenceWarning where that is loaded."""
    if "sklearn" in sys.modules:
        from sklearn.exceptions import ConvergenceWarning

        return ConvergenceWarning  # type: ignore[no-any-return]
    return UserWarning

# SPDX-License-Identifier: Apache-2.0
"""Data that tests share."""

import numpy as np
import pytest


@pytest.fixture
def blobs():
    """300 rows of 4 columns in three clusters, float64."""
    rng = np.random.default_rng(7)
    centers = np.array([[0, 0, 0, 0], [9, 0, 0, 5], [0, 9, 5, 0]], float)
    return np.concatenate([rng.normal(c, 0.5, size=(100, 4)) for c in centers])


@pytest.fixture
def rows():
    """A function of (n, d, type): normal data, the same each time."""

    def make(n, d, dtype=np.float32, seed=0):
        return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)

    return make


class FakeCuda:
    """An array on a device that is not there."""

    def __init__(
        self, shape, typestr="<f4", strides=None, stream=None, data=4096, device=None, **more
    ):
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (data, False),
            "strides": strides,
            "version": 3,
            "stream": stream,
            **more,
        }
        if device is not None:
            self.device = type("Device", (), {"id": device})()

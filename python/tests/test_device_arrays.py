# SPDX-License-Identifier: Apache-2.0
"""Arrays of other libraries, on the host and on GPUs: what is read of them needs no GPU."""

import ctypes as C
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import FakeCuda

from holdfast import KMeans, _dlpack, _library, _rows, errors


def test_cuda_array_interface():
    rows = _rows.take(FakeCuda((7, 3), stream=77, device=2), "KMeans")
    assert (rows.n, rows.d, rows.code, rows.view.data) == (7, 3, 1, 4096)
    assert (rows.view.row_stride, rows.stream, rows.device) == (3, 77, "cuda:2")
    assert _rows.take(FakeCuda((7, 3)), "KMeans").stream == 1
    assert _rows.take(FakeCuda((7, 3), stream=2), "KMeans").stream == 2
    assert _rows.take(FakeCuda((7, 3)), "KMeans").device == "cuda"
    assert _rows.take(FakeCuda((7, 3), strides=(32, 4)), "KMeans").view.row_stride == 8
    for kind, code in (("<f8", 2), ("<f2", 3), ("|u1", 5)):
        assert _rows.take(FakeCuda((7, 3), kind), "KMeans").code == code


@pytest.mark.parametrize(
    ("fake", "text"),
    [
        (FakeCuda((7,)), "1D array"),
        (FakeCuda((7, 3), "<i4"), "convert it to float32"),
        (FakeCuda((7, 3), ">f4"), "convert it to float32"),
        (FakeCuda((7, 3), "<c8"), "convert it"),
        (FakeCuda((7, 3), strides=(4, 28)), "C-contiguous"),
        (FakeCuda((7, 3), mask=object()), "masked"),
        (FakeCuda((0, 3)), r"0 sample\(s\)"),
        (type("Bad", (), {"__cuda_array_interface__": {}})(), "cannot be read"),
    ],
)
def test_bad_cuda_arrays(fake, text):
    with pytest.raises(ValueError, match=text):
        KMeans(2).fit(fake)


def test_device_that_differs():
    with pytest.raises(ValueError, match="the data lie on cuda:1"):
        KMeans(2, device="cpu").fit(FakeCuda((7, 3), device=1))
    with pytest.raises(ValueError, match="the data lie on cuda:1"):
        KMeans(2, device="cuda:0").fit(FakeCuda((7, 3), device=1))


# ---- DLPack


class Capsules:
    """An exporter that is not NumPy, so that the package reads the capsule itself."""

    def __init__(self, a):
        self.a = a

    def __dlpack__(self, stream=None):
        return self.a.__dlpack__()

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "u1", "i4"])
def test_dlpack(dtype):
    x = np.random.default_rng(0).integers(0, 99, size=(60, 4)).astype(dtype)
    expected = KMeans(3, init=x[:3].astype("f8")).fit(x)
    for a in (Capsules(x), x.__dlpack__(), Capsules(np.asfortranarray(x)), Capsules(x[:, :])):
        km = KMeans(3, init=x[:3].astype("f8")).fit(a)
        assert np.array_equal(km.labels_, expected.labels_)
    if dtype != "i4":
        assert _rows.take(Capsules(x), "KMeans").view.data == x.ctypes.data


def test_dlpack_is_released():
    x = np.zeros((10, 2), "f4")
    base = sys.getrefcount(x)
    for _ in range(100):
        rows = _rows.take(Capsules(x), "KMeans")
        del rows
    assert sys.getrefcount(x) == base


def test_consumed_capsule():
    capsule = np.zeros((10, 2), "f4").__dlpack__()
    _rows.take(capsule, "KMeans")
    with pytest.raises(ValueError, match="consumed"):
        KMeans(2).fit(capsule)


def cuda_capsule(shape, code=2, bits=32, device=(_dlpack.CUDA, 3)):
    """A capsule of a tensor on a device that is not there."""
    managed = _dlpack._Managed()
    sizes = (C.c_int64 * len(shape))(*shape)
    t = managed.tensor
    t.data, t.device_type, t.device_id, t.ndim = 8192, *device, len(shape)
    t.code, t.bits, t.lanes, t.shape = code, bits, 1, sizes
    freed = []
    managed.deleter = _dlpack._Deleter(lambda _: freed.append(1))
    new = C.pythonapi.PyCapsule_New
    new.restype, new.argtypes = C.py_object, [C.c_void_p, C.c_char_p, C.c_void_p]
    capsule = new(C.addressof(managed), b"dltensor", None)
    return capsule, freed, (managed, sizes)


def test_cuda_capsule():
    capsule, freed, keep = cuda_capsule((9, 5), code=4, bits=16)
    rows = _rows.take(capsule, "KMeans")
    assert (rows.n, rows.d, rows.code, rows.device) == (9, 5, 4, "cuda:3")
    assert (rows.view.data, rows.stream) == (8192, 1)
    del rows
    assert freed == [1]
    for more in ({"bits": 8}, {"code": 0, "bits": 64}, {"device": (7, 0)}, {"code": 0}):
        capsule, freed, keep = cuda_capsule((9, 5), **more)
        with pytest.raises((ValueError, errors.UnsupportedError)):
            _rows.take(capsule, "KMeans")
        assert freed == [1]
    del keep


def test_results_like_the_rows_are_made_when_read(rows, monkeypatch):
    x, made, take = rows(200, 4), [], _rows.take

    def with_maker(x, name):
        found = take(x, name)
        found.like = lambda a: made.append(a.shape) or a.copy()
        return found

    monkeypatch.setattr(_rows, "take", with_maker)
    plain = KMeans(3, init=x[:3]).fit(x)
    km = KMeans(3, init=x[:3], output="like").fit(x)
    assert made == []
    assert np.array_equal(km.predict(x), plain.labels_)
    assert made == [(200,)]  # what predict gave
    assert np.array_equal(km.cluster_centers_, plain.cluster_centers_)
    assert np.array_equal(km.labels_, plain.labels_)
    assert km.labels_ is km.labels_
    assert made == [(200,), (3, 4), (200,)]
    km.cluster_centers_ = x[:3]
    assert km.predict(x)[:3].tolist() == [0, 1, 2]
    for other in (pickle.loads(pickle.dumps(km.fit(x))), km.fit(x)):
        assert np.array_equal(other.labels_, plain.labels_)
    assert not hasattr(km, "sizes_")
    with pytest.raises(AttributeError, match=r"labels_.*not fitted"):
        _ = KMeans(output="like").labels_


# ---- torch: the way of a tensor on a GPU without either, the rest where it is installed


class FakeTensor:
    """A tensor on the second GPU."""

    layout, is_cuda, device = "strided", True, SimpleNamespace(index=1)

    def __init__(self, shape, dtype="float16", strides=None):
        self.shape, self.dtype = shape, dtype
        self.strides = strides or (shape[-1], 1)

    def is_complex(self):
        return self.dtype == "complex64"

    def stride(self):
        return self.strides

    def data_ptr(self):
        return 8192

    def get_device(self):
        return 1

    def detach(self):
        return self

    def double(self):
        return FakeTensor(self.shape, "float64")

    def contiguous(self):
        return FakeTensor(self.shape, self.dtype)


def test_tensor_on_a_gpu(monkeypatch):
    streams, moved = iter((0, 640, 640, 960, 960, 0, 0)), []
    torch = SimpleNamespace(Tensor=FakeTensor, strided="strided", cuda=SimpleNamespace())
    for name in ("float32", "float64", "float16", "bfloat16", "uint8"):
        setattr(torch, name, name)

    def current(number):
        stream = next(streams)  # 960 is not torch's: its id is its address
        return SimpleNamespace(cuda_stream=stream, stream_id=stream if stream == 960 else 7)

    torch.cuda.current_stream = current
    torch._C = SimpleNamespace()
    to = lambda device, non_blocking: moved.append((device, non_blocking))  # noqa: E731
    torch.from_numpy = lambda a: SimpleNamespace(to=to)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(_rows._devices(), "_torch", None)
    monkeypatch.setattr(_rows, "_known", {})
    monkeypatch.setattr(_library, "lasting", {0, 1, 2})
    for stream in (1, 640, 960):  # the default stream has a number of its own
        rows = _rows.take(FakeTensor((7, 3)), "KMeans")
        assert (rows.n, rows.d, rows.code) == (7, 3, 3)
        assert (rows.view.data, rows.view.row_stride) == (8192, 3)
        assert (rows.device, rows.stream) == ("cuda:1", stream)
    assert _library.lasting == {0, 1, 2, 640}
    rows.like(np.zeros(3))
    assert moved == [(FakeTensor.device, True)]
    assert _rows.take(FakeTensor((7, 3), "int64", (1, 7)), "KMeans").code == 2
    for tensor, text in (
        (FakeTensor((7, 3), "complex64"), "Complex"),
        (FakeTensor((7,)), "1D array"),
        (FakeTensor((0, 3)), r"0 sample\(s\)"),
    ):
        with pytest.raises(ValueError, match=text):
            _rows.take(tensor, "KMeans")


def test_torch(rows):
    torch = pytest.importorskip("torch")
    x = rows(200, 4)
    t = torch.from_numpy(x)
    assert _rows.take(t, "KMeans").view.data == t.data_ptr()
    km = KMeans(3, init=t[:3], output="like").fit(t.requires_grad_())
    assert isinstance(km.labels_, torch.Tensor)
    assert isinstance(km.predict(t), torch.Tensor)
    assert np.array_equal(km.labels_.numpy(), KMeans(3, init=x[:3]).fit(x).labels_)
    km.cluster_centers_ = torch.from_numpy(x[:3].copy())  # another tensor, and one that was changed
    first = km.predict(t)
    assert first[:3].tolist() == [0, 1, 2]
    km.fit(t)
    assert torch.equal(pickle.loads(pickle.dumps(km)).predict(t), km.predict(t))
    km.cluster_centers_.copy_(torch.from_numpy(x[:3].copy()))
    assert torch.equal(km.predict(t), first)
    half = t.detach().bfloat16()
    assert _rows.take(half, "KMeans").code == 4
    a = KMeans(3, init=x[:3]).fit(half)
    assert np.array_equal(a.labels_, KMeans(3, init=x[:3]).fit(half.float()).labels_)

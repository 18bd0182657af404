# SPDX-License-Identifier: Apache-2.0
"""matmul: right, as numpy.matmul shapes it, and the same bits however the operands lie."""

import threading

import numpy as np
import pytest

from holdfast import errors, matmul

TYPES = ["f4", "f8", "f2", "i1"]


def pair(m, k, n, dtype):
    rng = np.random.default_rng(3)
    if dtype == "i1":
        a, b = rng.integers(-128, 128, (m, k)), rng.integers(-128, 128, (k, n))
        return a.astype(dtype), b.astype(dtype)
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)


def check(a, b, c, report):
    """Within the bound of the report of what float64 makes of it."""
    wide = a.astype("f8"), b.astype("f8")
    bound = report["error"] * (abs(wide[0]) @ abs(wide[1])) * (1 + 1e-6) + report["tiny"]
    assert (abs(c - wide[0] @ wide[1]) <= bound + 1e-13 * (a.dtype == np.float64)).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_right_and_the_same_bits_in_any_layout(dtype):
    a, b = pair(37, 600, 41, dtype)
    c, report = matmul(a, b, return_report=True)
    assert c.dtype == {"i1": np.int32}.get(dtype, a.dtype)
    assert report["kernel"].startswith("gemm_")
    check(a, b, c, report)
    gaps = np.zeros((74, 1200), dtype)
    gaps[::2, :600] = a
    odd = np.zeros((37, 1200), dtype)
    odd[:, ::2] = a
    packed = np.zeros(37, [("at", "i1"), ("row", dtype, 600)])["row"]  # unaligned
    packed[:] = a
    for left in (
        a,
        np.asfortranarray(a),
        gaps[::2, :600],
        odd[:, ::2],
        a[::-1].copy()[::-1],
        packed,
    ):
        for right in (b, np.asfortranarray(b)):
            assert np.array_equal(matmul(left, right), c)
    assert np.array_equal(matmul(b.T, a.T).T, c)
    assert np.array_equal(np.stack([matmul(row, b) for row in a]), c)
    assert np.array_equal(np.stack([matmul(a, column) for column in b.T], 1), c)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5,), (5,)), ((5,), (5, 3)), ((2, 5), (5,)), ((4, 2, 5), (5, 3)), ((2, 5), (4, 5, 3)),
        ((4, 2, 5), (4, 5, 3)), ((3, 1, 2, 5), (4, 5, 3)), ((4, 2, 5), (5,)), ((0, 5), (5, 3)),
        ((2, 0), (0, 3)), ((0, 2, 5), (5, 3)), ((1, 2, 5), (6, 5, 3)),
    ],
)  # fmt: skip
def test_shapes_of_numpy(left, right):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, left).astype("f8"), rng.integers(-9, 9, right).astype("f8")
    want = np.matmul(a, b)
    got = matmul(a, b)
    assert got.shape == want.shape
    assert np.array_equal(got, want)
    turned = matmul(np.swapaxes(a, 0, -1).copy().swapaxes(0, -1), b)
    assert np.array_equal(turned, want)


def test_types():
    a, b = pair(8, 40, 6, "f2")
    wide = matmul(a, b, dtype="f4")
    assert wide.dtype == np.float32
    assert np.array_equal(wide.astype("f2"), matmul(a, b))
    assert matmul(a, b.astype("f8")).dtype == np.float64
    assert matmul(a.astype(">f2"), b).dtype == np.float16
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x, y = a.astype(bfloat16), b.astype(bfloat16)
    assert matmul(x, y).dtype == x.dtype
    wide = matmul(x, y, dtype=np.float32, portable=True)  # AMX sums in another way
    assert np.array_equal(wide, matmul(x.astype("f4"), y.astype("f4")))


def test_tensors_on_the_host():
    torch = pytest.importorskip("torch")
    a, b = pair(37, 600, 41, "f4")
    x, y = torch.from_numpy(a), torch.from_numpy(b).requires_grad_()
    c = matmul(x, y)
    assert isinstance(c, torch.Tensor)
    assert np.array_equal(c.numpy(), matmul(a, b))
    assert torch.equal(matmul(x[::2], y), c[::2])
    assert torch.equal(matmul(x.mT.contiguous().mT, y, guard="correct"), c)
    assert torch.equal(matmul(torch.stack((x, -x)), y), torch.stack((c, -c)))
    assert isinstance(matmul(x, b), np.ndarray)
    half = x.bfloat16(), y.bfloat16()
    assert matmul(*half).dtype == torch.bfloat16
    wide = matmul(*half, dtype=torch.float32, portable=True)
    assert torch.equal(wide, matmul(half[0].float(), half[1].float()))
    with pytest.raises(errors.InvalidArgumentError, match=r"float32 and bfloat16"):
        matmul(x, half[1])
    op = pytest.importorskip("holdfast.torch_op").matmul
    assert torch.equal(op(*half), matmul(*half))
    assert torch.equal(op(x, y), c)


def test_errors_name_shapes_and_types():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(4, 5\).*3 columns.*4 rows"):
        matmul(np.zeros((2, 3)), np.zeros((4, 5)))
    with pytest.raises(errors.InvalidArgumentError, match=r"\(2, 3, 4\).*\(3, 4, 5\)"):
        matmul(np.zeros((2, 3, 4)), np.zeros((3, 4, 5)))
    with pytest.raises(errors.InvalidArgumentError, match="int64"):
        matmul(np.zeros((2, 3), "i8"), np.zeros((3, 4), "i8"))
    with pytest.raises(errors.InvalidArgumentError, match="object"):
        matmul(np.array([[None, 1]]), np.zeros((2, 4)))
    with pytest.raises(errors.InvalidArgumentError, match="no common type"):
        matmul(np.zeros((2, 3)), np.zeros((3, 4), "M8[s]"))
    with pytest.raises(errors.InvalidArgumentError, match="dtype=float32"):
        matmul(np.zeros((2, 3)), np.zeros((3, 4)), dtype="f4")
    with pytest.raises(errors.InvalidArgumentError, match="dimension"):
        matmul(3.0, np.zeros((3, 4)))


def test_guard():
    a, b = pair(50, 300, 40, "f4")
    want, plain = matmul(a, b, return_report=True)
    assert "lines" not in plain
    for guard in ("detect", "correct"):
        got, report = matmul(a, b, guard=guard, return_report=True)
        assert np.array_equal(got, want)
        assert (report["lines"], report["confirmed"], report["repaired"]) == (90, 0, 0)
    with pytest.raises(ValueError, match=r"guard.*detect"):
        matmul(a, b, guard="maybe")


def test_many_threads():
    a, b = pair(90, 300, 90, "f4")
    want, wrong = matmul(a, b), []

    def work():
        for _ in range(10):
            if not np.array_equal(matmul(a, b), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong

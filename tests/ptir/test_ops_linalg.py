"""Factorisations by multiplying back, transforms by the defining sum."""

from __future__ import annotations

import numpy as np
import pytest

from planish import dtypes
from planish.errors import DTypeError, ShapeError
from planish.ptir import ops
from planish.ptir.types import Dim, TensorType
from tests.ptir.ops_testing import accepts, run, run_all

WIDE = [np.float32, np.float64, np.complex64, np.complex128]
wide = pytest.mark.parametrize("dtype", WIDE)


def random_matrix(dtype, *shape, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.issubdtype(dtype, np.complexfloating):
        x = x + 1j * rng.standard_normal(shape)
    return x.astype(dtype)


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def tolerance(dtype):
    return 2e-5 if np.dtype(dtype) in (np.float32, np.complex64) else 1e-12


def close(left, right):
    assert left.shape == right.shape
    assert np.abs(left - right).max(initial=0) <= tolerance(left.dtype) * max(1, np.abs(right).max(initial=0))


@wide
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(dtype, lower):
    a = random_matrix(dtype, 2, 3, 4, 4)
    a = a @ adjoint(a) + 4 * np.eye(4, dtype=dtype)
    # The other triangle is not looked at.
    triangle = np.where(
        np.tril(np.ones((4, 4), bool)) if lower else np.triu(np.ones((4, 4), bool)), a, np.nan
    )
    factor = run(ops.cholesky, triangle.astype(dtype), attrs=ops.CholeskyAttrs(lower))
    close(factor @ adjoint(factor) if lower else adjoint(factor) @ factor, a)
    assert not np.any(np.triu(factor, 1) if lower else np.tril(factor, -1))


@wide
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (3, 3), (1, 2)])
@pytest.mark.parametrize("full", [False, True])
def test_qr_and_svd(dtype, shape, full):
    x = random_matrix(dtype, 2, *shape)
    q, r = run_all(ops.qr, x, attrs=ops.QrAttrs(full))
    close(q @ r, x)
    close(adjoint(q) @ q, np.broadcast_to(np.eye(q.shape[-1], dtype=dtype), (2, q.shape[-1], q.shape[-1])))
    assert not np.any(np.tril(r, -1))
    u, s, vh = run_all(ops.svd, x, attrs=ops.SvdAttrs(full))
    k = min(shape)
    close((u[..., :k] * s[..., None, :].astype(dtype)) @ vh[..., :k, :], x)
    close(adjoint(u) @ u, np.broadcast_to(np.eye(u.shape[-1], dtype=dtype), (2, u.shape[-1], u.shape[-1])))
    assert np.all(s[..., :-1] >= s[..., 1:])
    close(run(ops.svd, x, attrs=ops.SvdAttrs(full, compute_uv=False)), s)


@wide
@pytest.mark.parametrize("lower", [True, False])
def test_eigh(dtype, lower):
    x = random_matrix(dtype, 2, 4, 4)
    x = x + adjoint(x)
    half = np.tril(x) if lower else np.triu(x)
    values, vectors = run_all(ops.eigh, half, attrs=ops.EighAttrs(lower))
    close((vectors * values[..., None, :].astype(dtype)) @ adjoint(vectors), x)
    assert np.all(values[..., :-1] <= values[..., 1:])


@wide
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
def test_lu(dtype, shape):
    x = random_matrix(dtype, 2, *shape)
    packed, permutation = run_all(ops.lu, x)
    k = min(shape)
    lower = np.tril(packed, -1)[..., :k] + np.eye(shape[0], k, dtype=dtype)
    close(lower @ np.triu(packed)[..., :k, :], np.take_along_axis(x, permutation[..., None], -2))
    assert np.all(np.abs(np.tril(packed, -1)) <= 1 + tolerance(dtype))


@wide
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transform", ["none", "transpose", "adjoint"])
@pytest.mark.parametrize("unit", [True, False])
def test_triangular_solve(dtype, left, lower, transform, unit):
    a = random_matrix(dtype, 2, 3, 3) + 3 * np.eye(3, dtype=dtype)
    b = random_matrix(dtype, 2, *((3, 2) if left else (2, 3)), seed=1)
    attrs = ops.TriangularSolveAttrs(left, lower, transform, unit)
    x = run(ops.triangular_solve, a, b, attrs=attrs)
    t = np.tril(a) if lower else np.triu(a)
    if unit:
        t = t - t * np.eye(3, dtype=dtype) + np.eye(3, dtype=dtype)
    t = {"none": t, "transpose": np.swapaxes(t, -1, -2), "adjoint": adjoint(t)}[transform]
    close(t @ x if left else x @ t, b)


def test_linalg_mistakes():
    for op, attrs in ((ops.cholesky, ops.CholeskyAttrs()), (ops.eigh, ops.EighAttrs())):
        with pytest.raises(ShapeError, match="not square"):
            op.result_types([TensorType(dtypes.float32, (3, 4))], attrs)
        with pytest.raises(ShapeError, match="not a matrix"):
            op.result_types([TensorType(dtypes.float32, (3,))], attrs)
        assert not accepts(op, dtypes.float16, 1, attrs)
    with pytest.raises(ShapeError, match="does not fit"):
        ops.triangular_solve.result_types(
            [TensorType(dtypes.float32, (3, 3)), TensorType(dtypes.float32, (4, 2))],
            ops.TriangularSolveAttrs(),
        )
    size = Dim.named("B", 1, 8)
    q, r = ops.qr.result_types([TensorType(dtypes.float32, (size, 9))], ops.QrAttrs())
    assert (q.dims, r.dims) == ((size, size), (size, 9))
    with pytest.raises(ShapeError, match="shorter"):
        ops.qr.result_types([TensorType(dtypes.float32, (size, 4))], ops.QrAttrs())


# --- Fourier ----------------------------------------------------------------------------------------------


def transform_by_sum(x, axes, sign):
    """The defining sum over all transformed axes, in complex128."""
    result = x.astype(np.complex128)
    for axis in axes:
        n = x.shape[axis]
        k = np.arange(n)
        matrix = np.exp(sign * 2j * np.pi * np.outer(k, k) / n)
        result = np.moveaxis(np.tensordot(matrix, np.moveaxis(result, axis, 0), 1), 0, axis)
    return result


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("axes", [(0,), (1,), (2, 0), (0, 1, 2)])
def test_fft_and_ifft(dtype, axes):
    x = random_matrix(dtype, 3, 4, 5)
    close(run(ops.fft, x, attrs=ops.FftAttrs(axes)), transform_by_sum(x, axes, -1).astype(dtype))
    count = np.prod([x.shape[a] for a in axes])
    close(run(ops.ifft, x, attrs=ops.FftAttrs(axes)), (transform_by_sum(x, axes, 1) / count).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axes", [(0,), (2,), (0, 1), (2, 1)])
def test_rfft_and_irfft(dtype, axes):
    x = random_matrix(dtype, 3, 4, 5)
    half = run(ops.rfft, x, attrs=ops.FftAttrs(axes))
    length = x.shape[axes[-1]]
    full = transform_by_sum(x, axes, -1)
    close(half, np.take(full, range(length // 2 + 1), axes[-1]).astype(half.dtype))
    close(run(ops.irfft, half, attrs=ops.IrfftAttrs(axes, length)), x)


def test_fourier_mistakes():
    c64 = TensorType(dtypes.complex64, (4, 3))
    assert not accepts(ops.fft, dtypes.float32, 1, ops.FftAttrs((0,)))
    assert not accepts(ops.rfft, dtypes.float16, 1, ops.FftAttrs((0,)))
    with pytest.raises(ShapeError, match="frequencies"):
        ops.irfft.result_types([c64], ops.IrfftAttrs((1,), 6))
    assert ops.irfft.result_types([c64], ops.IrfftAttrs((1,), 5))[0].dims == (4, 5)
    with pytest.raises(ShapeError, match="no axis"):
        ops.fft.result_types([c64], ops.FftAttrs(()))
    with pytest.raises(DTypeError):
        ops.irfft.result_types([TensorType(dtypes.float32, (3,))], ops.IrfftAttrs((0,), 4))
    size = Dim.named("B", 2, 8)
    assert ops.rfft.result_types([TensorType(dtypes.float32, (size,))], ops.FftAttrs((0,)))[0].dims == (
        size // 2 + 1,
    )

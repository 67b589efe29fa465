"""planish.linalg and planish.fft against NumPy, in batches, real and complex."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)
A = rng.normal(size=(2, 4, 4)) + 3 * np.eye(4)
C = A + 1j * rng.normal(size=(2, 4, 4))
T = rng.normal(size=(3, 5))
W = rng.normal(size=(5, 3))
b = rng.normal(size=(2, 4, 2))
v = rng.normal(size=4)
S = A + np.swapaxes(A, -1, -2)
H = C + np.swapaxes(C, -1, -2).conj()
D = A @ np.swapaxes(A, -1, -2)
DEFICIENT = np.outer(v, v) + np.outer(v[::-1], v[::-1])

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[Array, ...]]] = {
    "det": (pn.linalg.det, np.linalg.det, (A,)),
    "det of complex": (pn.linalg.det, np.linalg.det, (C,)),
    "det of a permutation": (pn.linalg.det, np.linalg.det, (np.eye(5)[[1, 2, 0, 4, 3]],)),
    "slogdet sign": (lambda x: pn.linalg.slogdet(x).sign, lambda x: np.linalg.slogdet(x).sign, (-A,)),
    "slogdet": (
        lambda x: pn.linalg.slogdet(x).logabsdet,
        lambda x: np.linalg.slogdet(x).logabsdet,
        (C,),
    ),
    "inv": (pn.linalg.inv, np.linalg.inv, (C,)),
    "solve": (pn.linalg.solve, np.linalg.solve, (A, b)),
    "solve for a vector": (pn.linalg.solve, np.linalg.solve, (A[0], v)),
    "solve for a vector in a batch": (pn.linalg.solve, np.linalg.solve, (A, v)),
    "cholesky": (pn.linalg.cholesky, np.linalg.cholesky, (D,)),
    "cholesky upper": (
        lambda x: pn.linalg.cholesky(x, upper=True),
        lambda x: np.linalg.cholesky(x, upper=True),
        (D,),
    ),
    "eigvalsh": (pn.linalg.eigvalsh, np.linalg.eigvalsh, (H,)),
    "svdvals": (pn.linalg.svdvals, np.linalg.svdvals, (T,)),
    "pinv": (pn.linalg.pinv, np.linalg.pinv, (T,)),
    "pinv of less rank": (
        lambda x: pn.linalg.pinv(x, rtol=1e-10),
        lambda x: np.linalg.pinv(x, rtol=1e-10),
        (DEFICIENT,),
    ),
    "matrix_rank": (pn.linalg.matrix_rank, np.linalg.matrix_rank, (DEFICIENT,)),
    "matrix_power": (lambda x: pn.linalg.matrix_power(x, 5), lambda x: np.linalg.matrix_power(x, 5), (A,)),
    "inverse matrix_power": (
        lambda x: pn.linalg.matrix_power(x, -3),
        lambda x: np.linalg.matrix_power(x, -3),
        (A,),
    ),
    "matrix_power 0": (lambda x: pn.linalg.matrix_power(x, 0), lambda x: np.linalg.matrix_power(x, 0), (A,)),
    "lstsq": (
        lambda x, y: pn.linalg.lstsq(x, y).solution,
        lambda x, y: np.linalg.lstsq(x, y)[0],
        (W, W[:, :2]),
    ),
    "lstsq residuals": (
        lambda x, y: pn.linalg.lstsq(x, y).residuals,
        lambda x, y: np.linalg.lstsq(x, y)[1],
        (W, T.T[:, :1] + 1),
    ),
    "cond": (pn.linalg.cond, np.linalg.cond, (A,)),
    "trace": (lambda x: pn.linalg.trace(x, offset=1), lambda x: np.linalg.trace(x, offset=1), (A,)),
    "diagonal": (
        lambda x: pn.linalg.diagonal(x, offset=-1),
        lambda x: np.linalg.diagonal(x, offset=-1),
        (A,),
    ),
    "diagonal outside": (
        lambda x: pn.linalg.diagonal(x, offset=9),
        lambda x: np.linalg.diagonal(x, offset=9),
        (A,),
    ),
    "cross": (
        lambda x, y: pn.linalg.cross(x, y, axis=0),
        lambda x, y: np.linalg.cross(x, y, axis=0),
        (T, T[::-1]),
    ),
    "multi_dot": (
        lambda x, y, z: pn.linalg.multi_dot([x, y, z]),
        lambda x, y, z: np.linalg.multi_dot([x, y, z]),
        (T, W, T),
    ),
    **{
        f"vector_norm {order}": (
            lambda x, order=order: pn.linalg.vector_norm(x, axis=(0, 1), ord=order, keepdims=True),
            lambda x, order=order: np.linalg.vector_norm(x, axis=(0, 1), ord=order, keepdims=True),
            (C,),
        )
        for order in (0, 1, 2, 3.5, np.inf, -np.inf)
    },
    **{
        f"matrix_norm {order}": (
            lambda x, order=order: pn.linalg.matrix_norm(x, ord=order),
            lambda x, order=order: np.linalg.matrix_norm(x, ord=order),
            (C,),
        )
        for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
    "norm": (pn.linalg.norm, np.linalg.norm, (C,)),
    "norm over two axes": (
        lambda x: pn.linalg.norm(x, ord=1, axis=(1, 0), keepdims=True),
        lambda x: np.linalg.norm(x, ord=1, axis=(1, 0), keepdims=True),
        (A,),
    ),
    # fft
    **{
        f"{name} {norm}": (
            lambda x, name=name, norm=norm: getattr(pn.fft, name)(x, n=5, axis=1, norm=norm),
            lambda x, name=name, norm=norm: getattr(np.fft, name)(x, n=5, axis=1, norm=norm),
            (x,),
        )
        for norm in ("backward", "ortho", "forward")
        for name, x in {"fft": C, "ifft": C, "rfft": A, "irfft": C, "hfft": C, "ihfft": A}.items()
    },
    "fft of real numbers": (pn.fft.fft, np.fft.fft, (A,)),
    **{
        f"{name} over axes": (
            lambda x, name=name: getattr(pn.fft, name)(x, s=(3, 6), axes=(0, 2)),
            lambda x, name=name: getattr(np.fft, name)(x, s=(3, 6), axes=(0, 2)),
            (x,),
        )
        for name, x in {"fftn": C, "ifftn": C, "rfftn": A, "irfftn": C}.items()
    },
    "fftfreq": (lambda: pn.fft.fftfreq(7, d=0.5, dtype=pn.float64), lambda: np.fft.fftfreq(7, d=0.5), ()),
    "fftfreq even": (lambda: pn.fft.fftfreq(6, dtype=pn.float64), lambda: np.fft.fftfreq(6), ()),
    "rfftfreq": (lambda: pn.fft.rfftfreq(7, dtype=pn.float64), lambda: np.fft.rfftfreq(7), ()),
    "fftshift": (lambda x: pn.fft.fftshift(x, axes=1), lambda x: np.fft.fftshift(x, axes=1), (T,)),
    "ifftshift": (pn.fft.ifftshift, np.fft.ifftshift, (T,)),
}


def check(name: str) -> None:
    ours, numpys, arrays = CASES[name]
    expected = np.asarray(numpys(*arrays))
    found = ours(*[pn.asarray(x) for x in arrays]).numpy()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, strict=True)


@pytest.mark.parametrize("name", CASES)
def test_what_numpy_gives(name: str) -> None:
    with pn.settings(device="interpreter"):
        check(name)


@pytest.mark.parametrize("name", ["det", "solve", "pinv", "fft ortho", "matrix_norm nuc"])
def test_a_sample_between_compiled_kernels(name: str) -> None:
    check(name)


@pytest.mark.parametrize("x", [T, A, C, T.astype(np.float32)], ids=["wide", "batch", "complex", "float32"])
def test_factors_multiply_to_the_matrix(x: Array) -> None:
    tolerance = 1e-5 if x.dtype == np.float32 else 1e-10

    def close(found: pn.Tensor) -> None:
        np.testing.assert_allclose(found.numpy(), x, atol=tolerance)
        assert found.numpy().dtype == x.dtype

    with pn.settings(device="interpreter"):
        given = pn.asarray(x)
        for mode in ("reduced", "complete"):
            q, r = pn.linalg.qr(given, mode=mode)
            close(q @ r)
        for full in (False, True):
            u, s, vh = pn.linalg.svd(given, full_matrices=full)
            count = s.shape[-1]
            close(u[..., :count] * pn.astype(s, given.dtype)[..., None, :] @ vh[..., :count, :])


def test_eigenvectors() -> None:
    with pn.settings(device="interpreter"):
        values, vectors = pn.linalg.eigh(pn.asarray(H))
        given = pn.asarray(H)
        left, right = given @ vectors, vectors * pn.astype(values, vectors.dtype)[..., None, :]
        np.testing.assert_allclose(left.numpy(), right.numpy(), atol=1e-10)
        values, vectors = pn.linalg.eig(pn.asarray(A))
        left, right = pn.astype(pn.asarray(A), vectors.dtype) @ vectors, vectors * values[..., None, :]
        np.testing.assert_allclose(left.numpy(), right.numpy(), atol=1e-10)
        assert pn.linalg.eigvals(pn.asarray(A)).dtype is pn.complex128


def test_what_cannot_be_factorised_gives_nan_and_harms_nothing_else() -> None:
    with pn.settings(device="interpreter"):
        pair = pn.asarray(np.stack([np.eye(2), -np.eye(2)]))
        found = pn.linalg.cholesky(pair).numpy()
        np.testing.assert_array_equal(found[0], np.eye(2))
        assert np.isnan(found[1][np.tril_indices(2)]).all()
        assert not np.isfinite(pn.linalg.inv(pn.asarray([[1.0, 2.0], [2.0, 4.0]])).numpy()).all()
        assert pn.linalg.det(pn.zeros((2, 0, 0))).tolist() == [1.0, 1.0]
        assert pn.linalg.inv(pn.zeros((0, 0))).shape == (0, 0)


def test_solving_with_one_triangle() -> None:
    with pn.settings(device="interpreter"):
        lower = pn.linalg.solve_triangular(pn.asarray(A), pn.asarray(b), lower=True).numpy()
    np.testing.assert_allclose(np.tril(A) @ lower, b, atol=1e-10)

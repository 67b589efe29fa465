"""Exponentials, roots, LU, tensor equations and the derivative of eig: against scipy, torch and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish.errors import PlanishError

scipy: Any = pytest.importorskip("scipy.linalg")
rng = np.random.default_rng(3)
A = rng.normal(size=(3, 4, 4))
C = A + 1j * rng.normal(size=(3, 4, 4))


def slope_fits(function: Callable[[pn.Tensor], pn.Tensor], x: Any, tolerance: float = 1e-6) -> None:
    """The gradient of a real function along a random direction is its finite difference, and both directions agree."""
    direction = rng.normal(size=x.shape) + (1j * rng.normal(size=x.shape) if np.iscomplexobj(x) else 0)
    h = 1e-5
    high, low = (float(function(pn.asarray(x + s * h * direction))) for s in (1, -1))
    wanted = (high - low) / (2 * h)
    _, forward = pn.jvp(function, (pn.asarray(x),), (pn.asarray(direction),))
    backward = np.asarray(pn.grad(function)(pn.asarray(x)))
    assert float(forward) == pytest.approx(wanted, rel=tolerance, abs=tolerance)
    assert float(np.real(np.vdot(backward, direction))) == pytest.approx(wanted, rel=tolerance, abs=tolerance)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 30.0])
@pytest.mark.parametrize("x", [A, C], ids=["real", "complex"])
def test_exponentials(scale: float, x: Any):
    found = np.asarray(pn.linalg.expm(pn.asarray(scale * x)))
    wanted = np.stack([scipy.expm(scale * one) for one in x])
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-11 * np.abs(wanted).max())


def test_exponentials_of_different_sizes_in_one_batch_and_narrow():
    x = np.stack([1e-2 * A[0], 20 * A[1], A[2]]).astype(np.float32)
    found = np.asarray(pn.jit(pn.linalg.expm)(pn.asarray(x)))
    assert found.dtype == np.float32
    for one, wanted in zip(found, x, strict=True):
        exact = scipy.expm(wanted.astype(np.float64))
        np.testing.assert_allclose(one, exact, rtol=2e-4, atol=2e-4 * np.abs(exact).max())
    assert pn.linalg.expm(pn.zeros((2, 0, 0))).shape == (2, 0, 0)


@pytest.mark.parametrize("x", [A[0], 8 * A[1], C[0]], ids=["real", "squared", "complex"])
def test_the_slope_of_the_exponential(x: Any):
    weight = pn.asarray(rng.normal(size=(4, 4)))
    slope_fits(lambda x: pn.sum(pn.real(pn.linalg.expm(x * 0.3)) * weight), x, 1e-5)


def test_roots():
    x = A @ np.swapaxes(A, -1, -2) + 0.5 * A
    x = x + (0.1 - np.minimum(np.linalg.eigvals(x).real.min(), 0)) * np.eye(4)
    root = np.asarray(pn.linalg.sqrtm(pn.asarray(x)))
    np.testing.assert_allclose(root @ root, x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(root, np.stack([scipy.sqrtm(one) for one in x]).real, rtol=1e-7, atol=1e-8)
    slope_fits(lambda x: pn.sum(pn.linalg.sqrtm(x) ** 2 * pn.arange(4.0, dtype=pn.float64)), x, 1e-5)


def test_logarithms():
    x = np.stack([scipy.expm(0.7 * one) for one in A])
    found = np.asarray(pn.linalg.logm(pn.asarray(x)))
    np.testing.assert_allclose(found, np.stack([scipy.logm(one) for one in x]).real, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(np.asarray(pn.linalg.expm(pn.asarray(found))), x, rtol=1e-8, atol=1e-9)
    weight = pn.asarray(rng.normal(size=(4, 4)))
    slope_fits(lambda x: pn.sum(pn.linalg.logm(x) * weight), x[0], 1e-5)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 3), (2, 3, 5), (1, 1)])
def test_lu(shape: tuple[int, ...]):
    x = rng.normal(size=shape)
    p, lower, upper = pn.linalg.lu(pn.asarray(x))
    np.testing.assert_allclose(np.asarray(p @ lower @ upper), x, rtol=1e-12, atol=1e-12)
    wanted = scipy.lu(x.reshape(-1, *shape[-2:])[0])
    for found, one in zip((p, lower, upper), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(found).reshape(-1, *one.shape)[0], one, rtol=1e-12, atol=1e-12)


def test_the_slope_of_lu():
    weight = pn.asarray(rng.normal(size=(4, 4)))
    slope_fits(
        lambda x: pn.sum(pn.linalg.lu(x).L * weight) + pn.sum(pn.linalg.lu(x).U * weight**2), A[0], 1e-5
    )


def test_solving_by_factors():
    factors = pn.linalg.lu_factor(pn.asarray(C))
    b = rng.normal(size=(3, 4, 2))
    np.testing.assert_allclose(
        np.asarray(pn.linalg.lu_solve(factors, pn.asarray(b))), np.linalg.solve(C, b), rtol=1e-10
    )
    v = b[0, :, 0]
    np.testing.assert_allclose(
        np.asarray(pn.linalg.lu_solve(factors, pn.asarray(v))),
        np.linalg.solve(C, v[:, None])[..., 0],
        rtol=1e-10,
    )


def test_equations_of_tensors():
    a = rng.normal(size=(2, 3, 6))
    np.testing.assert_allclose(
        np.asarray(pn.linalg.tensorinv(pn.asarray(a))), np.linalg.tensorinv(a), rtol=1e-9
    )
    b = rng.normal(size=(2, 3))
    np.testing.assert_allclose(
        np.asarray(pn.linalg.tensorsolve(pn.asarray(a), pn.asarray(b))),
        np.linalg.tensorsolve(a, b),
        rtol=1e-9,
    )
    turned = np.moveaxis(a, 2, 0)
    np.testing.assert_allclose(
        np.asarray(pn.linalg.tensorsolve(pn.asarray(turned), pn.asarray(b), axes=(0,))),
        np.linalg.tensorsolve(turned, b, axes=(0,)),
        rtol=1e-9,
    )


@pytest.mark.parametrize("x", [A[0], C[0]], ids=["real", "complex"])
def test_the_slope_of_eigenvalues_and_vectors(x: Any):
    weight = rng.normal(size=4) + 1j * rng.normal(size=4)
    shares = rng.normal(size=(4, 4))

    def of_values(x: pn.Tensor) -> pn.Tensor:
        # symmetric in the eigenvalues: their order is LAPACK's
        values = pn.linalg.eigvals(x)
        return pn.sum(pn.abs(values) ** 3) + pn.real(pn.prod(values - complex(weight[0])))

    def of_vectors(x: pn.Tensor) -> pn.Tensor:
        values, vectors = pn.linalg.eig(x)
        return pn.sum(pn.abs(vectors) ** 2 * pn.asarray(shares[:, :1]) * pn.abs(values) ** 2)

    slope_fits(of_values, x, 1e-5)
    slope_fits(of_vectors, x, 1e-5)


def test_the_gradient_of_eig_is_torchs():
    torch: Any = pytest.importorskip("torch")

    def invariant(found: Any, library: Any) -> Any:
        values, vectors = found
        return (library.abs(vectors) ** 2 * library.abs(values) ** 2).sum() + library.real(
            values * values
        ).sum()

    x = torch.tensor(A[1], requires_grad=True)
    invariant(torch.linalg.eig(x), torch).backward()
    found = pn.grad(lambda x: invariant(pn.linalg.eig(x), pn))(pn.asarray(A[1]))
    np.testing.assert_allclose(np.asarray(found), x.grad.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: pn.linalg.expm(pn.ones((2, 3))), "not square"),
        (lambda: pn.linalg.lu_solve(pn.linalg.lu_factor(pn.eye(3)), pn.ones(2)), "do not fit"),
        (lambda: pn.linalg.tensorinv(pn.ones((2, 3))), "cut at 2 is not square"),
        (lambda: pn.linalg.tensorsolve(pn.ones((2, 3)), pn.ones(2)), "do not fit"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call()

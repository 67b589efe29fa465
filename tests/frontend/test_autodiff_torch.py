"""Against torch: composites, and the choices it makes at ties and edges."""

from __future__ import annotations

import numpy as np
import pytest

import planish as pn
from planish import ptir
from planish.frontend.autodiff import jvp, vjp
from planish.frontend.transforms import grad, value_and_grad
from planish.ptir import Graph

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(11)


def numbers(*shape, dtype=np.float64):
    return RNG.standard_normal(shape).astype(dtype)


def torch_gradients(function, arrays, seed=0):
    given = [torch.tensor(a, requires_grad=a.dtype.kind in "fc") for a in arrays]
    out = function(*given)
    cotangent: np.ndarray = np.random.default_rng(seed).standard_normal(tuple(out.shape))
    cotangent = np.asarray(cotangent * (1 - 0.5j) if out.dtype.is_complex else cotangent)
    out.backward(torch.tensor(cotangent, dtype=out.dtype))
    gradients = [None if x.grad is None else x.grad.resolve_conj().numpy() for x in given]
    return out.detach().numpy(), np.asarray(cotangent), gradients


# --- ties and edges, op by op ---

ZERO, ONE = np.zeros(3), np.ones(3)
TIES = np.array([[1.0, 3.0, 3.0, -2.0], [2.0, 2.0, 2.0, 2.0], [0.0, -0.0, 0.0, -1.0]])
EDGES = [
    ("maximum", lambda g, x, y: x.max(y), torch.maximum, (TIES, TIES[:, ::-1].copy())),
    ("minimum", lambda g, x, y: x.min(y), torch.minimum, (TIES, TIES[:, ::-1].copy())),
    ("abs", lambda g, x: x.abs(), torch.abs, (np.array([-1.0, 0.0, -0.0, 2.0]),)),
    ("sign", lambda g, x: x.sign(), torch.sign, (np.array([-1.0, 0.0, 2.0]),)),
    ("amax", lambda g, x: x.reduce_max([1]), lambda x: torch.amax(x, 1), (TIES,)),
    ("amin", lambda g, x: x.reduce_min([1]), lambda x: torch.amin(x, 1), (TIES,)),
    ("amax of all", lambda g, x: x.reduce_max(), torch.amax, (TIES,)),
    ("prod", lambda g, x: x.reduce_prod([1]), lambda x: torch.prod(x, 1), (TIES,)),
    ("cumprod", lambda g, x: x.cumprod(1), lambda x: torch.cumprod(x, 1), (TIES,)),
    ("cummax", lambda g, x: x.cummax(1), lambda x: torch.cummax(x, 1).values, (TIES,)),
    ("cummin", lambda g, x: x.cummin(1), lambda x: torch.cummin(x, 1).values, (TIES,)),
    ("sort", lambda g, x: x.sort(1, True), lambda x: torch.sort(x, dim=1, descending=True, stable=True).values, (TIES,)),
    ("sqrt", lambda g, x: x.sqrt(), torch.sqrt, (np.array([0.0, 1.0]),)),
    ("rsqrt", lambda g, x: x.rsqrt(), torch.rsqrt, (np.array([0.5, 1.0]),)),
    ("reciprocal", lambda g, x: x.reciprocal(), torch.reciprocal, (np.array([0.0, 1.0]),)),
    ("log", lambda g, x: x.log(), torch.log, (np.array([0.0, 1.0]),)),
    ("pow at 0", lambda g, x, y: x.pow(y), torch.pow, (np.array([0.0, 0.0, 0.0, -2.0]), np.array([0.0, 1.0, 2.5, 3.0]))),
    ("hypot", lambda g, x, y: x.hypot(y), torch.hypot, (np.array([3.0, 0.0]), np.array([4.0, 2.0]))),
    ("copysign", lambda g, x, y: x.copysign(y), torch.copysign, (np.array([0.0, -2.0, 3.0]), np.array([-1.0, -0.0, 0.0]))),
    ("remainder", lambda g, x, y: x.floor_mod(y), torch.remainder, (np.array([4.0, -3.5]), np.array([2.0, 1.5]))),
    ("fmod", lambda g, x, y: x.trunc_mod(y), torch.fmod, (np.array([4.0, -3.5]), np.array([2.0, 1.5]))),
    ("floor", lambda g, x: x.floor(), torch.floor, (np.array([1.0, 1.5]),)),
    ("erfinv", lambda g, x: x.erfinv(), torch.erfinv, (np.array([0.0, 0.5]),)),
    ("digamma", lambda g, x: x.digamma(), torch.digamma, (np.array([0.5, 2.0, -1.5, 30.0]),)),
    ("lgamma", lambda g, x: x.lgamma(), torch.lgamma, (np.array([0.5, 2.0, -1.5, 30.0]),)),
    (
        "max pooling",
        lambda g, x: x.reduce_window("max", [1, 1, 2, 2], [1, 1, 1, 1]),
        lambda x: torch.nn.functional.max_pool2d(x, 2, 1),
        (np.stack([TIES, TIES.T[:3, :].repeat(2, 1)[:, :4]])[None],),
    ),
    (
        "max pooling with padding",
        lambda g, x: x.reduce_window("max", [1, 1, 3, 2], [1, 1, 2, 2], [(0, 0), (0, 0), (1, 1), (1, 1)]),
        lambda x: torch.nn.functional.max_pool2d(x, (3, 2), 2, 1),
        (np.round(numbers(2, 2, 5, 6)),),
    ),
    *[
        (
            f"scatter {kind}",
            lambda g, x, u, k=kind: x.scatter(u, [g.constant(np.array([0, 0, 2, 0]))], [0], k),
            lambda x, u, r=reduce: x.scatter_reduce(0, torch.tensor([0, 0, 2, 0]), u, r),
            (np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 5.0, 0.5])),
        )
        for kind, reduce in (("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin"))
    ],
    (
        "scatter of zeros",
        lambda g, x, u: x.scatter(u, [g.constant(np.array([0, 1, 1, 2]))], [0], "mul"),
        lambda x, u: x.scatter_reduce(0, torch.tensor([0, 1, 1, 2]), u, "prod"),
        (np.array([1.0, 2.0, 3.0]), np.array([0.0, 0.0, 4.0, 5.0])),
    ),
    ("complex abs", lambda g, x: x.abs(), torch.abs, (np.array([3 + 4j, 0j, -1j]),)),
    ("complex sign", lambda g, x: x.sign(), torch.sgn, (np.array([3 + 4j, 0j, -1j]),)),
    ("complex mul", lambda g, x, y: x.mul(y), torch.mul, (np.array([3 + 4j, 1j]), np.array([2 - 1j, 2.0 + 0j]))),
    ("complex real", lambda g, x: x.real(), torch.real, (np.array([3 + 4j, 1j]),)),
    ("complex imag", lambda g, x: x.imag(), torch.imag, (np.array([3 + 4j, 1j]),)),
    ("complex exp", lambda g, x: x.exp(), torch.exp, (np.array([3 + 4j, 1j]),)),
    ("complex prod", lambda g, x: x.reduce_prod([0]), lambda x: torch.prod(x, 0), (np.array([3 + 4j, 1j, 2.0]),)),
    ("rfft", lambda g, x: x.rfft([0]), torch.fft.rfft, (numbers(5),)),
    ("irfft", lambda g, x: x.irfft(4, [0]), lambda x: torch.fft.irfft(x, 4), (numbers(3) + 1j * numbers(3),)),
    ("cholesky", lambda g, x: x.cholesky(), torch.linalg.cholesky, (np.diag([2.0, 3.0]) + 0.5,)),
    ("eigvalsh", lambda g, x: x.eigh()[0], torch.linalg.eigvalsh, (np.diag([2.0, 3.0]) + 0.5,)),
    ("svdvals", lambda g, x: x.svd(compute_uv=False)[0], torch.linalg.svdvals, (numbers(3, 2),)),
    (
        "solve_triangular",
        lambda g, a, b: a.triangular_solve(b, lower=False),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
        (numbers(3, 3) + 3 * np.eye(3), numbers(3, 2)),
    ),
    (
        "complex solve",
        lambda g, a, b: a.triangular_solve(b, lower=False),
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
        (numbers(2, 2) + 1j * numbers(2, 2) + 2 * np.eye(2), numbers(2, 2) + 1j * numbers(2, 2)),
    ),
    ("qr", lambda g, x: x.qr()[0].matmul(x.qr()[1].exp()), lambda x: torch.linalg.qr(x)[0] @ torch.linalg.qr(x)[1].exp(), (numbers(4, 3),)),
    ("qr, complex", lambda g, x: x.qr()[0], lambda x: torch.linalg.qr(x)[0], (numbers(3, 3) + 1j * numbers(3, 3),)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "build", "reference", "arrays"), EDGES, ids=[case[0] for case in EDGES])
def test_edges(name, build, reference, arrays):
    g = Graph("f")
    values = [g.input(f"a{n}", ptir.tensor(pn.asarray(a).dtype, a.shape)) for n, a in enumerate(arrays)]
    function = g.build(build(g, *values))
    result, cotangent, wanted = torch_gradients(reference, arrays)
    with np.errstate(all="ignore"):
        found = ptir.interpret(vjp(function), [*arrays, cotangent])
        np.testing.assert_allclose(found[0], result, atol=1e-12)
        for own, theirs in zip(found[1:], wanted, strict=True):
            np.testing.assert_allclose(own, theirs, rtol=1e-9, atol=1e-9)
        tangents = [np.ones_like(a) for a in arrays]
        (moved,) = ptir.interpret(jvp(function), [*arrays, *tangents])[1:]
    if np.isfinite(moved).all():
        left = np.real(np.vdot(cotangent, moved))
        right = sum(np.real(np.vdot(own, t)) for own, t in zip(found[1:], tangents, strict=True))
        np.testing.assert_allclose(left, right, rtol=1e-9)


# --- composites on tensors ---


def both(ours, theirs, *arrays, rtol=1e-9, device="interpreter"):
    """A scalar function of planish and of torch: values and gradients."""
    tensors = [pn.asarray(a, device=device) for a in arrays]
    value, gradients = value_and_grad(ours, tuple(range(len(arrays))))(*tensors)
    given = [torch.tensor(a, requires_grad=True) for a in arrays]
    wanted = theirs(*given)
    wanted.backward()
    np.testing.assert_allclose(value.numpy(), wanted.detach().numpy(), rtol=rtol)
    for own, x in zip(gradients, given, strict=True):
        np.testing.assert_allclose(own.numpy(), x.grad.resolve_conj().numpy(), rtol=rtol, atol=rtol)


def test_multilayer_perceptron_with_cross_entropy():
    labels = np.array([0, 2, 1, 1])

    def ours(x, w, b, v):
        hidden = pn.tanh(x @ w + b)
        logits = hidden @ v
        shifted = logits - pn.max(logits, axis=1, keepdims=True)
        log_softmax = shifted - pn.log(pn.sum(pn.exp(shifted), axis=1, keepdims=True))
        return -pn.mean(log_softmax[pn.arange(4), pn.asarray(labels)])

    def theirs(x, w, b, v):
        return torch.nn.functional.cross_entropy(torch.tanh(x @ w + b) @ v, torch.tensor(labels))

    arrays = numbers(4, 5), numbers(5, 6), numbers(6), numbers(6, 3)
    both(ours, theirs, *arrays)
    both(ours, theirs, *arrays, device="cpu")


def test_attention_with_a_causal_mask():
    mask = np.tril(np.ones((5, 5), bool))

    def ours(q, k, v):
        scores = q @ k.mT / 2.0
        scores = pn.where(pn.asarray(mask), scores, -float("inf"))
        weights = pn.exp(scores - pn.max(scores, axis=-1, keepdims=True))
        weights = weights / pn.sum(weights, axis=-1, keepdims=True)
        return pn.sum(pn.sin(weights @ v))

    def theirs(q, k, v):
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.sin(made).sum()

    both(ours, theirs, numbers(2, 5, 4), numbers(2, 5, 4), numbers(2, 5, 4))


def test_layer_norm_and_logsumexp():
    def ours(x, scale, shift):
        centred = x - pn.mean(x, axis=-1, keepdims=True)
        normal = centred / pn.sqrt(pn.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
        return pn.sum(pn.log(pn.sum(pn.exp(normal * scale + shift), axis=-1)))

    def theirs(x, scale, shift):
        return torch.logsumexp(torch.nn.functional.layer_norm(x, (6,), scale, shift), -1).sum()

    both(ours, theirs, numbers(3, 6), numbers(6), numbers(6))


def test_gaussian_likelihood_through_cholesky():
    def ours(a, y):
        covariance = a @ a.mT + pn.eye(4, dtype=pn.float64)
        factor = pn.linalg.cholesky(covariance)
        return pn.sum(y * (pn.linalg.solve(covariance, y))) + 2 * pn.sum(pn.log(pn.linalg.diagonal(factor)))

    def theirs(a, y):
        covariance = a @ a.mT + torch.eye(4, dtype=torch.float64)
        factor = torch.linalg.cholesky(covariance)
        return (y * torch.linalg.solve(covariance, y)).sum() + 2 * torch.log(torch.diagonal(factor)).sum()

    both(ours, theirs, numbers(4, 4), numbers(4, 1))


def test_inverse_and_determinant():
    both(
        lambda a: pn.sum(pn.linalg.inv(a)) + pn.linalg.det(a),
        lambda a: torch.linalg.inv(a).sum() + torch.linalg.det(a),
        numbers(3, 3) + 2 * np.eye(3),
    )


def test_spectrum_of_complex_numbers():
    def ours(x):
        spectrum = pn.fft.fft(x)
        return pn.sum(pn.abs(spectrum) ** 2 * pn.real(spectrum)) + pn.sum(pn.imag(pn.exp(x)))

    def theirs(x):
        spectrum = torch.fft.fft(x)
        return (spectrum.abs() ** 2 * spectrum.real).sum() + torch.exp(x).imag.sum()

    both(ours, theirs, numbers(5) + 1j * numbers(5))


def test_gradient_of_a_gradient():
    def penalty_ours(x, w):
        slope = grad(lambda x: pn.sum(pn.tanh(x @ w)))(x)
        return pn.sum(slope**2)

    def penalty_theirs(x, w):
        (slope,) = torch.autograd.grad(torch.tanh(x @ w).sum(), x, create_graph=True)
        return (slope**2).sum()

    both(penalty_ours, penalty_theirs, numbers(3, 4), numbers(4, 2))


def test_sorted_and_indexed():
    index = np.array([2, 0, 0, 3])
    both(
        lambda x: pn.sum(pn.sort(x, axis=0)[pn.asarray(index)] * pn.arange(4, dtype=pn.float64)[:, None]),
        lambda x: (
            torch.sort(x, 0).values[torch.tensor(index)] * torch.arange(4.0, dtype=torch.float64)[:, None]
        ).sum(),
        numbers(5, 3),
    )


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_and_pooling(groups):
    x, kernel = numbers(2, 4, 9, 8), numbers(6, 4 // groups, 3, 2)

    def build(g, x, k):
        made = x.convolution(k, strides=[2, 1], padding=[(1, 1), (2, 2)], rhs_dilation=[1, 2], groups=groups)
        return made.reduce_window("max", [1, 1, 2, 2], [1, 1, 2, 1]).sin().reduce_sum()

    g = Graph("f")
    function = g.build(
        build(g, g.input("x", ptir.tensor("f64", x.shape)), g.input("k", ptir.tensor("f64", kernel.shape)))
    )
    given = [torch.tensor(a, requires_grad=True) for a in (x, kernel)]
    made = torch.nn.functional.conv2d(*given, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=groups)
    torch.sin(torch.nn.functional.max_pool2d(made, 2, (2, 1))).sum().backward()
    found = ptir.interpret(vjp(function), [x, kernel, np.array(1.0)])[1:]
    for own, theirs in zip(found, given, strict=True):
        np.testing.assert_allclose(own, theirs.grad.numpy(), rtol=1e-9, atol=1e-9)


def test_a_recurrent_network_is_a_scan():
    def build(g, xs, h, w, u):
        final, hs = g.scan(lambda h, x: [x.matmul(w).add(h.matmul(u)).tanh()] * 2, [h], [xs])
        return final.reduce_sum().add(hs.mul(hs).reduce_sum())

    arrays = numbers(5, 2, 3), numbers(2, 4), numbers(3, 4), numbers(4, 4)
    g = Graph("f")
    function = g.build(
        build(g, *[g.input(f"a{n}", ptir.tensor("f64", a.shape)) for n, a in enumerate(arrays)])
    )
    xs, h, w, u = (torch.tensor(a, requires_grad=True) for a in arrays)
    state, states = h, []
    for x in xs:
        state = torch.tanh(x @ w + state @ u)
        states.append(state)
    (state.sum() + (torch.stack(states) ** 2).sum()).backward()
    found = ptir.interpret(vjp(function), [*arrays, np.array(1.0)])[1:]
    for own, theirs in zip(found, (xs, h, w, u), strict=True):
        np.testing.assert_allclose(own, theirs.grad.numpy(), rtol=1e-9)

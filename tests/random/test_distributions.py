"""Distributions with parameters: samples against the exact distributions, slopes against finite differences, shapes and dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import planish as pn
from planish import random
from planish.errors import PlanishError
from tests.random.test_random import distance

stats: Any = pytest.importorskip("scipy.stats")
special: Any = pytest.importorskip("scipy.special")
N = 20_000

CONTINUOUS: dict[str, tuple[Callable[..., pn.Tensor], Any]] = {
    "gamma 0.05": (lambda k, d: random.gamma(k, 0.05, N, d), stats.gamma(0.05)),
    "gamma 1": (lambda k, d: random.gamma(k, 1.0, N, d), stats.gamma(1)),
    "gamma 7.5": (lambda k, d: random.gamma(k, 7.5, N, d, 0.5), stats.gamma(7.5, scale=0.5)),
    "gamma 1e5": (lambda k, d: random.gamma(k, 1e5, N, d), stats.gamma(1e5)),
    "beta": (lambda k, d: random.beta(k, 0.5, 2.0, N, d), stats.beta(0.5, 2)),
    "beta small": (lambda k, d: random.beta(k, 0.1, 2.0, N, d), stats.beta(0.1, 2)),
    "dirichlet": (
        lambda k, d: random.dirichlet(k, pn.asarray([0.5, 1.5, 3.0]), N, d)[:, 1],
        stats.beta(1.5, 3.5),
    ),
    "chisquare": (lambda k, d: random.chisquare(k, 3.0, N, d), stats.chi2(3)),
    "t": (lambda k, d: random.t(k, 2.5, N, d), stats.t(2.5)),
    "f": (lambda k, d: random.f(k, 4.0, 7.0, N, d), stats.f(4, 7)),
    "generalized_normal": (lambda k, d: random.generalized_normal(k, 3.0, N, d), stats.gennorm(3)),
    "lognormal": (lambda k, d: random.lognormal(k, 0.7, N, d), stats.lognorm(0.7)),
    "pareto": (lambda k, d: random.pareto(k, 2.0, N, d), stats.pareto(2)),
    "weibull": (lambda k, d: random.weibull(k, 1.7, 2.0, N, d), stats.weibull_min(1.7, scale=2)),
    "rayleigh": (lambda k, d: random.rayleigh(k, 1.5, N, d), stats.rayleigh(scale=1.5)),
    "maxwell": (lambda k, d: random.maxwell(k, N, d), stats.maxwell()),
    "triangular": (lambda k, d: random.triangular(k, -1.0, 0.5, 3.0, N, d), stats.triang(1.5 / 4, -1, 4)),
    "wald": (lambda k, d: random.wald(k, 2.0, N, d), stats.invgauss(2.0)),
    "vonmises": (lambda k, d: random.vonmises(k, 0.0, 2.0, N, d), stats.vonmises(2)),
    "vonmises flat": (lambda k, d: random.vonmises(k, 0.0, 0.0, N, d), stats.uniform(-math.pi, 2 * math.pi)),
    "vonmises tight": (lambda k, d: random.vonmises(k, 0.0, 2e6, N, d), stats.norm(scale=2e6**-0.5)),
    "ball": (lambda k, d: pn.sum(random.ball(k, 3, 2.0, N, d) ** 2, axis=-1) ** 1.5, stats.uniform()),
    "orthogonal": (lambda k, d: random.orthogonal(k, 3, N // 4, d)[:, 0, 0], stats.uniform(-1, 2)),
    "multivariate_normal": (
        lambda k, d: (
            random.multivariate_normal(k, pn.asarray([1.0, 2.0]), pn.asarray([[2.0, 0.6], [0.6, 1.0]]), N, d)
            @ pn.asarray([1.0, -1.0], dtype=d)
        ),
        stats.norm(-1, math.sqrt(1.8)),
    ),
}


QUICK = {
    "gamma 0.05",
    "gamma 7.5",
    "beta",
    "dirichlet",
    "t",
    "wald",
    "vonmises",
    "multivariate_normal",
    "poisson 9.9",
    "poisson 400",
}
QUICK |= {"binomial few", "binomial many mirrored", "multinomial"}


def often(names: Iterable[str]) -> list[Any]:
    """Each has programs of its own to compile: those that go ways of their own are tried always, the others when all is."""
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in names]


@pytest.mark.parametrize("dtype", [pn.float32, pytest.param(pn.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", often(CONTINUOUS))
def test_continuous_distributions(name: str, dtype: Any):
    draw, exact = CONTINUOUS[name]
    sample = draw(random.key(17), dtype)
    assert sample.dtype is dtype
    # beyond 1.95 in one of a thousand samples
    assert distance(np.asarray(sample), exact.cdf) < 1.95


COUNTS: dict[str, tuple[Callable[[pn.Tensor], pn.Tensor], Any]] = {
    "poisson 0.3": (lambda k: random.poisson(k, 0.3, N), stats.poisson(0.3)),
    "poisson 9.9": (lambda k: random.poisson(k, 9.9, N), stats.poisson(9.9)),
    "poisson 10": (lambda k: random.poisson(k, 10.0, N), stats.poisson(10)),
    "poisson 400": (lambda k: random.poisson(k, 400.0, N), stats.poisson(400)),
    "binomial few": (lambda k: random.binomial(k, 12, 0.4, N), stats.binom(12, 0.4)),
    "binomial mirrored": (lambda k: random.binomial(k, 12, 0.9, N), stats.binom(12, 0.9)),
    "binomial many": (lambda k: random.binomial(k, 300, 0.3, N), stats.binom(300, 0.3)),
    "binomial many mirrored": (lambda k: random.binomial(k, 300, 0.8, N), stats.binom(300, 0.8)),
    "binomial rare": (lambda k: random.binomial(k, 100_000, 1e-5, N), stats.binom(100_000, 1e-5)),
    "negative_binomial": (lambda k: random.negative_binomial(k, 3.5, 0.4, N), stats.nbinom(3.5, 0.4)),
    "geometric": (lambda k: random.geometric(k, 0.3, N), stats.geom(0.3)),
    "multinomial": (
        lambda k: random.multinomial(k, 40, pn.asarray([0.1, 0.2, 0.7]), N)[:, 1],
        stats.binom(40, 0.2),
    ),
}


@pytest.mark.parametrize("name", often(COUNTS))
def test_counts(name: str):
    """Pearson's test: counts that are expected less than ten times are taken together at both ends."""
    draw, exact = COUNTS[name]
    sample = np.asarray(draw(random.key(5)))
    assert sample.dtype == np.int64
    low, high = int(exact.ppf(10 / N)), int(exact.ppf(1 - 10 / N))
    found = np.array(
        [(sample <= low).sum(), *[(sample == k).sum() for k in range(low + 1, high)], (sample >= high).sum()]
    )
    wanted = N * np.array([exact.cdf(low), *exact.pmf(np.arange(low + 1, high)), exact.sf(high - 1)])
    value = float(((found - wanted) ** 2 / wanted).sum())
    assert stats.chi2(max(len(found) - 1, 1)).sf(value) > 1e-3


def test_multinomial_counts_add_up():
    p = pn.asarray([[0.2, 0.8, 0.0], [0.5, 0.0, 0.5]])
    found = np.asarray(random.multinomial(random.key(0), pn.asarray([7, 50]), p, (100, 2)))
    assert (found.sum(-1) == [7, 50]).all()
    assert (found[:, 0, 2] == 0).all()
    assert (found[:, 1, 1] == 0).all()


# --- gradients --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [0.01, 0.9, 2.5, 30.0, 3000.0, 5e4])
def test_the_slope_of_gamma_is_that_of_its_quantile(a: float):
    x, slope = pn.jvp(
        lambda a: random.gamma(random.key(3), a, (50,), pn.float64), (pn.asarray(a, dtype=pn.float64),), (pn.asarray(1.0, dtype=pn.float64),)
    )  # fmt: skip
    found, at = np.asarray(slope), np.asarray(x)
    place = special.gammainc(a, at)
    inside = (place > 1e-4) & (place < 1 - 1e-4)
    h = 1e-5 * a
    wanted = (special.gammaincinv(a + h, place) - special.gammaincinv(a - h, place)) / (2 * h)
    np.testing.assert_allclose(found[inside], wanted[inside], rtol=2e-5, atol=1e-9)
    assert inside.sum() > 40


def test_gradients_of_expectations():
    """E[x] of a beta is a/(a+b): slopes of the mean of many draws are near its slopes."""
    key = random.key(1)

    def mean_of_beta(a: pn.Tensor, b: pn.Tensor) -> pn.Tensor:
        return pn.mean(random.beta(key, a, b, N))

    by_a, by_b = pn.grad(mean_of_beta, argnums=(0, 1))(pn.asarray(2.0), pn.asarray(3.0))
    assert float(by_a) == pytest.approx(3 / 25, rel=0.05)
    assert float(by_b) == pytest.approx(-2 / 25, rel=0.05)


@pytest.mark.slow
def test_gradients_of_other_expectations():
    key, alpha = random.key(1), pn.asarray([1.0, 2.0, 3.0])
    slope = pn.jit(pn.grad(lambda a: pn.mean(random.dirichlet(key, a, N)[:, 0])))(alpha)
    np.testing.assert_allclose(np.asarray(slope), [5 / 36, -1 / 36, -1 / 36], rtol=0.1)
    scale = pn.grad(lambda s: pn.mean(random.gamma(key, 2.0, N, scale=s)))(pn.asarray(1.5))
    assert float(scale) == pytest.approx(2, rel=0.05)


# --- shapes, dtypes, transforms ---------------------------------------------------------------------------


def test_shapes_are_those_of_the_parameters_or_larger():
    key, a = random.key(0), pn.asarray([[1.0], [2.0]])
    assert random.gamma(key, a).shape == (2, 1)
    assert random.beta(key, a, pn.ones(3)).shape == (2, 3)
    assert random.poisson(key, a, (5, 2, 4)).shape == (5, 2, 4)
    assert random.dirichlet(key, pn.ones((2, 3))).shape == (2, 3)
    assert random.dirichlet(key, pn.ones(3), 4).shape == (4, 3)
    assert random.multivariate_normal(key, pn.zeros(2), pn.eye(2), (5, 3)).shape == (5, 3, 2)
    assert random.gamma(key, pn.asarray(1.0, dtype=pn.float64)).dtype is pn.float64
    assert random.gamma(key, 1.0, dtype=pn.bfloat16).dtype is pn.bfloat16
    assert random.poisson(key, 3.0, dtype=pn.float32).dtype is pn.float32
    q = np.asarray(random.orthogonal(key, 4, 2, pn.float64))
    np.testing.assert_allclose(q @ np.swapaxes(q, -1, -2), np.broadcast_to(np.eye(4), (2, 4, 4)), atol=1e-12)


def test_parameters_are_numbers_arrays_or_lists():
    key = random.key(0)
    given = [pn.asarray([1.0, 2.0]), np.array([1.0, 2.0], np.float32), [1.0, 2.0]]
    first, *rest = (random.gamma(key, a).tolist() for a in given)  # type: ignore[arg-type] # what people give
    assert all(other == pytest.approx(first, rel=1e-6) for other in rest)


def test_what_is_no_parameter_gives_nan_or_nothing_and_ends():
    key = random.key(0)
    assert np.isnan(np.asarray(random.gamma(key, pn.asarray([-1.0, 0.0, math.nan])))).all()
    assert random.poisson(key, pn.asarray([-1.0, 0.0, math.nan])).tolist() == [0, 0, 0]
    assert random.binomial(key, pn.asarray([0, 5, 5]), pn.asarray([0.5, 0.0, 1.0])).tolist() == [0, 0, 5]
    assert np.isnan(np.asarray(random.vonmises(key, 0.0, pn.asarray([-1.0, math.nan])))).all()
    assert np.isfinite(np.asarray(random.loggamma(key, 1e-4, (100,)))).all()


@pytest.mark.parametrize("name", ["gamma", "poisson"])
def test_batches_draw_what_each_key_draws(name: str):
    draw: Any = {
        "gamma": lambda k: random.gamma(k, pn.asarray([0.5, 3.0])),
        "poisson": lambda k: random.poisson(k, pn.asarray([2.0, 50.0])),
    }[name]
    keys = random.split(random.key(2), 6)
    together = np.asarray(pn.jit(pn.vmap(draw))(keys))
    alone = np.stack([np.asarray(draw(pn.asarray(one))) for one in np.asarray(keys)])
    np.testing.assert_allclose(together, alone, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda k: random.gamma(k, pn.ones(3), (2,)), r"shape \(3,\) do not broadcast to \(2,\)"),
        (lambda k: random.gamma(k, 1.0, dtype=pn.int32), "int32 is not float16"),
        (lambda k: random.poisson(k, 1.0, dtype=pn.bool), "bool does not count"),
        (lambda k: random.dirichlet(k, pn.asarray(1.0)), "alpha has no axis"),
        (lambda k: random.multinomial(k, 3, pn.asarray(1.0)), "no axis of probabilities"),
        (lambda k: random.multivariate_normal(k, pn.ones(2), pn.ones((3, 3))), "do not fit"),
        (lambda k: random.gamma(pn.ones(3), 1.0), "a key is two uint32"),
    ],
)
def test_mistakes(call: Any, complaint: str):
    with pytest.raises(PlanishError, match=complaint):
        call(random.key(0))

"""Counts: Poisson, binomial, negative binomial, geometric and multinomial numbers.

Few expected: the distribution is walked from 0 on until it passes a uniform number. Many: rejection with transformed uniform numbers
(Hörmann, 1993), whose rounds do not grow with what is expected. All in float64, whatever the result is in.
"""

from __future__ import annotations

from collections.abc import Callable

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.frontend.control import scan, while_loop
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor
from planish.random.core import Numbers, Shape, _checked, _open, _unit, fold_in, split
from planish.random.gammas import gamma
from planish.random.parameters import prepared

_FEW = 10.0
"""Expected counts up to which walking is quick."""
_WIDE = dtypes.float64


def _walked(key: Tensor, least: Tensor, ratio: Callable[[Tensor], Tensor], waits: Tensor) -> Tensor:
    """The count at which the sum of probabilities passes a uniform number; `ratio(k)` is that of k + 1 over that of k."""
    u = _unit("counts", key, least.shape, _WIDE)

    def goes_on(state: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
        return fn.any(state[3])

    def step(state: tuple[Tensor, Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        count, each, total, waiting = state
        each = each * ratio(count)
        count = fn.where(waiting, count + 1.0, count)
        total = total + each
        # a sum that no longer grows will not pass anything
        return count, each, total, waiting & (u >= total) & (each > 1e-17)

    state = (fn.zeros_like(least), least, least, waits & (u >= least))
    count: Tensor = while_loop(goes_on, step, state)[0]
    return count


def _rejected(
    key: Tensor, centre: Tensor, a: Tensor, b: Tensor, sure: Tensor, fits: Callable[[Tensor, Tensor], Tensor], waits: Tensor
) -> Tensor:  # fmt: skip
    """Counts k = floor((2a/(1/2 - |u|) + b)·u + centre), taken at once if v ≤ sure near the middle, else if `fits(k, log …)`."""

    def some_wait(state: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        return fn.any(state[1])

    def round(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        number, waiting, kept = state
        first, second = split(fold_in(key, number))
        u = _unit("counts", first, centre.shape, _WIDE) - 0.5
        v = _open("counts", second, centre.shape, _WIDE)
        edge = fn.maximum(0.5 - fn.abs(u), 1e-300)
        k = fn.floor((2.0 * a / edge + b) * u + centre)
        at_once = (edge >= 0.07) & (v <= sure)
        taken = at_once | (~((edge < 0.013) & (v > edge)) & fits(k, fn.log(v / (a / (edge * edge) + b))))
        return number + 1, waiting & ~taken, fn.where(waiting & taken, k, kept)

    counts: Tensor = while_loop(some_wait, round, (fn.asarray(0), waits, fn.zeros_like(centre)))[2]
    return counts


def _integers(op: str, dtype: DType) -> DType:
    if not (dtype.is_int or dtype.is_float):
        raise DTypeError.of(op, f"{dtype.name} does not count", "an integer or float dtype")
    return dtype


def poisson(key: Tensor, lam: Numbers, shape: Shape | None = None, dtype: DType = dtypes.int64) -> Tensor:
    """How often something happens that happens lam times on average. 0 for what is no positive number."""
    (mean,), _ = prepared("poisson", shape, _WIDE, lam)
    return _poisson(_checked("poisson", key), mean).astype(_integers("poisson", dtype))


def _poisson(key: Tensor, mean: Tensor) -> Tensor:
    few, many = (mean > 0.0) & (mean < _FEW), mean >= _FEW
    one, two = split(key)
    small = fn.where(few, mean, 1.0)
    walked = _walked(one, fn.exp(-small), lambda k: small / (k + 1.0), few)
    large = fn.where(many, mean, _FEW)
    logs = fn.log(large)
    b = 0.931 + 2.53 * fn.sqrt(large)
    a = -0.059 + 0.02483 * b
    inverse = fn.log(1.1239 + 1.1328 / (b - 3.4))

    def fits(k: Tensor, v: Tensor) -> Tensor:
        inside = fn.maximum(k, 0.0)
        return (k >= 0.0) & (v + inverse <= inside * logs - large - fn.lgamma(inside + 1.0))

    drawn = _rejected(two, large + 0.43, a, b, 0.9277 - 3.6224 / (b - 2.0), fits, many)
    return fn.where(many, drawn, fn.where(few, walked, 0.0))


def binomial(
    key: Tensor, n: Numbers, p: Numbers, shape: Shape | None = None, dtype: DType = dtypes.int64
) -> Tensor:
    """How many of n draws succeed, each with probability p. 0 where there is nothing to draw."""
    (count, chance), _ = prepared("binomial", shape, _WIDE, n, p)
    return _binomial(_checked("binomial", key), fn.floor(count), chance).astype(_integers("binomial", dtype))


def _binomial(key: Tensor, n: Tensor, p: Tensor) -> Tensor:
    mirrored = p > 0.5
    rare = fn.clip(fn.where(mirrored, 1.0 - p, p), 0.0, 0.5)
    mean = n * rare
    few, many = (mean > 0.0) & (mean < _FEW), mean >= _FEW
    one, two = split(key)
    ratio = rare / (1.0 - rare)
    none = fn.exp(fn.where(few, n * fn.log1p(-rare), 0.0))
    walked = _walked(one, none, lambda k: ratio * fn.maximum(n - k, 0.0) / (k + 1.0), few)
    q, size = fn.where(many, rare, 0.5), fn.where(many, n, 2.0 * _FEW)
    odds = fn.log(q / (1.0 - q))
    spread = fn.sqrt(size * q * (1.0 - q))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * q
    mode = fn.floor((size + 1.0) * q)
    top = fn.lgamma(mode + 1.0) + fn.lgamma(size - mode + 1.0)
    height = fn.log((2.83 + 5.1 / b) * spread)

    def fits(k: Tensor, v: Tensor) -> Tensor:
        inside = fn.clip(k, 0.0, size)
        level = top - fn.lgamma(inside + 1.0) - fn.lgamma(size - inside + 1.0) + (inside - mode) * odds
        return (k >= 0.0) & (k <= size) & (v + height <= level)

    drawn = _rejected(two, size * q + 0.5, a, b, 0.92 - 4.2 / b, fits, many)
    counts = fn.where(many, drawn, fn.where(few, walked, 0.0))
    return fn.where(mirrored, n - counts, counts)


def negative_binomial(
    key: Tensor, n: Numbers, p: Numbers, shape: Shape | None = None, dtype: DType = dtypes.int64
) -> Tensor:
    """How many draws fail before n succeed, each with probability p."""
    (count, chance), _ = prepared("negative_binomial", shape, _WIDE, n, p)
    one, two = split(_checked("negative_binomial", key))
    mean = gamma(one, count, dtype=_WIDE) * ((1.0 - chance) / chance)
    return _poisson(two, mean).astype(_integers("negative_binomial", dtype))


def geometric(key: Tensor, p: Numbers, shape: Shape | None = None, dtype: DType = dtypes.int64) -> Tensor:
    """The number of the first draw that succeeds, each with probability p."""
    (chance,), _ = prepared("geometric", shape, _WIDE, p)
    u = _unit("geometric", key, chance.shape, _WIDE)
    tries = fn.floor(fn.log1p(-u) / fn.log1p(-fn.minimum(chance, 1.0 - 1e-16))) + 1.0
    return tries.astype(_integers("geometric", dtype))


def multinomial(
    key: Tensor, n: Numbers, p: Tensor, shape: Shape | None = None, dtype: DType = dtypes.int64
) -> Tensor:
    """How many of n draws fall to each class along the last axis, which is that of p; `shape` is that of the other axes."""
    given: object = p
    if not isinstance(given, Tensor) or given.ndim < 1 or not given.dtype.is_float:
        raise ShapeError.of("multinomial", "p has no axis of probabilities", "one number per class")
    count = n if isinstance(n, Tensor) else fn.full((), n, dtype=_WIDE)
    sizes = fn.broadcast_shapes(count.shape, p.shape[:-1]) if shape is None else shape
    lead = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    (left,), _ = prepared("multinomial", lead, _WIDE, count)
    (shares,), _ = prepared("multinomial", (*lead, p.shape[-1]), _WIDE, p)
    classes = fn.moveaxis(shares, -1, 0)
    # what is left of the probability from each class on: the last one takes the rest
    rest = fn.flip(fn.cumulative_sum(fn.flip(classes, axis=0), axis=0), axis=0)
    parts = fn.where(rest > 0.0, fn.minimum(classes / fn.where(rest > 0.0, rest, 1.0), 1.0), 1.0)
    keys = split(_checked("multinomial", key), p.shape[-1])

    def drawn(left: Tensor, given: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        own, part = given
        taken = _binomial(own, left, part)
        return left - taken, taken

    _, counts = scan(drawn, left, (keys, parts))
    return fn.moveaxis(counts, 0, -1).astype(_integers("multinomial", dtype))


__all__ = ["binomial", "geometric", "multinomial", "negative_binomial", "poisson"]

"""Keys, bits, integers, uniform numbers and what one formula makes of them.

A key is a tensor of two uint32. It is used once: whoever needs more randomness takes new keys with `split`, or with `fold_in` and a
number (a step, a layer). Bits are Threefry-2x32 with 20 rounds of the key and the position; they depend on no state, so that functions
that draw numbers can be compiled, differentiated and batched like any others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.errors import DTypeError, ShapeError
from planish.frontend import library
from planish.frontend.tensor import functions as fn
from planish.frontend.tensor.array import Tensor

Shape: TypeAlias = int | Sequence[int]
Numbers: TypeAlias = Tensor | int | float

_SPLIT: Final = 0x73706C74
_FOLD: Final = 0x666F6C64
"""What keys are changed by before other keys are drawn from them, so that these never are numbers that somebody drew."""
_UNIT: Final = {
    dtypes.float16: (dtypes.uint16, 11),
    dtypes.bfloat16: (dtypes.uint16, 8),
    dtypes.float32: (dtypes.uint32, 24),
    dtypes.float64: (dtypes.uint64, 53),
}
"""Per float dtype the words to draw, and how many of their bits a number in 0 … 1 has room for."""


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(size < 0 for size in sizes):
        raise ShapeError.of("random", f"shape {sizes} has a negative size", "give sizes from 0 on")
    return sizes


# --- keys -------------------------------------------------------------------------------------------------


def key(seed: int | Tensor) -> Tensor:
    """A key from a seed: any integer up to 64 bits."""
    if isinstance(seed, Tensor):
        if not seed.dtype.is_int or seed.ndim:
            raise DTypeError.of(
                "key", f"a seed is an integer, not {seed.dtype.name}{list(seed.shape)}", "use fold_in"
            )
        wide = seed.astype(dtypes.uint64)
        return fn.stack([fn.bitwise_right_shift(wide, 32), wide]).astype(dtypes.uint32)
    if not -(1 << 63) <= seed < 1 << 64:
        raise ShapeError.of("key", f"the seed {seed} has more than 64 bits", "take fewer")
    number = int(seed) & 0xFFFF_FFFF_FFFF_FFFF
    return fn.asarray(np.array([number >> 32, number & 0xFFFF_FFFF], np.uint32))


def _checked(op: str, key: Tensor) -> Tensor:
    given: object = key
    if not isinstance(given, Tensor) or given.dtype is not dtypes.uint32 or given.shape != (2,):
        kind = f"{given.dtype.name}{list(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise DTypeError.of(
            op,
            f"a key is two uint32, not {kind}",
            "make one with planish.random.key(seed); use vmap for many",
        )
    return key


def split(key: Tensor, num: Shape = 2) -> Tensor:
    """New keys from one, along the first axis (or axes)."""
    shape = _sizes(num)
    numbers = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    return library.drawn_keys(_checked("split", key), _SPLIT, numbers)


def fold_in(key: Tensor, data: int | Tensor) -> Tensor:
    """A new key for a number: for each step, each layer, each sample."""
    _checked("fold_in", key)
    if not isinstance(data, Tensor):
        return library.drawn_keys(key, _FOLD, np.array(int(data) & 0xFFFF_FFFF_FFFF_FFFF, np.uint64))
    if not data.dtype.is_int or data.ndim:
        raise DTypeError.of("fold_in", f"{data.dtype.name}{list(data.shape)} is not an integer", "convert it")
    return library.drawn_keys(key, _FOLD, data.astype(dtypes.uint64))


# --- bits, integers, uniform numbers ----------------------------------------------------------------------


def bits(key: Tensor, shape: Shape = (), dtype: DType = dtypes.uint32) -> Tensor:
    """Uniformly random words of an unsigned dtype."""
    if dtype not in (dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64):
        raise DTypeError.of("bits", f"{dtype.name} is not an unsigned integer", "uint32, for example")
    return library.rng_bits(_checked("bits", key), _sizes(shape), dtype)


def _floating(op: str, dtype: DType) -> DType:
    if dtype not in _UNIT:
        raise DTypeError.of(
            op, f"{dtype.name} is not float16, bfloat16, float32 or float64", "convert the result"
        )
    return dtype


def _unit(op: str, key: Tensor, shape: Shape, dtype: DType) -> Tensor:
    """0 ≤ u < 1, every multiple of the step alike; in float32 or wider."""
    word, room = _UNIT[_floating(op, dtype)]
    drawn = library.rng_bits(_checked(op, key), _sizes(shape), word)
    kept = fn.bitwise_right_shift(drawn, word.bits - room)
    wide = dtypes.float64 if dtype is dtypes.float64 else dtypes.float32
    # As signed numbers: machines convert them faster, and the sign bit is free.
    signed = dtypes.int64 if dtype is dtypes.float64 else dtypes.int32
    return kept.astype(signed).astype(wide) * 2.0**-room


def uniform(
    key: Tensor,
    shape: Shape = (),
    dtype: DType = dtypes.float32,
    minval: Numbers = 0.0,
    maxval: Numbers = 1.0,
) -> Tensor:
    """Numbers from minval (included) to maxval (excluded)."""
    unit = _unit("uniform", key, shape, dtype)
    if isinstance(minval, Tensor) or isinstance(maxval, Tensor):
        low, high = (
            x.astype(unit.dtype) if isinstance(x, Tensor) else fn.full((), x, dtype=unit.dtype)
            for x in (minval, maxval)
        )
        scaled = (unit * (high - low) + low).astype(dtype)
        return fn.where(scaled >= high.astype(dtype), low.astype(dtype), scaled)
    if minval == 0.0 and maxval == 1.0:
        return unit.astype(dtype)
    if not minval < maxval:
        raise ShapeError.of("uniform", f"there is nothing from {minval} to {maxval}", "swap them?")
    scaled = (unit * (maxval - minval) + minval).astype(dtype)
    # Rounding may reach maxval, which is excluded.
    last = np.nextafter(dtype.numpy.type(maxval), dtype.numpy.type(minval))
    return fn.minimum(scaled, float(last))


def randint(
    key: Tensor, shape: Shape, minval: int | Tensor, maxval: int | Tensor, dtype: DType = dtypes.int64
) -> Tensor:
    """Integers from minval (included) to maxval (excluded), all alike up to one part in 2⁶⁴ of their number."""
    if not dtype.is_int:
        raise DTypeError.of("randint", f"{dtype.name} is not an integer dtype", "use uniform")
    drawn = bits(key, shape, dtypes.uint64)
    if isinstance(minval, Tensor) or isinstance(maxval, Tensor):
        low, high = (
            x.astype(dtypes.int64) if isinstance(x, Tensor) else fn.full((), x, dtype=dtypes.int64)
            for x in (minval, maxval)
        )
        span = (high - low).astype(dtypes.uint64)
        return (low + (drawn % span).astype(dtypes.int64)).astype(dtype)
    if not minval < maxval:
        raise ShapeError.of("randint", f"there is no integer from {minval} to {maxval}", "swap them?")
    top = dtype.max
    if minval < (dtype.min or 0) or (top is not None and maxval - 1 > top):
        raise ShapeError.of(
            "randint", f"{dtype.name} does not hold {minval} … {maxval - 1}", "use a wider dtype"
        )
    width = maxval - minval
    if width == 1 << 64:
        offset = drawn
    elif width < 1 << 32:
        # The upper half of a product of 64 and 32 bits: no division.
        upper, lower = fn.bitwise_right_shift(drawn, 32), drawn & 0xFFFF_FFFF
        offset = fn.bitwise_right_shift(upper * width + fn.bitwise_right_shift(lower * width, 32), 32)
    else:
        offset = drawn % width
    return (offset + minval % (1 << 64)).astype(dtype)


def bernoulli(key: Tensor, p: Numbers = 0.5, shape: Shape | None = None) -> Tensor:
    """True with probability p."""
    sizes = (p.shape if isinstance(p, Tensor) else ()) if shape is None else _sizes(shape)
    dtype = p.dtype if isinstance(p, Tensor) else dtypes.float32
    unit = _unit("bernoulli", key, sizes, dtype)
    return unit < (p.astype(unit.dtype) if isinstance(p, Tensor) else p)


def rademacher(key: Tensor, shape: Shape = (), dtype: DType = dtypes.int32) -> Tensor:
    """-1 or 1."""
    sign = fn.bitwise_right_shift(bits(key, shape), 31).astype(dtypes.int32)
    return (sign * 2 - 1).astype(dtype)


# --- distributions ----------------------------------------------------------------------------------------


def _open(op: str, key: Tensor, shape: Shape, dtype: DType) -> Tensor:
    """0 < u < 1."""
    unit = _unit(op, key, shape, dtype)
    return fn.maximum(unit, float(np.finfo(np.float32).tiny))


def normal(
    key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32, mean: Numbers = 0.0, std: Numbers = 1.0
) -> Tensor:
    """Normally distributed numbers."""
    # From -1 to 1 in steps of two units, both ends excluded: moved by half a step.
    unit = _unit("normal", key, shape, dtype)
    step = 2.0 ** -(_UNIT[dtype][1])
    standard = fn.erfinv(unit * 2.0 - (1.0 - step)) * math.sqrt(2.0)
    return _moved(standard, mean, std, dtype)


def _moved(x: Tensor, mean: Numbers, scale: Numbers, dtype: DType) -> Tensor:
    if isinstance(scale, Tensor) or scale != 1.0:
        x = x * (scale.astype(x.dtype) if isinstance(scale, Tensor) else scale)
    if isinstance(mean, Tensor) or mean != 0.0:
        x = x + (mean.astype(x.dtype) if isinstance(mean, Tensor) else mean)
    return x.astype(dtype)


def truncated_normal(
    key: Tensor, lower: float, upper: float, shape: Shape = (), dtype: DType = dtypes.float32
) -> Tensor:
    """Normally distributed numbers between two bounds, as if others were thrown away."""
    if not lower < upper:
        raise ShapeError.of("truncated_normal", f"there is nothing from {lower} to {upper}", "swap them?")
    start, stop = math.erf(lower / math.sqrt(2)), math.erf(upper / math.sqrt(2))
    unit = _unit("truncated_normal", key, shape, dtype)
    numbers = fn.erfinv(unit * (stop - start) + start) * math.sqrt(2.0)
    return fn.clip(numbers, lower, upper).astype(dtype)


def exponential(key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """-log(1 - u): positive numbers with mean 1."""
    return (-fn.log1p(-_unit("exponential", key, shape, dtype))).astype(dtype)


def gumbel(key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """-log(-log u): the largest of many."""
    return (-fn.log(-fn.log(_open("gumbel", key, shape, dtype)))).astype(dtype)


def laplace(key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """Exponentially distributed to both sides."""
    step = 2.0 ** -(_UNIT[_floating("laplace", dtype)][1])
    centred = _unit("laplace", key, shape, dtype) * 2.0 - (1.0 - step)
    return (-fn.sign(centred) * fn.log1p(-fn.abs(centred))).astype(dtype)


def logistic(key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """log(u / (1 - u))."""
    unit = _open("logistic", key, shape, dtype)
    return (fn.log(unit) - fn.log1p(-unit)).astype(dtype)


def cauchy(key: Tensor, shape: Shape = (), dtype: DType = dtypes.float32) -> Tensor:
    """tan(π(u - 1/2))."""
    step = 2.0 ** -(_UNIT[_floating("cauchy", dtype)][1] + 1)
    unit = _unit("cauchy", key, shape, dtype)
    return fn.tan((unit - (0.5 - step)) * math.pi).astype(dtype)


# --- choices ----------------------------------------------------------------------------------------------


def categorical(key: Tensor, logits: Tensor, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Classes by their log probabilities (which need not be normalised), along an axis.

    `shape` is that of the result: the other axes of the logits, with axes of more draws in front of them.
    """
    if not logits.dtype.is_float or logits.ndim == 0:
        raise DTypeError.of(
            "categorical",
            f"{logits.dtype.name}{list(logits.shape)} are not log probabilities",
            "take the logarithm",
        )
    moved = fn.moveaxis(logits, axis, -1)
    sizes = moved.shape[:-1] if shape is None else _sizes(shape)
    lead = len(sizes) - len(moved.shape[:-1])
    if lead < 0 or sizes[lead:] != moved.shape[:-1]:
        raise ShapeError.of(
            "categorical",
            f"shape {sizes} does not end in {moved.shape[:-1]}",
            "axes of more draws go in front",
        )
    dtype = logits.dtype if logits.dtype is dtypes.float64 else dtypes.float32
    noise = gumbel(key, (*sizes, moved.shape[-1]), dtype)
    return fn.argmax(noise + moved.astype(dtype), axis=-1)


def permutation(key: Tensor, x: int | Tensor, axis: int = 0) -> Tensor:
    """The numbers below x, or the slices of x along an axis, in random order."""
    if isinstance(x, int):
        return _order(key, x)
    if x.ndim == 0:
        raise ShapeError.of("permutation", "a tensor without axes has no order", "give an int")
    return fn.take(x, _order(key, x.shape[axis]), axis=axis)


def _order(key: Tensor, count: int) -> Tensor:
    # Equal words of 64 bits are as rare as broken machines; they would keep their order.
    return fn.argsort(bits(key, count, dtypes.uint64))


def choice(
    key: Tensor,
    a: int | Tensor,
    shape: Shape = (),
    replace: bool = True,
    p: Tensor | None = None,
    axis: int = 0,
) -> Tensor:
    """Some of the numbers below a, or of its slices along an axis; with or without repetition, with probabilities p."""
    sizes = _sizes(shape)
    total = a if isinstance(a, int) else a.shape[axis]
    count = math.prod(sizes)
    if total < 1 and count:
        raise ShapeError.of("choice", "there is nothing to choose from", "give at least one")
    if p is not None and (p.shape != (total,) or not p.dtype.is_float):
        raise ShapeError.of(
            "choice",
            f"p is {p.dtype.name}{list(p.shape)}, not one probability for each of {total}",
            "probabilities lie along one axis",
        )
    if replace:
        if p is None:
            chosen = randint(key, sizes, 0, total)
        else:
            chosen = categorical(key, fn.log(p), shape=sizes)
    else:
        if count > total:
            raise ShapeError.of("choice", f"{count} of {total} cannot all be different", "use replace=True")
        if p is None:
            order = _order(key, total)
        else:
            # The largest of log p plus Gumbel noise is a draw, the next one a draw from the rest …
            order = fn.argsort(fn.log(p) + gumbel(key, (total,), p.dtype), descending=True)
        chosen = fn.reshape(order[:count], sizes)
    return chosen if isinstance(a, int) else fn.take(a, chosen, axis=axis) if sizes else _one(a, chosen, axis)


def _one(a: Tensor, index: Tensor, axis: int) -> Tensor:
    taken = fn.take(a, fn.reshape(index, (1,)), axis=axis)
    return fn.squeeze(taken, axis)


__all__ = [
    "bernoulli", "bits", "categorical", "cauchy", "choice", "exponential", "fold_in", "gumbel", "key",
    "laplace", "logistic", "normal", "permutation", "rademacher", "randint", "split", "truncated_normal",
    "uniform",
]  # fmt: skip

"""Random bits: XLA's generators, bit by bit, and numbers made of them."""

from __future__ import annotations

from typing import Final

import numpy as np

from planish import dtypes
from planish.ptir.graph_value import GraphValue as V
from planish.ptir.library.random_bits import philox4x32, threefry2x32
from planish.ptir.library.shaping import stack
from planish.stablehlo.registry import lowering
from planish.stablehlo.site import Site, cast

_HALF: Final = 32


def _halves(word: V) -> tuple[V, V]:
    """The lower and the upper 32 bits."""
    return word.cast(dtypes.uint32), word.shr_logical(_HALF).cast(dtypes.uint32)


def _joined(low: V, high: V) -> V:
    return high.cast(dtypes.uint64).shl(_HALF).or_(low.cast(dtypes.uint64))


@lowering("stablehlo.rng_bit_generator")
def rng_bit_generator(at: Site, state: V, *, rng_algorithm: str) -> tuple[V, V]:
    """The state after, and the bits. A state is a key and a counter that goes on with every block."""
    (size,) = at.whole(state)
    words = state if state.dtype is dtypes.uint64 else state.reshape((size // 2, 2)).bitcast(dtypes.uint64)
    makers = {"THREE_FRY": _threefry, "PHILOX": _philox, "DEFAULT": _philox}
    if rng_algorithm not in makers:
        at.refuse(f"there is no generator {rng_algorithm}")
    dims = at.dims_of(1)
    dtype = at.dtype_of(1)
    bits, blocks = makers[rng_algorithm](at, words, dims, dtype.bits == 64)
    after = words.add(at.graph.constant(np.array([0, blocks, 0][: at.whole(words)[0]], np.uint64)))
    if state.dtype is not dtypes.uint64:
        after = after.bitcast(state.dtype).reshape(state.dims)
    if dtype.is_float:
        word = {16: dtypes.uint16, 32: dtypes.uint32, 64: dtypes.uint64}[dtype.bits]
        return after, cast(bits, word).bitcast(dtype)
    return after, cast(bits, dtype)


def _threefry(at: Site, state: V, dims: tuple[int, ...], wide: bool) -> tuple[V, int]:
    """A block of two words per pair of elements along one axis: the first of even size, else the longest."""
    low, high = _halves(state[0])
    key = stack([low, high])
    shape = list(dims) or [1]
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    axis = even[0] if even else shape.index(max(shape))
    half = shape if wide else [-(-size // 2) if n == axis else size for n, size in enumerate(shape)]
    count = int(np.prod(half))
    numbers = at.graph.iota((count,), 0, dtypes.uint64).add(state[1].broadcast_to((count,))).reshape(half)
    first, second = threefry2x32(key, *_halves(numbers))
    if wide:
        return _joined(first, second).reshape(dims), count
    pairs = stack([first, second], axis + 1)
    full = pairs.reshape([2 * size if n == axis else size for n, size in enumerate(half)])
    return full.slice([0] * len(shape), shape).reshape(dims), count


def _philox(at: Site, state: V, dims: tuple[int, ...], wide: bool) -> tuple[V, int]:
    """Blocks of four words, one after the other; the upper half of the counter is the last word of the state, or the key."""
    count = int(np.prod(dims))
    each = 2 if wide else 4
    blocks = -(-count // each)
    line = (blocks,)
    number = at.graph.iota(line, 0, dtypes.uint64)
    low = number.add(state[1].broadcast_to(line))
    upper = state[2] if state.dims[0] == 3 else state[0]
    carry = low.lt(number).select(at.full(line, 1, dtypes.uint64), at.full(line, 0, dtypes.uint64))
    high = upper.broadcast_to(line).add(carry)
    words = philox4x32(_halves(state[0]), (*_halves(low), *_halves(high)))
    if wide:
        words = (_joined(words[0], words[1]), _joined(words[2], words[3]))
    return stack(words, 1).reshape((blocks * each,)).slice([0], [count]).reshape(dims), blocks


@lowering("stablehlo.rng")
def rng(at: Site, a: V, b: V, shape: V, *, rng_distribution: str) -> V:
    """Numbers of a distribution. Which ones is for the implementation to say: the same in every call, others at every place."""
    number = len(at.importer.values)
    key = at.graph.constant(np.array([0x9E3779B9, number], np.uint32))
    dims = at.sizes(2)
    if rng_distribution == "NORMAL":
        return at.graph.normal(key, dims, at.dtype).mul(b.broadcast_to(dims)).add(a.broadcast_to(dims))
    if rng_distribution != "UNIFORM":
        at.refuse(f"there is no distribution {rng_distribution}")
    low, high = a.broadcast_to(dims), b.broadcast_to(dims)
    if at.dtype.is_bool:
        return cast(key.rng_bits(dims, dtypes.uint8).and_(1), dtypes.bool_)
    if at.dtype.is_float:
        return at.graph.uniform(key, dims, at.dtype).mul(high.sub(low)).add(low)
    span = cast(high.sub(low), dtypes.uint64).max(1)
    return cast(key.rng_bits(dims, dtypes.uint64).trunc_mod(span), at.dtype).add(low)

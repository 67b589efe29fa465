"""Random bits as integer arithmetic: Threefry-2x32 with 20 rounds on counting tensors (semantics 11.1), and Philox-4x32 with 10."""

from __future__ import annotations

from collections.abc import Sequence

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.dims import bounds, product
from planish.ptir.graph_value import Dims, GraphValue, as_dims

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_PHILOX_FACTORS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_STEPS = (0x9E3779B9, 0xBB67AE85)


def threefry2x32(key: GraphValue, high: GraphValue, low: GraphValue) -> tuple[GraphValue, GraphValue]:
    """The blocks (high, low) of uint32 enciphered under a key of two uint32."""
    first, second = key[0], key[1]
    words = [first, second, first.xor(second).xor(_PARITY)]
    schedule = [word.broadcast_to(low.dims) for word in words]
    x, y = high.add(schedule[0]), low.add(schedule[1])
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x.add(y)
            y = y.shl(rotation).or_(y.shr_logical(32 - rotation)).xor(x)
        x = x.add(schedule[(group + 1) % 3])
        y = y.add(schedule[(group + 2) % 3]).add(group + 1)
    return x, y


def philox4x32(key: tuple[GraphValue, GraphValue], block: Sequence[GraphValue]) -> tuple[GraphValue, ...]:
    """Blocks of four uint32 enciphered under a key of two."""
    a, b, c, d = block
    keys = [word.broadcast_to(a.dims) for word in key]
    for _ in range(10):
        first = a.cast(dtypes.uint64).mul(_PHILOX_FACTORS[0])
        second = c.cast(dtypes.uint64).mul(_PHILOX_FACTORS[1])
        high, low = first.shr_logical(32).cast(dtypes.uint32), first.cast(dtypes.uint32)
        upper, lower = second.shr_logical(32).cast(dtypes.uint32), second.cast(dtypes.uint32)
        a, b, c, d = upper.xor(b).xor(keys[0]), lower, high.xor(d).xor(keys[1]), low
        keys = [word.add(step) for word, step in zip(keys, _PHILOX_STEPS, strict=True)]
    return a, b, c, d


def rng_bits(key: GraphValue, dims: Dims, dtype: DType = dtypes.uint32) -> GraphValue:
    """The op `rng_bits`: random words of an unsigned dtype, element by row-major number."""
    graph = key.graph
    shape = as_dims(dims)
    total = product(shape)
    if bounds(total)[1] <= 1 << 32:
        low = graph.iota((total,), 0, dtypes.uint32).reshape(shape)
        high = graph.full(shape, 0, dtypes.uint32)
    else:
        number = graph.iota((total,), 0, dtypes.uint64).reshape(shape)
        low, high = number.cast(dtypes.uint32), number.shr_logical(32).cast(dtypes.uint32)
    a, b = threefry2x32(key, high, low)
    if dtype is dtypes.uint64:
        return a.cast(dtypes.uint64).shl(32).or_(b.cast(dtypes.uint64))
    word = a.xor(b)
    return word if dtype is dtypes.uint32 else word.cast(dtype)

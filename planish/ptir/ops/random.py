"""Random bits: Threefry-2x32 with 20 rounds as a pure function of a key and a position (semantics 11)."""

from __future__ import annotations

from typing import Final

import numpy as np

from planish import dtypes
from planish.dtypes import DType
from planish.ptir.ops import checking
from planish.ptir.ops import definition as d
from planish.ptir.ops.literal import Array
from planish.ptir.types import DimLike, TensorType
from planish.records import dataclass
from planish.scalars.meanings import threefry2x32

_WORDS: Final[checking.DTypeSet] = frozenset({dtypes.uint8, dtypes.uint16, dtypes.uint32, dtypes.uint64})


@dataclass(frozen=True, slots=True)
class RngBitsAttrs(d.Attrs):
    """The unsigned dtype and shape of the bits."""

    dtype: DType
    dims: tuple[DimLike, ...]


def random_words(key: Array, number: Array, dtype: DType) -> Array:
    """The random words of the elements with these row-major numbers (uint64)."""
    high, low = (number >> np.uint64(32)).astype(np.uint32), number.astype(np.uint32)
    with np.errstate(over="ignore"):
        a, b = threefry2x32(key, high, low)
    if dtype is dtypes.uint64:
        return (a.astype(np.uint64) << np.uint64(32)) | b.astype(np.uint64)
    return (a ^ b).astype(dtype.numpy)


def _evaluate_rng_bits(arrays: d.Arrays, attrs: RngBitsAttrs, types: d.Types) -> d.Results:
    shape = types[0].shape
    number = np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.uint64)
    return (random_words(arrays[0], number, attrs.dtype).reshape(shape),)


@d.op(d.OpKey.RNG, evaluate=_evaluate_rng_bits, way=d.Way.COMPOSITE)
def rng_bits(types: d.Types, attrs: RngBitsAttrs, regions: d.Regions) -> d.ResultTypes:
    """rng_bits(key): uniformly random bits, the same for the same key."""
    key = types[0]
    if key.dtype is not dtypes.uint32 or key.dims != (2,):
        checking.dtype_error("rng_bits", f"the key is {key}, not tensor<u32, 2>")
    result = TensorType(attrs.dtype, attrs.dims)
    checking.need_dtype("rng_bits", result, _WORDS, "the result")
    return (result,)


__all__ = ["RngBitsAttrs", "random_words", "rng_bits", "threefry2x32"]

"""Tensor maps: what a copy engine is told of a tensor, as the driver encodes it; one kernel parameter holds all of a kernel's.

A map is 128 bytes, and the address of the tensor is one word of them. So it is encoded once, when a kernel is loaded, and a launch has the
other words as they are and that one as the address of its buffer, like any other word: graphs that are set for other addresses need
nothing more. Where the word is, is found by encoding two addresses.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from planish.runtime.cuda.driver import CudaError, bindings, call
from planish.runtime.cuda.trace import Word
from planish.runtime.grid import TensorMap

_WORDS: Final = 16
"""Of eight bytes, of a map."""
_ADDRESSES: Final = (1 << 32, 3 << 34)
"""Two that have no bit in common, as tensors have that are aligned well."""
_KINDS: Final = {
    "bf16": "BFLOAT16", "f16": "FLOAT16", "f32": "FLOAT32", "tf32": "TFLOAT32", "f64": "FLOAT64", "i8": "UINT8", "u8": "UINT8",
}  # fmt: skip
_LINE: Final = 128
"""Bytes of a line of the second cache: rows that start within one are fetched without the next."""


def words_of(tensor: TensorMap) -> tuple[int, list[int]]:
    """Which word is the address, and all words for a tensor at 0."""
    first, second = (_encoded(tensor, address) for address in _ADDRESSES)
    place = next((k for k in range(_WORDS) if first[k] != second[k]), -1)
    same = [*first[:place], *first[place + 1 :]] == [*second[:place], *second[place + 1 :]]
    if place < 0 or not same or second[place] - first[place] != _ADDRESSES[1] - _ADDRESSES[0]:
        raise CudaError(
            "this CUDA driver encodes tensor maps in a way that is not known",
            remedy="lower with fewer features: a target of compute capability 8.0 runs on every later GPU",
        )
    first[place] -= _ADDRESSES[0]
    return place, first


def _encoded(tensor: TensorMap, address: int) -> list[int]:
    driver = bindings()
    kind = getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_KINDS[tensor.kind]}")
    rank = len(tensor.dims)
    aligned = all(stride * tensor.itemsize % (2 * _LINE) == 0 for stride in tensor.strides[1:])
    promotion = f"CU_TENSOR_MAP_L2_PROMOTION_L2_{2 * _LINE if aligned else _LINE}B"
    long, short = driver.cuuint64_t, driver.cuuint32_t
    row, rows = map(short, tensor.sizes)
    if tensor.steps:
        mode, steps = "Im2col", (1, *tensor.steps, 1)
        parts: tuple[Any, ...] = (list(tensor.lower), list(tensor.upper), row, rows)
    else:
        mode, steps, parts = "Tiled", (1,) * rank, ([row, rows, *[short(1)] * (rank - 2)],)
    tensor_map: Any = call(
        f"cuTensorMapEncode{mode}",
        kind,
        rank,
        address,
        [long(dim) for dim in tensor.dims],
        [long(stride * tensor.itemsize) for stride in tensor.strides[1:]],
        *parts,
        [short(step) for step in steps],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        getattr(driver.CUtensorMapL2promotion, promotion),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        doing="for a tensor map",
    )
    return list((ctypes.c_int64 * _WORDS).from_address(int(tensor_map.getPtr())))


def map_words(maps: Sequence[tuple[int, int, list[int]]], words: Sequence[Word]) -> list[Word]:
    """The words of maps for a launch: the position of its parameter, the place of the address and all words of each."""
    all_words: list[Word] = []
    for position, place, encoded in maps:
        tensor = words[position]
        all_words += [
            tensor._replace(offset=tensor.offset + number) if k == place else Word(-1, number)
            for k, number in enumerate(encoded)
        ]
    return all_words

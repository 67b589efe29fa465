"""dtypes of torch and of planish, both ways, and how NumPy sees the elements of a tensor."""

from __future__ import annotations

from typing import Final

import torch

from planish import dtypes
from planish.dtypes import DType

TO_PLANISH: Final[dict[torch.dtype, DType]] = {
    torch.bool: dtypes.bool_,
    torch.uint8: dtypes.uint8,
    torch.uint16: dtypes.uint16,
    torch.uint32: dtypes.uint32,
    torch.uint64: dtypes.uint64,
    torch.int8: dtypes.int8,
    torch.int16: dtypes.int16,
    torch.int32: dtypes.int32,
    torch.int64: dtypes.int64,
    torch.float16: dtypes.float16,
    torch.bfloat16: dtypes.bfloat16,
    torch.float32: dtypes.float32,
    torch.float64: dtypes.float64,
    torch.float8_e4m3fn: dtypes.float8_e4m3fn,
    torch.float8_e5m2: dtypes.float8_e5m2,
    torch.complex64: dtypes.complex64,
    torch.complex128: dtypes.complex128,
}
TO_TORCH: Final[dict[DType, torch.dtype]] = {ours: theirs for theirs, ours in TO_PLANISH.items()}

CARRIERS: Final[dict[torch.dtype, torch.dtype]] = {
    torch.bfloat16: torch.int16,
    torch.float8_e4m3fn: torch.uint8,
    torch.float8_e5m2: torch.uint8,
}
"""For dtypes that `Tensor.numpy` does not know: those whose bits travel in their place."""

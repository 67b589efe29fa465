"""The lowerings, by what they are about. Importing this package fills the table."""

from planish.torch.ops import (
    attention,
    convolution,
    creation,
    fourier,
    indexing,
    linalg,
    linear,
    normalization,
    order,
    pointwise,
    pooling,
    reductions,
    shapes,
)

__all__ = [
    "attention",
    "convolution",
    "creation",
    "fourier",
    "indexing",
    "linalg",
    "linear",
    "normalization",
    "order",
    "pointwise",
    "pooling",
    "reductions",
    "shapes",
]

"""The lowerings, by what they are about. Importing this package fills the table."""

from planish.torch.ops import (
    attention,
    conversion,
    convolution,
    creation,
    distances,
    fourier,
    indexing,
    linalg,
    linear,
    normalization,
    order,
    pointwise,
    polynomials,
    pooling,
    reductions,
    sampling,
    segments,
    shapes,
    special,
    symmetric,
)

__all__ = [
    "attention", "conversion", "convolution", "creation", "distances", "fourier", "indexing", "linalg",
    "linear", "normalization", "order", "pointwise", "polynomials", "pooling", "reductions", "sampling",
    "segments", "shapes", "special", "symmetric",
]  # fmt: skip

"""The lowerings, by what they are about. Importing this package fills the table."""

from importlib import import_module
from typing import Final

FAMILIES: Final = (
    "attention", "conversion", "convolution", "creation", "distances", "fourier", "indexing", "linalg",
    "linear", "normalization", "order", "pointwise", "polynomials", "pooling", "reductions", "sampling",
    "segments", "shapes", "special", "symmetric",
)  # fmt: skip

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")

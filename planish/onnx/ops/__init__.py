"""The ops, by family; importing this fills the registry."""

from importlib import import_module
from typing import Final

FAMILIES: Final = (
    "activations", "attention", "casting", "control", "convolution", "elementwise", "image", "indexing",
    "linear", "microsoft", "microsoft_attention", "ml", "ml_linear", "ml_trees", "nchwc", "normalization",
    "pictures", "pooling", "quantization", "random", "recurrent", "reductions", "sampling", "sequences",
    "shapes", "signal", "strings", "training",
)  # fmt: skip

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")

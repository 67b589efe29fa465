"""The lowerings, by family; importing this package fills the table."""

from importlib import import_module
from typing import Final

FAMILIES: Final = (
    "checks", "chlo", "collectives", "contraction", "control", "conversion", "custom_calls", "elementwise",
    "gathering", "linalg", "normalization", "order", "quantization", "random", "reductions", "scattering",
    "shapes", "windows",
)  # fmt: skip

for _family in FAMILIES:
    import_module(f"{__name__}.{_family}")

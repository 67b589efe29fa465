"""The lowerings, by family; importing this package fills the table."""

from planish.stablehlo.ops import (
    checks,
    chlo,
    collectives,
    contraction,
    control,
    conversion,
    custom_calls,
    elementwise,
    gathering,
    linalg,
    normalization,
    order,
    quantization,
    random,
    reductions,
    scattering,
    shapes,
    windows,
)

__all__ = [
    "checks", "chlo", "collectives", "contraction", "control", "conversion", "custom_calls", "elementwise",
    "gathering", "linalg", "normalization", "order", "quantization", "random", "reductions", "scattering",
    "shapes", "windows",
]  # fmt: skip

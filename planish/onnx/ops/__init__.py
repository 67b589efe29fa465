"""The ops, by family; importing this fills the registry."""

from planish.onnx.ops import (  # noqa: F401
    activations,
    casting,
    control,
    elementwise,
    indexing,
    linear,
    reductions,
    sequences,
    shapes,
)

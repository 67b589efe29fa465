"""The ops, by family; importing this fills the registry."""

from planish.onnx.ops import elementwise  # noqa: F401

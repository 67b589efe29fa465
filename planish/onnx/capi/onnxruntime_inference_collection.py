"""Where onnxruntime defines its session."""

from planish.onnx.ort_values import IOBinding, OrtDevice, OrtValue
from planish.onnx.session import InferenceSession

__all__ = ["IOBinding", "InferenceSession", "OrtDevice", "OrtValue"]

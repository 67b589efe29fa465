"""onnxruntime's other name for its native module."""

from planish.onnx.capi.onnxruntime_pybind11_state import *  # noqa: F403

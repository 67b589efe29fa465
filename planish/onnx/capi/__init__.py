"""Where onnxruntime keeps what is not in its own module: programs import its errors from here."""

from planish.onnx.capi import _pybind_state, onnxruntime_inference_collection, onnxruntime_pybind11_state

__all__ = ["_pybind_state", "onnxruntime_inference_collection", "onnxruntime_pybind11_state"]

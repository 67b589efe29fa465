"""ONNX models as planish programs: `load` one, `run` it."""

from planish.onnx.information import PortInfo
from planish.onnx.model import Model, load
from planish.onnx.session import InferenceSession, SessionOptions, get_available_providers

__all__ = ["InferenceSession", "Model", "PortInfo", "SessionOptions", "get_available_providers", "load"]

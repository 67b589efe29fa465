"""ONNX models as planish programs: `load` one, `run` it."""

from planish.onnx.model import Model, load

__all__ = ["Model", "load"]

"""ONNX models as planish programs: `load` one, `run` it. Programs written for onnxruntime find its names here."""

from typing import TYPE_CHECKING

from planish.errors import UnknownName, spelt_like
from planish.onnx import capi, drop_in
from planish.onnx.drop_in import *  # noqa: F403 - all that onnxruntime's module has
from planish.onnx.information import PortInfo
from planish.onnx.memory_info import OrtAllocatorType, OrtMemoryInfo, OrtMemType
from planish.onnx.model import Model, load
from planish.onnx.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from planish.onnx.ort_values import IOBinding, OrtDevice, OrtValue
from planish.onnx.session import InferenceSession, ModelMetadata, NodeArg

SessionIOBinding = IOBinding
__version__ = drop_in.INTERFACE

__all__ = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "Model",
    "ModelMetadata", "NodeArg", "OrtAllocatorType", "OrtDevice", "OrtMemType", "OrtMemoryInfo", "OrtValue",
    "PortInfo", "RunOptions", "SessionIOBinding", "SessionOptions", "__version__", "capi", "load",
]  # fmt: skip
__all__ += drop_in.__all__


if not TYPE_CHECKING:
    # hidden from the type checker, which would otherwise accept any misspelt attribute

    def __getattr__(name: str) -> object:
        raise UnknownName(f"module {__name__!r}", name, lambda name: spelt_like(name, __all__))

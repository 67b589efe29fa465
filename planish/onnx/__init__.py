"""ONNX models as planish programs: `load` one, `run` it. Programs written for onnxruntime find its names here."""

from planish.onnx import capi
from planish.onnx.drop_in import (
    INTERFACE,
    disable_telemetry_events,
    enable_telemetry_events,
    get_all_providers,
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    has_collective_ops,
    install_as_onnxruntime,
    preload_dlls,
    print_debug_info,
    set_default_logger_severity,
    set_default_logger_verbosity,
    set_seed,
)
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
__version__ = INTERFACE

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "Model",
    "ModelMetadata",
    "NodeArg",
    "OrtAllocatorType",
    "OrtDevice",
    "OrtMemType",
    "OrtMemoryInfo",
    "OrtValue",
    "PortInfo",
    "RunOptions",
    "SessionIOBinding",
    "SessionOptions",
    "__version__",
    "capi",
    "disable_telemetry_events",
    "enable_telemetry_events",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "has_collective_ops",
    "install_as_onnxruntime",
    "load",
    "preload_dlls",
    "print_debug_info",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]

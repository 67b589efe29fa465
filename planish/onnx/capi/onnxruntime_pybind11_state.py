"""The errors, options and calls that onnxruntime's native module has."""

from planish.onnx.drop_in import (
    get_available_providers,
    get_build_info,
    get_device,
    get_version_string,
    set_seed,
)
from planish.onnx.memory_info import OrtAllocatorType, OrtMemoryInfo, OrtMemType
from planish.onnx.options import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    RunOptions,
    SessionOptions,
)
from planish.onnx.ort_values import IOBinding as SessionIOBinding
from planish.onnx.ort_values import OrtDevice, OrtValue
from planish.onnx.session import InferenceSession, ModelMetadata, NodeArg
from planish.onnx.status import (
    EngineError,
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    ModelLoaded,
    NoModel,
    NoSuchFile,
    NotImplemented,
    RuntimeException,
)

__all__ = [
    "EPFail", "EngineError", "ExecutionMode", "ExecutionOrder", "Fail", "GraphOptimizationLevel",
    "InferenceSession", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "ModelLoaded", "ModelMetadata",
    "NoModel", "NoSuchFile", "NodeArg", "NotImplemented", "OrtAllocatorType", "OrtDevice", "OrtMemType",
    "OrtMemoryInfo", "OrtValue", "RunOptions", "RuntimeException", "SessionIOBinding", "SessionOptions",
    "get_available_providers", "get_build_info", "get_device", "get_version_string", "set_seed",
]  # fmt: skip

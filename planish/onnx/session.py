"""`InferenceSession`: what programs written for onnxruntime call, on planish.

run, get_inputs, get_outputs, get_providers and get_modelmeta are as there; options and providers are accepted and change
nothing but the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from onnx import ModelProto

from planish.config import settings
from planish.onnx.information import PortInfo
from planish.onnx.model import load
from planish.records import dataclass

_TYPES = {
    "float32": "float", "float64": "double", "bfloat16": "bfloat16", "float16": "float16",
    "float8_e4m3fn": "float8e4m3fn", "float8_e5m2": "float8e5m2", "float8_e4m3fnuz": "float8e4m3fnuz",
    "float8_e5m2fnuz": "float8e5m2fnuz",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output, in onnxruntime's words."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(slots=True)
class SessionOptions:
    """The options of onnxruntime that make sense here; others can be set and are not looked at."""

    intra_op_num_threads: int = 0
    inter_op_num_threads: int = 0
    log_severity_level: int = 2
    graph_optimization_level: object = None
    enable_profiling: bool = False
    free_dimension_overrides: dict[str, int] = field(default_factory=dict)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """The size of a named dim."""
        self.free_dimension_overrides[name] = size


@dataclass(frozen=True, slots=True)
class ModelMeta:
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    version: int
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A model, with onnxruntime's interface."""

    def __init__(
        self,
        path_or_bytes: str | Path | bytes | ModelProto,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        sizes = getattr(sess_options, "free_dimension_overrides", None)
        threads = getattr(sess_options, "intra_op_num_threads", 0)
        self.model = load(path_or_bytes, sizes)
        self._threads = int(threads) or None

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: object = None
    ) -> list[Any]:
        """The outputs named (None: all)."""
        if self._threads is None:
            return self.model.run(output_names, input_feed)
        with settings(threads=self._threads):
            return self.model.run(output_names, input_feed)

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be given."""
        return [_argument(info) for info in self.model.inputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that the model has values for."""
        return [_argument(info) for info in self.model.optional_inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return [_argument(info) for info in self.model.outputs]

    def get_providers(self) -> list[str]:
        """Where it runs."""
        return ["CPUExecutionProvider"]

    def get_modelmeta(self) -> ModelMeta:
        """What the model says of itself."""
        proto = self.model.proto
        return ModelMeta(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.model_version,
            {entry.key: entry.value for entry in proto.metadata_props},
        )


def _argument(info: PortInfo) -> NodeArg:
    text = f"tensor({_TYPES.get(info.dtype, info.dtype)})"
    text = f"seq({text})" if info.kind == "sequence" else text
    return NodeArg(info.name, f"optional({text})" if info.is_optional else text, list(info.dims or ()))


def get_available_providers() -> list[str]:
    """What onnxruntime calls the places a model can run."""
    return ["CPUExecutionProvider"]

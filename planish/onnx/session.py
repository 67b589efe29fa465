"""`InferenceSession`: what programs written for onnxruntime call, on planish."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from onnx import ModelProto

from planish.config import settings
from planish.errors import PlanishError
from planish.onnx import providers as places
from planish.onnx.element_types import word_of
from planish.onnx.information import DimSizes, PortInfo
from planish.onnx.model import load
from planish.onnx.options import RunOptions, SessionOptions
from planish.onnx.ort_values import IOBinding, OrtValue
from planish.onnx.registry import Unsupported
from planish.onnx.status import Fail, InvalidArgument, RuntimeException, told_as
from planish.onnx.status import NotImplemented as Refused
from planish.records import dataclass

_UNSAID = (1 << 63) - 1
"""The version of a model that says none, as onnxruntime has it."""


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output, in onnxruntime's words."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What a model says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


class InferenceSession:
    """A model, with onnxruntime's interface."""

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes | ModelProto,
        sess_options: SessionOptions | None = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        source = bytes(path_or_bytes) if isinstance(path_or_bytes, bytearray | memoryview) else path_or_bytes
        if not isinstance(source, str | os.PathLike | bytes | ModelProto):
            raise TypeError(f"a model is a path or bytes, not {type(source).__name__}")
        options = self._options = SessionOptions() if sess_options is None else sess_options
        self._places = places.chosen(providers or getattr(options, "providers", None), provider_options)
        try:
            path = source if isinstance(source, bytes | ModelProto) else Path(source)
            sizes = getattr(options, "free_dimension_overrides", None)
            self.model = load(path, sizes, device=places.device_of(self._places))
        except Unsupported as error:
            raise told_as(Refused, error) from error
        except PlanishError as error:
            raise told_as(Fail, error) from error
        self._threads = int(options.intra_op_num_threads) or None
        self._inputs = [_argument(info, self.model.dims) for info in self.model.inputs]
        self._outputs = [_argument(info, self.model.dims) for info in self.model.outputs]
        self._optional = [_argument(info, self.model.dims) for info in self.model.optional_inputs]
        self._started = time.monotonic_ns()
        self._events: list[tuple[int, int]] | None = [] if options.enable_profiling else None
        self._waiting: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()
        if options.optimized_model_filepath:
            self.model.save(options.optimized_model_filepath)

    def __repr__(self) -> str:
        return f"<InferenceSession of {self.model!r}>"

    # -- running -----------------------------------------------------------------------------------------------------

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs named (None: all)."""
        return self._run(output_names, input_feed, run_options, on_device=False)

    def run_where_they_are(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The same; results of a GPU stay there."""
        return self._run(output_names, input_feed, run_options, on_device=True)

    def _run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None,
        *,
        on_device: bool,
    ) -> list[Any]:
        if run_options is not None and getattr(run_options, "terminate", False):
            raise Fail("the run was told to end", remedy="run_options.terminate = False")
        feed: Mapping[str, Any] = input_feed
        if type(input_feed) is not dict:
            self.model.check_by_name(input_feed)
        for value in input_feed.values():
            if isinstance(value, OrtValue):
                feed = {n: v.storage if isinstance(v, OrtValue) else v for n, v in input_feed.items()}
                break
        begin = 0 if self._events is None else time.monotonic_ns()
        try:
            if self._threads is None:
                results = self.model.run(output_names, feed, on_device=on_device)
            else:
                with settings(threads=self._threads):
                    results = self.model.run(output_names, feed, on_device=on_device)
        except PlanishError as error:
            raise told_as(RuntimeException, error) from error
        if self._events is not None:
            self._events.append((begin, time.monotonic_ns()))
        return results

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], None],
        user_data: Any = None,
        run_options: RunOptions | None = None,
    ) -> None:
        """Run on another thread, and hand the outputs to `callback`, with what went wrong, or nothing, as text."""
        self.model.complete(input_feed)

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is told to the one who waits
                results, error = [], str(failure)
            callback(results, user_data, error)

        with self._lock:
            if self._waiting is None:
                self._waiting = ThreadPoolExecutor(1, "planish-onnx")
        self._waiting.submit(work)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """The outputs named, of and as values."""
        results = self.run_where_they_are(output_names, input_dict_ort_values, run_options)
        return [OrtValue(result) for result in results]

    def io_binding(self) -> IOBinding:
        """A binding of inputs and outputs."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run on what is bound."""
        if iobinding._session is not self:
            raise InvalidArgument("the binding is another session's", remedy="session.io_binding()")
        iobinding.run(run_options)

    # -- what it is --------------------------------------------------------------------------------------------------

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that must be given."""
        return list(self._inputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Inputs that the model has values for."""
        return list(self._optional)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs."""
        return list(self._outputs)

    def get_session_options(self) -> SessionOptions:
        """The options it was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """Where it runs."""
        return list(self._places)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the places where it runs."""
        return {name: dict(said) for name, said in self._places.items()}

    def set_providers(self, providers: Sequence[Any] | None = None, provider_options: Any = None) -> None:
        """Where it is to run."""
        self._places = places.chosen(providers, provider_options)
        self.model.to_device(places.device_of(self._places))

    def enable_fallback(self) -> None:
        """Every op has one implementation: there is nothing to fall back to."""

    def disable_fallback(self) -> None:
        """Every op has one implementation: there is nothing to fall back to."""

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself."""
        proto = self.model.proto
        return ModelMetadata(
            proto.producer_name,
            proto.graph.name,
            proto.domain,
            proto.doc_string,
            proto.graph.doc_string,
            proto.model_version if proto.HasField("model_version") else _UNSAID,
            {entry.key: entry.value for entry in proto.metadata_props},
        )

    # -- profiles ----------------------------------------------------------------------------------------------------

    def get_profiling_start_time_ns(self) -> int:
        """When profiling began, by the monotonic clock."""
        return self._started if self._options.enable_profiling else 0

    def end_profiling(self) -> str:
        """Write when runs began and how long they took, as a trace; the name of the file, empty if nobody asked for it."""
        events, self._events = self._events, None
        if events is None:
            return ""
        place = f"{self._options.profile_file_prefix}{time.strftime('%Y-%m-%d_%H-%M-%S')}.json"
        rows = [
            {
                "cat": "Session", "name": "model_run", "ph": "X", "pid": os.getpid(), "tid": 0, "args": {},
                "ts": (begin - self._started) // 1000, "dur": (end - begin) // 1000,
            }
            for begin, end in events
        ]  # fmt: skip
        Path(place).write_text(json.dumps(rows))
        return place


def _argument(info: PortInfo, sizes: DimSizes) -> NodeArg:
    text = info.type_text or f"tensor({word_of(info.dtype)})"
    text = f"seq({text})" if info.kind == "sequence" else text
    fixed = {name: size for name, size in sizes.items() if isinstance(size, int)}
    dims = [fixed.get(dim, dim) if isinstance(dim, str) else dim for dim in info.dims or ()]
    return NodeArg(info.name, f"optional({text})" if info.is_optional else text, dims)


__all__ = ["InferenceSession", "ModelMetadata", "NodeArg"]

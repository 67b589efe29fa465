"""A loaded model: its inputs and outputs, and how it is run.

For given types of the inputs a model is imported once. If nothing in it depends on data that only the inputs have, it is one
compiled function from then on; else it runs in segments (see `engine`), compiled as they are met and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, ValueInfoProto

import planish.onnx.ops  # noqa: F401 - fills the registry
from planish import ptir
from planish.compiler import Executable, compile
from planish.errors import PlanishError, ShapeError
from planish.onnx import registry
from planish.onnx.attributes import dense, to_array
from planish.onnx.engine import CannotTrace, Engine, Scope
from planish.onnx.registry import Unsupported
from planish.ptir.graph_value import GraphValue

Array = NDArray[Any]
DimSizes = Mapping[str, int | tuple[int, int]]
Signature = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output: its dtype, and its dims (a number, a name, or None)."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...] | None

    def __str__(self) -> str:
        dims = "?" if self.dims is None else ", ".join("?" if d is None else str(d) for d in self.dims)
        return f"{self.name}: {self.dtype}[{dims}]"


@dataclass(slots=True)
class _Compiled:
    """A model as one function."""

    executable: Executable
    weights: list[Array]
    function: ptir.Function


class Model:
    """An ONNX model."""

    def __init__(self, proto: ModelProto, dims: DimSizes | None = None, folder: str = "") -> None:
        self.proto = proto
        self.dims = dict(dims or {})
        self._versions = {_domain(i.domain): i.version for i in proto.opset_import} or {"": 1}
        self._functions = {
            (_domain(f.domain), f.name, getattr(f, "overload", "")): f for f in proto.functions
        }
        graph = proto.graph
        self._initial: dict[str, Array] = {t.name: to_array(t, folder) for t in graph.initializer}
        self._initial |= {s.values.name: dense(s) for s in graph.sparse_initializer}
        self.inputs = tuple(_info(i) for i in graph.input if i.name not in self._initial)
        self.outputs = tuple(_info(o) for o in graph.output)
        self._wholes: dict[Signature, _Compiled | None] = {}
        self._segments: dict[str, Executable] = {}
        self.compilations = 0
        """How many functions were compiled for it so far."""
        self.check()

    def check(self) -> None:
        """Find everything that cannot be imported, before anything runs."""
        missing: dict[str, int] = {}
        self._missing(self.proto.graph.node, self._versions, missing)
        if missing:
            told = ", ".join(
                f"{name} ({count}×)" if count > 1 else name for name, count in sorted(missing.items())
            )
            raise Unsupported(f"the model uses ops that planish does not import: {told}")

    def _missing(
        self, nodes: Sequence[onnx.NodeProto], versions: Mapping[str, int], missing: dict[str, int]
    ) -> None:
        for node in nodes:
            domain = _domain(node.domain)
            function = self._functions.get((domain, node.op_type, getattr(node, "overload", "")))
            if function is not None:
                continue
            if registry.find(domain, node.op_type, versions.get(domain, 1)) is None:
                title = f"{domain or 'ai.onnx'}:{node.op_type}"
                missing[title] = missing.get(title, 0) + 1
            for attribute in node.attribute:
                for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                    self._missing(graph.node, versions, missing)
        if nodes is self.proto.graph.node:
            for function in self.proto.functions:
                own = {_domain(i.domain): i.version for i in function.opset_import}
                self._missing(function.node, {**versions, **own}, missing)

    # -- running -----------------------------------------------------------------------------------------------------

    def __call__(self, **feeds: Any) -> list[Any]:
        """All outputs, for inputs by name."""
        return self.run(None, feeds)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs named (None: all), for inputs by name."""
        given = self._given(feeds)
        known = [info.name for info in self.outputs]
        for name in output_names or ():
            if name not in known:
                raise PlanishError(f"the model has no output {name!r}", remedy=f"it has {', '.join(known)}")
        signature = tuple(
            (str(a.dtype), a.shape) if isinstance(a, np.ndarray) else ("sequence", ()) for a in given.values()
        )
        if all(isinstance(a, np.ndarray) and a.dtype != object for a in given.values()):
            if signature not in self._wholes:
                self._wholes[signature] = self._whole(given)
            whole = self._wholes[signature]
            if whole is not None:
                results: list[Any] = list(whole.executable(*given.values(), *whole.weights))
                return self._chosen(results, output_names)
        return self._chosen(self._in_segments(given), output_names)

    def _chosen(self, results: list[Any], names: Sequence[str] | None) -> list[Any]:
        if names is None:
            return results
        known = [info.name for info in self.outputs]
        return [results[known.index(name)] for name in names]

    def _given(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {info.name: info for info in self.inputs}
        for name in feeds:
            if name not in wanted and name not in self._initial:
                raise PlanishError(
                    f"the model has no input {name!r}", remedy=f"it has {', '.join(wanted) or 'none'}"
                )
        given: dict[str, Any] = {}
        for name, info in wanted.items():
            if name not in feeds:
                raise PlanishError(f"input {info} is missing")
            value = feeds[name]
            given[name] = (
                value if isinstance(value, list) or value is None else _checked(info, np.asarray(value))
            )
        return given

    def _whole(self, given: Mapping[str, Array]) -> _Compiled | None:
        """The model as one function of inputs of these types; None if its data decides its shapes."""
        engine = Engine(self._versions, self._functions, None, _name(self.proto))
        names: dict[str, Any] = dict(self._initial)
        for name, array in given.items():
            names[name] = engine.segment.parameter(array)
        count = len(given)
        try:
            outputs = engine.run_graph(self.proto.graph, Scope(names))
        except CannotTrace:
            return None
        if any(not isinstance(value, np.ndarray | GraphValue) for value in outputs):
            return None
        if any(isinstance(value, np.ndarray) and value.dtype == object for value in outputs):
            return None
        values = [engine.segment.value(v) if isinstance(v, np.ndarray) else v for v in outputs]
        function = engine.segment.graph.build(*values)
        self.compilations += 1
        return _Compiled(compile(function), engine.segment.arrays[count:], function)

    def _in_segments(self, given: Mapping[str, Any]) -> list[Any]:
        engine = Engine(self._versions, self._functions, self._execute, _name(self.proto))
        names: dict[str, Any] = dict(self._initial)
        for name, value in given.items():
            plain = isinstance(value, np.ndarray) and value.dtype != object
            names[name] = engine.segment.parameter(value) if plain else value
        outputs = engine.run_graph(self.proto.graph, Scope(names))
        lazy = [value for value in outputs if isinstance(value, GraphValue)]
        results = iter(engine.finish(lazy) if lazy else [])
        return [next(results) if isinstance(value, GraphValue) else value for value in outputs]

    def _execute(self, function: ptir.Function, arrays: Sequence[Array]) -> Sequence[Array]:
        text = ptir.print(function)
        found = self._segments.get(text)
        if found is None:
            found = self._segments[text] = compile(function)
            self.compilations += 1
        return found(*arrays)

    def lower(self, **shapes: Sequence[int]) -> Any:
        """The model for inputs of given shapes, lowered: as_text, compile."""
        from planish.compiler import lower

        given = {
            info.name: np.zeros(tuple(shapes.get(info.name, self._static(info))), info.dtype)
            for info in self.inputs
        }
        whole = self._whole(given)
        if whole is None:
            raise PlanishError(
                "the data of its inputs decides the shapes in this model: it has no single program"
            )
        return lower(whole.function)

    def _static(self, info: TensorInfo) -> tuple[int, ...]:
        found = []
        for dim in info.dims or ():
            size = self.dims.get(dim, None) if isinstance(dim, str) else dim
            if not isinstance(size, int):
                raise ShapeError(
                    f"the size of {dim!r} in {info} is not known", remedy="give the shape of the input"
                )
            found.append(size)
        return tuple(found)


def _name(proto: ModelProto) -> str:
    letters = "".join(c if c.isalnum() else "_" for c in proto.graph.name)
    return letters if letters and not letters[0].isdigit() else f"model_{letters}" if letters else "model"


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _info(value: ValueInfoProto) -> TensorInfo:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return TensorInfo(value.name, kind or "unknown", None)
    tensor = value.type.tensor_type
    if tensor.elem_type == onnx.TensorProto.STRING:
        dtype = "string"
    else:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type else "unknown"
    if not tensor.HasField("shape"):
        return TensorInfo(value.name, dtype, None)
    dims = tuple(d.dim_value if d.HasField("dim_value") else (d.dim_param or None) for d in tensor.shape.dim)
    return TensorInfo(value.name, dtype, dims)


def _checked(info: TensorInfo, array: Array) -> Array:
    if info.dtype not in ("string", "unknown") and str(array.dtype) != info.dtype and array.dtype != object:
        raise PlanishError(
            f"input {info} is given {array.dtype}{list(array.shape)}",
            remedy=f"convert it with .astype({info.dtype!r})",
        )
    if info.dims is not None and (
        len(info.dims) != array.ndim
        or any(isinstance(d, int) and d != s for d, s in zip(info.dims, array.shape, strict=True))
    ):
        raise ShapeError(f"input {info} is given {array.dtype}{list(array.shape)}")
    return array


def load(source: str | Path | bytes | ModelProto, dims: DimSizes | None = None) -> Model:
    """A model from a file, its bytes or its protobuf."""
    if isinstance(source, ModelProto):
        return Model(source, dims)
    if isinstance(source, bytes):
        return Model(_parsed(source, "the model"), dims)
    path = Path(source)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise PlanishError(f"cannot read {path}: {error.strerror or error}") from None
    return Model(_parsed(raw, str(path)), dims, str(path.parent))


def _parsed(raw: bytes, what: str) -> ModelProto:
    try:
        return onnx.load_model_from_string(raw)
    except Exception as error:
        raise PlanishError(f"{what} is not an ONNX model: {error}") from None


__all__ = ["Model", "TensorInfo", "load"]

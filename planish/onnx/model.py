"""A loaded model: its inputs and outputs, and how it is run.

For given types of the inputs a model is imported once. If nothing in it depends on data that only the inputs have, it is one
compiled function from then on; else it runs in segments (see `engine`), compiled as they are met, and the way through them
is kept (see `tape`). A dim that `dims` gives bounds is compiled once for all its sizes, where every op of the model allows that.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto

import planish.onnx.ops  # noqa: F401 - fills the registry
from planish import dtypes, ptir
from planish.compiler import Lowered, compile, lower
from planish.errors import OutOfMemoryError, PlanishError, ShapeError
from planish.onnx import wire
from planish.onnx.checking import check, domain_of, key_of
from planish.onnx.engine import Compile, Importer
from planish.onnx.information import Bounds, DimSizes, PortInfo, checked, describe
from planish.onnx.preparing import Prepared, prepared
from planish.onnx.scope import NameScope
from planish.onnx.segment import on_device
from planish.onnx.site import CannotTrace
from planish.onnx.status import InvalidArgument, InvalidProtobuf, MissingInput, NoSuchFile
from planish.onnx.tape import Call, Tape, TapeRecorder
from planish.onnx.tensors import dense, to_array
from planish.onnx.whole import Dynamic, WholeProgram
from planish.ptir.graph_value import GraphValue
from planish.ptir.types import MAX_RANK, Dim, DimLike

Array = NDArray[Any]
Signature = tuple[Any, ...]


class Model:
    """An ONNX model. `interpret` runs it by the reference interpreter: slow, and by definition right."""

    def __init__(
        self,
        proto: ModelProto,
        dims: DimSizes | None = None,
        folder: str | None = None,
        *,
        weights: Mapping[int, memoryview] | None = None,
        data: memoryview | None = None,
        interpret: bool = False,
    ) -> None:
        self.proto = proto
        self._data = data
        self.dims: dict[str, int | Bounds] = dict(dims or {})
        self._folder = folder
        self.make: Compile = interpreted if interpret else compile
        """What makes a call of a function: the compiler, unless somebody wants to watch."""
        self._versions = {domain_of(i.domain): i.version for i in proto.opset_import} or {"": 1}
        self._functions = {key_of(f): f for f in proto.functions}
        graph = self._graph = proto.graph
        check(proto, self._functions, self._versions)
        kept = weights or {}
        self._initial: dict[str, Array] = {
            t.name: to_array(t, folder, kept.get(n)) for n, t in enumerate(graph.initializer)
        }
        self._initial |= {s.values.name: dense(s, folder) for s in graph.sparse_initializer}
        self.inputs: tuple[PortInfo, ...] = tuple(
            describe(i) for i in graph.input if i.name not in self._initial
        )  # fmt: skip
        self.optional_inputs: tuple[PortInfo, ...] = tuple(
            describe(i) for i in graph.input if i.name in self._initial
        )
        """Inputs that need not be given: the model has values for them."""
        self.outputs: tuple[PortInfo, ...] = tuple(describe(o) for o in graph.output)
        self._tapes: dict[Signature, Tape] = {}
        self._right: dict[tuple[object, ...], tuple[str, ...]] = {}
        """The order of inputs whose dtypes and shapes were found right."""
        self._dynamic: dict[Signature, Dynamic | None] = {}
        self._compiled: dict[str, Call] = {}
        self._prepared: Prepared = {}
        self.compilations = 0
        """How many functions were compiled for it so far."""
        for name in self.dims:
            if not any(name in (info.dims or ()) for info in self.inputs):
                raise ShapeError(f"no input of the model has a dim {name!r}", remedy=self._named_dims())

    def _named_dims(self) -> str:
        names = dict.fromkeys(d for info in self.inputs for d in info.dims or () if isinstance(d, str))
        return f"its named dims are {', '.join(names)}" if names else "it has no named dims"

    # -- running -----------------------------------------------------------------------------------------------------

    def __call__(self, **feeds: Any) -> list[Any]:
        """All outputs, for inputs by name."""
        return self.run(None, feeds)

    def __repr__(self) -> str:
        taken = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<ONNX model {self._graph.name}: {len(self._graph.node)} nodes, {taken}>"

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """The outputs named (None: all), for inputs by name."""
        if output_names:
            known = [info.name for info in self.outputs]
            for name in output_names:
                if name not in known:
                    raise InvalidArgument(
                        f"the model has no output {name!r}", remedy=f"it has {', '.join(known)}"
                    )
        given = self._given(feeds)
        try:
            results = self._run(given)
        except MemoryError as error:
            if isinstance(error, PlanishError):
                raise
            raise OutOfMemoryError(
                f"out of memory while the model ran: {error}", remedy="a smaller batch"
            ) from None
        if not output_names:
            return results
        by_name = dict(zip([info.name for info in self.outputs], results, strict=True))
        return [by_name[name] for name in output_names]

    def _run(self, given: Mapping[str, Any]) -> list[Any]:
        flat: list[Array] = []
        signature = tuple((name, _signature(value, flat)) for name, value in given.items())
        bounded = self._bounded(given)
        if bounded:
            dynamic = self._for_bounds(given, bounded)
            if dynamic is not None:
                return dynamic(list(given.values()))
        tape = self._tapes.get(signature)
        if tape is None:
            tape = self._tapes[signature] = Tape()
        else:
            outputs = tape.replay(flat)
            if outputs is not None:
                return outputs
        return self._record(given, tape, flat)

    def _record(self, given: Mapping[str, Any], tape: Tape, flat: Sequence[Array]) -> list[Any]:
        """Import the model for these inputs, running it on the way."""
        engine = self._engine(TapeRecorder(tape, flat))
        names: dict[str, Any] = {}
        for name, value in given.items():
            names[name] = _entered(engine, value)
        outputs = engine.run_graph(self._graph, NameScope(names))
        return engine.outputs(outputs)

    def _engine(self, recorder: TapeRecorder | None) -> Importer:
        engine = Importer(
            self._versions, self._functions, recorder, self._compile, name_of(self.proto), self._folder
        )
        engine.give_initializers(self._graph, self._initial)
        engine.prepared = self._prepared
        return engine

    def _compile(self, function: ptir.Function) -> Call:
        text = ptir.print(function)
        call = self._compiled.get(text)
        if call is None:
            self.compilations += 1
            call = self._compiled[text] = self.make(function)
        return call

    def _given(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """What is given for the inputs, checked; arrays of dtypes and shapes that were right before are not checked again."""
        told = tuple([(name, x.dtype, x.shape) for name, x in feeds.items() if type(x) is np.ndarray])
        if len(told) == len(feeds) and told in self._right:
            return {name: feeds[name] for name in self._right[told]}
        given = self._checked(feeds)
        if len(told) == len(given) and all(given[name] is feeds[name] for name, *_ in told):
            self._right[told] = tuple(given)
        return given

    def complete(self, feeds: Mapping[str, Any]) -> None:
        """An error if an input is not among these."""
        for info in self.inputs:
            if info.name not in feeds and not info.is_optional:
                raise MissingInput(f"input {info} is missing")

    def save(self, path: str | Path) -> None:
        """Write the model to a file, as it was read."""
        Path(path).write_bytes(self.proto.SerializeToString() if self._data is None else self._data)

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {info.name: info for info in self.inputs}
        optional = {info.name: info for info in self.optional_inputs}
        for name in feeds:
            if name not in wanted and name not in optional:
                raise InvalidArgument(
                    f"the model has no input {name!r}", remedy=f"it has {', '.join(wanted) or 'none'}"
                )
        self.complete(feeds)
        given: dict[str, Any] = {}
        for name, info in (wanted | optional).items():
            if name in feeds:
                given[name] = checked(info, feeds[name], self.dims)
            elif name in wanted:
                given[name] = None
        return given

    # -- named dims --------------------------------------------------------------------------------------------------

    def _bounded(self, given: Mapping[str, Any]) -> dict[str, tuple[DimLike, ...]]:
        """The dims of inputs that have one with bounds."""
        ranges = {name: size for name, size in self.dims.items() if not isinstance(size, int)}
        if not ranges:
            return {}
        dims: dict[str, tuple[DimLike, ...]] = {}
        for info in self.inputs:
            value = given.get(info.name)
            if not isinstance(value, np.ndarray) or info.dims is None:
                continue
            dims[info.name] = tuple(
                Dim.named(_letters(d), *ranges[d]) if isinstance(d, str) and d in ranges else size
                for d, size in zip(info.dims, value.shape, strict=True)
            )
        return dims

    def _for_bounds(
        self, given: Mapping[str, Any], dims: Mapping[str, tuple[DimLike, ...]]
    ) -> Dynamic | None:
        """One function for all sizes within the bounds; None if an op of the model does not allow it."""
        key = tuple((name, tuple(map(str, sizes))) for name, sizes in dims.items())
        if key not in self._dynamic:
            self._dynamic[key] = None
            if all(isinstance(v, np.ndarray) and on_device(v.dtype) for v in given.values()):
                try:
                    program = self._whole(given, dims)
                    self._dynamic[key] = Dynamic(self._compile(program.function), program.weights)
                except PlanishError:
                    # an op needs to know the size: one compilation per size then
                    return None
        return self._dynamic[key]

    def _whole(
        self, given: Mapping[str, Array], dims: Mapping[str, Sequence[DimLike]] | None = None
    ) -> WholeProgram:
        """The model as one function of inputs of these types."""
        engine = self._engine(None)
        names: dict[str, Any] = {}
        for name, array in given.items():
            names[name] = engine.segment.parameter(array, (dims or {}).get(name))
        outputs = engine.run_graph(self._graph, NameScope(names))
        if any(not isinstance(v, np.ndarray | GraphValue) for v in outputs):
            raise CannotTrace("an output of the model is a sequence")
        if any(isinstance(v, np.ndarray) and not on_device(v.dtype) for v in outputs):
            raise CannotTrace("an output of the model is text, or of a dtype that programs do not have")
        values = [engine.segment.value(v) if isinstance(v, np.ndarray) else v for v in outputs]
        function, arrays = engine.segment.graph.build(*values), engine.segment.arrays
        fixed = [n >= len(given) for n in range(len(arrays))]
        function, arrays = prepared(function, arrays, fixed, self._prepared)
        return WholeProgram(function, arrays[len(given) :])

    def program(self, shapes: Mapping[str, Sequence[int]] | None = None) -> WholeProgram:
        """The model as one PTIR function for inputs of given shapes, and the weights to give it after them."""
        given: dict[str, Array] = {}
        dims: dict[str, tuple[DimLike, ...]] = {}
        for info in self.inputs:
            sizes = info.sizes(self.dims, (shapes or {}).get(info.name))
            dims[info.name] = tuple(
                s if isinstance(s, int) else Dim.named(_letters(s[0]), *s[1]) for s in sizes
            )
            least = [s if isinstance(s, int) else s[1][0] for s in sizes]
            given[info.name] = _nothing(least, info)
        try:
            return self._whole(given, dims)
        except CannotTrace as error:
            raise PlanishError(
                f"the data of its inputs decides the shapes in this model, it has no single program: {error.message}"
            ) from None

    def lower(self, **shapes: Sequence[int]) -> Lowered:
        """The model for inputs of given shapes, lowered: as_text, compile."""
        return lower(self.program(shapes).function)


def _nothing(shape: Sequence[int], info: PortInfo) -> Array:
    """An array that stands for an input of a shape, and has no memory of its own."""
    dtype = np.dtype(dtypes.from_numpy(np.dtype(info.dtype)).numpy)
    if len(shape) > MAX_RANK or math.prod(shape) * dtype.itemsize >= 1 << 63:
        raise ShapeError(f"no array has the shape of the input {info}")
    return np.broadcast_to(np.zeros((), dtype), shape)


def interpreted(function: ptir.Function) -> Call:
    """A call by the reference interpreter."""

    def call(*arrays: Array) -> Sequence[Array]:
        return ptir.interpret(function, arrays)

    return call


def _signature(value: Any, flat: list[Array]) -> Any:
    """The type of an input; its arrays are added to `flat`."""
    if isinstance(value, list):
        return [_signature(item, flat) for item in value].__repr__()
    if not isinstance(value, np.ndarray):
        return repr(value)
    flat.append(value)
    # text is looked at while importing: it is part of the signature
    return value.dtype, value.shape, None if on_device(value.dtype) else repr(value.tolist())


def _entered(engine: Importer, value: Any) -> Any:
    if isinstance(value, list):
        return [_entered(engine, item) for item in value]
    if isinstance(value, np.ndarray) and on_device(value.dtype):
        return engine.segment.parameter(value)
    return value


def name_of(proto: ModelProto) -> str:
    """The name of the graph, as a program can have it."""
    letters = _letters(proto.graph.name)[:60]
    return letters if letters and not letters[0].isdigit() else f"model_{letters}" if letters else "model"


def _letters(name: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in name)


def load(source: str | Path | bytes | ModelProto, dims: DimSizes | None = None) -> Model:
    """A model from a file, its bytes or its protobuf. Weights in files stay there until they are needed."""
    if isinstance(source, ModelProto):
        return Model(source, dims)
    if isinstance(source, bytes):
        return _parsed(memoryview(source), "the model", dims, None)
    path = Path(source)
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise NoSuchFile(f"cannot read {path}: {error.strerror or error}") from None
    except ValueError:
        raise InvalidProtobuf(f"{path} is empty") from None
    return _parsed(memoryview(mapped), str(path), dims, str(path.parent))


def _parsed(data: memoryview, what: str, dims: DimSizes | None, folder: str | None) -> Model:
    try:
        slimmed = wire.slim(data)
        proto = onnx.load_model_from_string(slimmed.message)
    except PlanishError as error:
        raise InvalidProtobuf(f"{what} is not an ONNX model: {error.message}") from None
    except Exception as error:  # noqa: BLE001 - protobuf has several ways to say so
        raise InvalidProtobuf(f"{what} is not an ONNX model: {error}") from None
    if not proto.HasField("graph"):
        raise InvalidProtobuf(f"{what} is not an ONNX model: it has no graph")
    weights = {n: data[start:end] for n, (start, end) in slimmed.weights.items()}
    return Model(proto, dims, folder, weights=weights, data=data)


__all__ = ["Model", "load"]

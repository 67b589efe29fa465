"""A loaded model: its inputs and outputs, and how it is run.

For given types of the inputs a model is imported once. If nothing in it depends on data that only the inputs have, it is one
compiled function from then on; else it runs in segments (see `engine`), compiled as they are met, and the way through them
is kept (see `tape`), on disk too (see `kept_tapes`). Where every op of the model allows it, there is one program for all sizes
of dims that the model leaves open (see `any_size`).
"""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto

from planish import dtypes, ptir
from planish.compiler import Lowered, compile, lower
from planish.compiler.arguments import DeviceArray
from planish.compiler.compilation_cache import disk_cache, key_of
from planish.compiler.progress import ProgressLine
from planish.errors import OutOfMemoryError, PlanishError, ShapeError
from planish.onnx import kept_tapes, wire
from planish.onnx.any_size import AnySize
from planish.onnx.checking import domain_of
from planish.onnx.gpu_calls import on_gpu
from planish.onnx.information import Bounds, DimSizes, PortInfo, checked, describe
from planish.onnx.lengths import Lengths
from planish.onnx.maps import take_map_inputs, take_maps, zipped
from planish.onnx.prepared_weights import Prepared
from planish.onnx.status import InvalidArgument, InvalidProtobuf, MissingInput, NoSuchFile
from planish.onnx.tape import Call, Tape, fetched
from planish.onnx.tensors import dense, letters_of, to_array
from planish.ptir.types import MAX_RANK, Dim, DimLike

if TYPE_CHECKING:
    from planish.onnx.whole import WholeProgram

Array = NDArray[Any]
Signature = tuple[Any, ...]
_MOST: Final = 1 << 30
"""Bytes of a model that are read to know it again; a larger one is imported in every process."""


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
        files: int = 0,
        interpret: bool = False,
    ) -> None:
        self.proto = proto
        told = tuple(describe(o) for o in proto.graph.output)
        self._maps = take_maps(proto)
        """The outputs that are lists of dictionaries, and their keys."""
        ports = tuple(describe(i) for i in proto.graph.input)
        self._rows = take_map_inputs(proto, ports)
        """The inputs that are dictionaries, and what is read of them."""
        self._data = data
        self._files = files
        """At most so many tensors are in other files, those inside of nodes counted."""
        self.dims: dict[str, int | Bounds] = dict(dims or {})
        self.folder = folder
        self.make: Callable[[ptir.Function], Call] = interpreted if interpret else compile
        """What makes a call of a function: the compiler, unless somebody wants to watch."""
        self.versions = {domain_of(i.domain): i.version for i in proto.opset_import} or {"": 1}
        self.functions = {
            (domain_of(f.domain), f.name, getattr(f, "overload", "")): f for f in proto.functions
        }
        graph = self._graph = proto.graph
        self.is_ready = False
        """Whether it has been looked through, in this process."""
        self.lock = threading.RLock()
        kept = weights or {}
        self._external = {t.name for t in graph.initializer if t.data_location == TensorProto.EXTERNAL}
        if self._external or not self._was_checked():
            self._check()
        self.initial: dict[str, Array] = {
            t.name: to_array(t, folder, kept.get(n)) for n, t in enumerate(graph.initializer)
        }
        self.initial |= {s.values.name: dense(s, folder) for s in graph.sparse_initializer}
        self.inputs: tuple[PortInfo, ...] = tuple(port for port in ports if port.name not in self.initial)
        self.optional_inputs: tuple[PortInfo, ...] = tuple(
            port for port in ports if port.name in self.initial
        )
        """Inputs that need not be given: the model has values for them."""
        self.outputs: tuple[PortInfo, ...] = told
        self._tapes: dict[Signature, Tape] = {}
        self._right: dict[tuple[object, ...], tuple[str, ...]] = {}
        """The order of inputs whose dtypes and shapes were found right."""
        self._compiled: dict[str, Call] = {}
        self._signatures: dict[int, kept_tapes.Signature] = {}
        """The functions that were compiled, by the ids of their calls."""
        self.prepared = Prepared()
        """Work on weights that was done already."""
        self.compilations = 0
        """How many functions were compiled for it so far."""
        self.sizes = AnySize(self)
        """The programs for sizes within bounds; `sizes.reason` says why there are none."""
        self.lengths = Lengths()
        """Lengths that data decides; `lengths.reason` says why each has a program of its own."""
        for name in self.dims:
            if not any(name in (info.dims or ()) for info in self.inputs):
                raise ShapeError(f"no input of the model has a dim {name!r}", remedy=self._named_dims())

    def to_device(self, device: str) -> None:
        """From now on it runs there: `cpu`, or a GPU such as `cuda:0`."""
        with self.lock:
            self.make = compile if device == "cpu" else on_gpu(device)
            for known in (self._tapes, self._compiled, self._signatures):
                known.clear()
            self.prepared = Prepared()
            self.prepared.packed = device != "cpu"
            self.sizes = AnySize(self)

    def _check(self) -> None:
        from planish.onnx import importing

        importing.ready(self)
        if not self._external and self._digest is not None:
            disk_cache().put(key_of("onnx model", self._digest), b"checked")

    def _was_checked(self) -> bool:
        """Whether an earlier process has looked at these very bytes, and found nothing wrong."""
        return self._digest is not None and disk_cache().get(key_of("onnx model", self._digest)) is not None

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

    def run(
        self, output_names: Sequence[str] | None, feeds: Mapping[str, Any], *, on_device: bool = False
    ) -> list[Any]:
        """The outputs named (None: all), for inputs by name; `on_device`: a GPU's results may stay there."""
        if output_names:
            known = [info.name for info in self.outputs]
            for name in output_names:
                if name not in known:
                    raise InvalidArgument(
                        f"the model has no output {name!r}", remedy=f"it has {', '.join(known)}"
                    )
        given = self._given(feeds)
        try:
            results = self._run(given, on_device=on_device)
        except MemoryError as error:
            if isinstance(error, PlanishError):
                raise
            raise OutOfMemoryError(
                f"out of memory while the model ran: {error}", remedy="a smaller batch"
            ) from None
        for position, keys in self._maps.items():
            results[position] = zipped(results[position], keys)
        if not output_names:
            return results
        by_name = dict(zip([info.name for info in self.outputs], results, strict=True))
        return [by_name[name] for name in output_names]

    def _run(self, given: Mapping[str, Any], *, on_device: bool = False) -> list[Any]:
        flat: list[Array] = []
        signature = tuple((name, _signature(value, flat)) for name, value in given.items())
        tape = self._tapes.get(signature)
        if tape is not None:
            results = tape.replay(flat, on_device=on_device)
            if results is not None:
                return results
        given, flat = dict(zip(given, fetched(list(given.values())), strict=True)), fetched(flat)
        if tape is None:
            tape = self.sizes.program(given, signature)
            outputs = None if tape is None else tape.replay(flat)
            if outputs is not None:
                return outputs
            tape = self._tapes[signature] = self.kept(signature) or Tape()
            outputs = tape.replay(flat)
            if outputs is not None:
                return outputs
        return self.record(given, tape, flat, signature)

    def record(
        self, given: Mapping[str, Any], tape: Tape, flat: Sequence[Array], signature: Signature
    ) -> list[Any]:
        """Import the model for these inputs, running it on the way; the tape is theirs from then on."""
        from planish.onnx import importing

        with self.lock:
            outputs, can_repeat = importing.record(self, given, tape, flat)
            if can_repeat:
                self.keep(signature, tape=tape)
            self._tapes[signature] = tape
        return outputs

    def compiled(self, function: ptir.Function) -> Call:
        """A call of a function, compiled if there is none of the same text."""
        text = ptir.print(function)
        call = self._compiled.get(text)
        if call is None:
            self.compilations += 1
            call = self._compiled[text] = self.make(function)
            if self.make is compile:
                self._signatures[id(call)] = kept_tapes.Signature.of(function, text)
        return call

    # -- what earlier processes have found out -----------------------------------------------------------------------

    def kept(self, *said: object) -> Tape | None:
        """The tape of an earlier process."""
        if self._digest is None or self.make is not compile:
            return None
        where = kept_tapes.key_for(self._digest, self.dims, said)
        entry = kept_tapes.load(where, self.initial, self.prepared.layouts)
        if entry is None:
            return None
        self.compilations += len(entry.functions)
        self._signatures |= entry.functions
        return entry.tape

    def keep(self, *said: object, tape: Tape) -> None:
        if self._digest is not None and self.make is compile and tape.first:
            where = kept_tapes.key_for(self._digest, self.dims, said)
            kept_tapes.save(where, tape, self._signatures, self.initial, self.prepared.layouts)

    @cached_property
    def _digest(self) -> str | None:
        """Of the bytes of the model and of its files; None if it has too many to look at, or some that are hard to find."""
        external = [self.initial[name] for name in self._external]
        if sum(array.nbytes for array in external) + len(self._data or b"") > _MOST:
            return None
        message = self.proto.SerializeToString() if self._data is None else self._data
        if self._files > len(external):
            return None
        parts = [np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in external]
        return kept_tapes.digest_of([message, *parts])

    # -- inputs ------------------------------------------------------------------------------------------------------

    def _given(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """What is given for the inputs, checked; arrays of dtypes and shapes that were right before are not checked again."""
        if type(feeds) is not dict:
            self.check_by_name(feeds)
        told = tuple([(name, x.dtype, x.shape) for name, x in feeds.items() if type(x) is np.ndarray])
        if len(told) == len(feeds) and told in self._right:
            return {name: feeds[name] for name in self._right[told]}
        given = self._checked(feeds)
        if len(told) == len(given) and all(given[name] is feeds[name] for name, *_ in told):
            self._right[told] = tuple(given)
        return given

    def check_by_name(self, feeds: object) -> None:
        """An error if inputs are not given by name."""
        if not isinstance(feeds, Mapping):
            names = ", ".join(info.name for info in self.inputs)
            raise InvalidArgument(
                f"inputs are given by name, not as a {type(feeds).__name__}",
                remedy=f"a dict with {names}" if names else "{}: the model has none",
            )

    def complete(self, feeds: Mapping[str, Any]) -> None:
        """An error if an input is not among these."""
        self.check_by_name(feeds)
        for info in self.inputs:
            if info.name not in feeds and not info.is_optional:
                raise MissingInput(f"input {info} is missing")

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {info.name: info for info in self.inputs}
        optional = {info.name: info for info in self.optional_inputs}
        for name in feeds:
            if name not in wanted and name not in optional:
                kind = InvalidArgument if wanted.keys() <= feeds.keys() else MissingInput
                raise kind(f"the model has no input {name!r}", remedy=f"it has {', '.join(wanted) or 'none'}")
        self.complete(feeds)
        given: dict[str, Any] = {}
        for name, info in (wanted | optional).items():
            if name in self._rows:
                given |= {row.name: row.of(info, feeds[name]) for row in self._rows[name]}
            elif name in feeds:
                given[name] = checked(info, feeds[name], self.dims)
            elif name in wanted:
                given[name] = None
        return given

    # -- as a program -----------------------------------------------------------------------------------------------

    def program(self, shapes: Mapping[str, Sequence[int]] | None = None) -> WholeProgram:
        """The model as one PTIR function for inputs of given shapes, and the weights to give it after them."""
        from planish.onnx import importing

        given: dict[str, Array] = {}
        dims: dict[str, tuple[DimLike, ...]] = {}
        for info in self.inputs:
            sizes = info.sizes(self.dims, (shapes or {}).get(info.name))
            dims[info.name] = tuple(
                s if isinstance(s, int) else Dim.named(letters_of(s[0]), *s[1]) for s in sizes
            )
            least = [s if isinstance(s, int) else s[1][0] for s in sizes]
            given[info.name] = _nothing(least, info)
        try:
            return importing.whole(self, given, dims)
        except importing.CannotTrace as error:
            raise PlanishError(
                f"the data of its inputs decides the shapes in this model, it has no single program: {error.message}"
            ) from None

    def lower(self, **shapes: Sequence[int]) -> Lowered:
        """The model for inputs of given shapes, lowered: as_text, compile."""
        return lower(self.program(shapes).function)

    def save(self, path: str | Path) -> None:
        """Write the model to a file, as it was read."""
        Path(path).write_bytes(self.proto.SerializeToString() if self._data is None else self._data)


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


def _signature(value: Any, flat: list[Any]) -> Any:
    """The type of an input; its arrays are added to `flat`."""
    if isinstance(value, list):
        return [_signature(item, flat) for item in value].__repr__()
    if not isinstance(value, np.ndarray | DeviceArray):
        return repr(value)
    flat.append(value)
    return value.dtype, value.shape


def load(
    source: str | Path | bytes | ModelProto, dims: DimSizes | None = None, *, device: str = "cpu"
) -> Model:
    """A model from a file, its bytes or its protobuf. Weights in files stay there until they are needed."""
    with ProgressLine(f"loading {source}" if isinstance(source, str | Path) else "loading a model"):
        model = _read(source, dims)
    if device != "cpu":
        model.to_device(device)
    return model


def _read(source: str | Path | bytes | ModelProto, dims: DimSizes | None) -> Model:
    if isinstance(source, ModelProto):
        raw = source.SerializeToString()
        return Model(ModelProto.FromString(raw), dims, files=raw.count(b"location"))
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
    files = slimmed.message.count(b"location")
    return Model(proto, dims, folder, weights=weights, data=data, files=files)


__all__ = ["Model", "load"]
